"""The screen of one model."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import pytest

from infer.tui.failure import ClientError
from infer.tui.snapshot import Instance, LogRecord

REFUSED = ClientError("the server refused it", "the model is not loaded", "load it first")


@pytest.fixture
def model(opened: Any) -> Any:
    """Opens `digits`: ``async with model(size) as (app, pilot)``."""

    @contextlib.asynccontextmanager
    async def run(size: tuple[int, int] = (80, 24), keys: tuple[str, ...] = ("enter",)) -> Any:
        async with opened(size) as (app, pilot):
            await pilot.press(*keys)
            await pilot.pause()
            yield app, pilot

    return run


async def test_figures_phases_batches_and_graphs_are_on_the_first_tab(model: Any, screen_text: Any) -> None:
    for size in ((80, 24), (120, 40)):
        async with model(size) as (app, _):
            text = screen_text(app)
            assert "▸ digits 1" in text
            for words in ("● READY", "version 1", "backend onnxruntime", "answered 1000", "queue", "compute_infer"):
                assert words in text, words
            assert "batch sizes since the load" in text
            assert "requests/s  0 now" in text
            assert "p99  - now" in text


async def test_the_tabs_go_round_by_brackets(model: Any) -> None:
    async with model() as (app, pilot):
        seen = []
        for _ in range(6):
            seen.append(app.screen.query_one("TabbedContent").active)
            await pilot.press("right_square_bracket")
            await pilot.pause()
        assert seen == ["overview", "io", "instances", "config", "log", "overview"]
        await pilot.press("left_square_bracket")
        await pilot.pause()
        assert app.screen.query_one("TabbedContent").active == "overview"


async def test_inputs_and_outputs_come_from_the_metadata(model: Any, until: Any, screen_text: Any) -> None:
    async with model() as (app, pilot):
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: "INPUT1" in screen_text(app), "the inputs")
        assert "[any, 16]" in screen_text(app)


async def test_the_configuration_is_one_key_away(model: Any, until: Any, screen_text: Any) -> None:
    async with model(keys=("y",)) as (app, pilot):
        await until(pilot, lambda: '"max_batch_size": 8' in screen_text(app), "the configuration")
        await pilot.press("escape")
        await pilot.pause()
        assert app.front.subject == "digits"


async def test_what_cannot_be_asked_for_says_why(model: Any, source: Any, until: Any, screen_text: Any) -> None:
    async with model() as (app, pilot):
        source.error = REFUSED
        await pilot.press("y")
        await until(pilot, lambda: "why  the model is not loaded" in screen_text(app), "the reason")
        assert "fix  load it first" in screen_text(app)


async def test_instances_are_listed_with_state_memory_and_restarts(
    model: Any, source: Any, make_model: Any, until: Any, screen_text: Any
) -> None:
    instances = (
        Instance("digits_0_0", "KIND_GPU", 1, "busy", 4711, 84 << 20, 3),
        Instance("digits_0_1", "KIND_CPU", -1, "dead", None, None, 0),
    )
    source.models["digits"] = make_model("digits", instances=instances)
    async with model((120, 40)) as (app, pilot):
        await pilot.press("right_square_bracket", "right_square_bracket")
        await until(pilot, lambda: "digits_0_1" in screen_text(app), "the instances")
        first, second = (line for line in screen_text(app).splitlines() if "digits_0_" in line)
        assert first.split() == ["digits_0_0", "KIND_GPU", "GPU", "1", "busy", "4711", "84", "MB", "3"]
        assert second.split() == ["digits_0_1", "KIND_CPU", "CPU", "dead", "server", "-", "0"]


async def test_the_log_of_the_model_follows(model: Any, source: Any, until: Any, screen_text: Any) -> None:
    source.log_records = [LogRecord(1, 1.8e9, "ERROR", "it [b]broke[/b]", model="digits")]
    async with model() as (app, pilot):
        await pilot.press("l")
        await until(pilot, lambda: "it [b]broke[/b]" in screen_text(app), "the record")
        source.log_records.append(LogRecord(2, 1.8e9, "INFO", "mended", model="digits"))
        source.log_records.append(LogRecord(3, 1.8e9, "INFO", "elsewhere", model="simple"))
        app.poller.now()
        await until(pilot, lambda: "mended" in screen_text(app), "the next record")
        assert "elsewhere" not in screen_text(app)
        assert screen_text(app).count("broke") == 1


async def test_a_model_without_records_says_so(model: Any, until: Any, screen_text: Any) -> None:
    async with model() as (app, pilot):
        await pilot.press("l")
        await until(pilot, lambda: "the log has no records of digits" in screen_text(app), "the sentence")


async def test_a_model_that_vanished_is_told(model: Any, source: Any, until: Any, screen_text: Any) -> None:
    async with model() as (app, pilot):
        del source.models["digits"]
        app.poller.now()
        await until(pilot, lambda: "no longer in the server's repository" in screen_text(app), "the sentence")


async def test_a_version_that_is_replaced_by_the_next_is_followed(
    model: Any, source: Any, until: Any, screen_text: Any
) -> None:
    async with model() as (app, pilot):
        source.models["digits"] = replace(source.models["digits"], version="2")
        app.poller.now()
        await until(pilot, lambda: "version 2" in screen_text(app), "the new version")


async def test_a_long_reason_is_wrapped_and_the_graphs_stay(
    model: Any, source: Any, make_model: Any, screen_text: Any
) -> None:
    source.models["digits"] = make_model("digits", state="UNAVAILABLE", reason="it did not load because " * 12)
    async with model() as (app, _):
        assert screen_text(app).count("it did not load") >= 3
        assert "requests/s" in screen_text(app)
