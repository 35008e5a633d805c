"""Host and GPUs: numbers beside every bar, at every size, and a word where there is nothing to show."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from infer.tui.demo import DemoServer
from infer.tui.snapshot import Gpu, Overview

START = 1_800_000_000.0


class ManyGpus(DemoServer):
    """The made-up server with eight GPUs."""

    def overview(self) -> Overview:
        found = super().overview()
        gpus = tuple(replace(found.gpus[0], index=index, uuid=f"GPU-{index}") for index in range(8))
        return replace(found, gpus=gpus)


def text(app: Any) -> str:
    """What the terminal shows, line by line."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_machine_and_its_gpus_are_shown_with_numbers(make_app: Any, until: Any, size: Any) -> None:
    now = [START]
    app = make_app(source=DemoServer(lambda: now[0], lambda _: None))
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: app.history.latest, "a picture")
        now[0] += 2
        app.poller.now()
        await until(pilot, lambda: len(app.history.pictures) == 2, "a second picture")
        await pilot.press("2")
        await until(pilot, lambda: "GPU 1" in text(app), "the gauges")
        shown = text(app)
        for words in ("34% of a core", "37% of 16 CPUs, load 3.40", "27 GB of 64 GB", "202 W of 300 W", "57 °C"):
            assert words in shown
        assert "▅" in shown


async def test_many_gpus_are_scrolled_to(make_app: Any, until: Any) -> None:
    app = make_app(source=ManyGpus(lambda: START, lambda _: None))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.history.latest, "a picture")
        await pilot.press("2")
        await until(pilot, lambda: "GPU 0" in text(app), "the first GPU")
        assert "GPU 7" not in text(app)
        await pilot.press("G")
        await until(pilot, lambda: "GPU 7" in text(app), "the last GPU")
        await pilot.press("g")
        await until(pilot, lambda: "Server" in text(app), "the top again")


async def test_a_machine_without_gpu_says_why(make_app: Any, until: Any) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.history.latest, "a picture")
        await pilot.press("2")
        await until(pilot, lambda: "none: no NVIDIA driver on this machine" in text(app), "the reason")
        assert text(app).count("no NVIDIA driver") == 1


async def test_what_is_high_has_a_sign_beside_its_colour(make_app: Any, source: Any, until: Any) -> None:
    source.host = replace(source.host, cpu_utilization=0.97)
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.history.latest, "a picture")
        await pilot.press("2")
        await until(pilot, lambda: "!97% of 2 CPUs" in text(app), "the mark")


async def test_a_gpu_with_brackets_in_its_name_is_no_markup(make_app: Any, until: Any) -> None:
    class Odd(DemoServer):
        def overview(self) -> Overview:
            return replace(super().overview(), gpus=(Gpu(0, "GPU-a", "[red]X[/", 0.5),))

    app = make_app(source=Odd(lambda: START, lambda _: None))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.history.latest, "a picture")
        await pilot.press("2")
        await until(pilot, lambda: "[red]X[/" in text(app), "the name as it is")


@pytest.mark.parametrize("key", ["2", "3", "4"])
async def test_every_screen_works_without_colours_and_on_white(
    make_app: Any, until: Any, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    words = {"2": "GPU 1", "3": "following", "4": "input_ids"}[key]
    app = make_app(source=DemoServer(lambda: START, lambda _: None))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.history.latest, "a picture")
        await pilot.press("t", key)
        await until(pilot, lambda: words in text(app), "the screen")
        assert app.no_color
        assert app.theme == "infer-light"
