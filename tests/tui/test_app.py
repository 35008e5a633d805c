"""The app around the screens: the link, leaving, the last words, the terminal."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest

from infer.tui import app as app_module
from infer.tui.app import DashboardApp, run_dashboard
from infer.tui.cadence import State
from infer.tui.failure import ClientError, Kind
from infer.tui.screens.quit import QuitScreen
from infer.tui.themes import DARK, LIGHT
from infer.tui.widgets.key_bar import KeyBar

AWAY = ClientError("cannot reach a server at http://127.0.0.1:8002", "connection refused", kind=Kind.NO_CONNECTION)


async def test_something_is_shown_before_the_server_answers(
    make_app: Any, source: Any, screen_text: Any, until: Any
) -> None:
    source.gate.clear()
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert "waiting for the first picture" in screen_text(app)
        assert "connecting" in screen_text(app)
        source.gate.set()
        await until(pilot, lambda: "2/2 ready" in screen_text(app), "the picture")
        assert "live" in screen_text(app)


async def test_a_server_that_goes_away_leaves_its_last_picture_greyed_with_a_countdown(
    make_app: Any, source: Any, screen_text: Any, until: Any
) -> None:
    app = make_app(interval_s=1.0)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "simple" in screen_text(app), "the picture")
        source.error = AWAY
        app.poller.now()
        await until(pilot, lambda: app.link.state is State.LOST, "the loss")
        await pilot.pause()
        assert re.search(r"NO ANSWER · again in \d+ s", screen_text(app))
        assert "simple" in screen_text(app)
        assert app.screen.query_one("#body").has_class("-stale")
        source.error = None
        app.poller.now()
        await until(pilot, lambda: app.link.state is State.LIVE, "the return")
        await pilot.pause()
        assert not app.screen.query_one("#body").has_class("-stale")
        assert "live" in screen_text(app)


async def test_a_server_that_never_answered_is_named_with_the_reason(
    make_app: Any, source: Any, screen_text: Any, until: Any
) -> None:
    source.error = AWAY
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "cannot reach a server" in screen_text(app), "the reason")
        assert "connection refused" in screen_text(app)


async def test_a_server_that_restarted_begins_a_new_history(make_app: Any, source: Any, until: Any) -> None:
    from dataclasses import replace

    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        for count in (1, 2, 3):
            await until(pilot, lambda count=count: len(app.history.pictures) == count, "pictures")
            app.poller.now()
        source.server = replace(source.server, pid=2, now=source.server.now - 1000)
        app.poller.now()
        await until(pilot, lambda: app.history.latest.server.pid == 2, "the new server")
        assert len(app.history.pictures) == 1


async def test_a_pause_is_shown_and_stops_the_questions(
    make_app: Any, source: Any, screen_text: Any, until: Any
) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.history.latest, "a picture")
        await pilot.press("p")
        await until(pilot, lambda: "PAUSED" in screen_text(app), "the word")
        asked = len(source.calls)
        await pilot.press("ctrl+r")
        assert len(source.calls) == asked
        await pilot.press("p")
        await until(pilot, lambda: len(source.calls) > asked, "the next question")


async def test_the_interval_is_shown_and_follows_the_keys(make_app: Any, screen_text: Any, until: Any) -> None:
    app = make_app(interval_s=5.0)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "live · 5 s" in screen_text(app), "the interval")
        await pilot.press("plus")
        await until(pilot, lambda: "live · 10 s" in screen_text(app), "a longer one")
        await pilot.press("minus", "minus", "minus")
        await until(pilot, lambda: "live · 1 s" in screen_text(app), "a shorter one")


@pytest.mark.parametrize(
    ("keys", "outcome"),
    [
        (("enter",), "leave"),
        (("l",), "leave"),
        (("l", "l", "s"), "leave"),
        (("enter", "enter"), "leave"),
        (("s",), "stop"),
        (("right", "enter"), "stop"),
        (("tab", "enter"), "stop"),
    ],
)
@pytest.mark.parametrize("opener", ["q", "ctrl+c", "ctrl+q"])
async def test_an_owned_server_is_asked_about(make_app: Any, opener: str, keys: tuple[str, ...], outcome: str) -> None:
    app = make_app(owned=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(opener)
        assert isinstance(app.screen, QuitScreen)
        await pilot.press(*keys)
    assert app.return_value == outcome


@pytest.mark.parametrize("key", ["escape", "ctrl+c"])
async def test_leaving_can_be_called_off(make_app: Any, key: str) -> None:
    app = make_app(owned=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("q")
        await pilot.press(key)
        await pilot.pause()
        assert app.screen is app.front
        assert app.is_running
        await pilot.press("q", "l")
    assert app.return_value == "leave"


async def test_a_server_of_somebody_else_is_not_asked_about(make_app: Any) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("q")
    assert app.return_value == "detach"


async def test_the_theme_is_dark_and_t_makes_it_light(make_app: Any) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        assert app.theme == DARK.name
        await pilot.press("t")
        assert app.theme == LIGHT.name
        await pilot.press("t")
        assert app.theme == DARK.name


async def test_without_colour_everything_is_grey(make_app: Any, monkeypatch: pytest.MonkeyPatch, until: Any) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.history.latest, "a picture")
        await pilot.pause()
        assert app.no_color
        styles = [segment.style for line in app.screen._compositor.render_strips() for segment in line if segment.style]
        colours = {one.triplet for style in styles for one in (style.color, style.bgcolor) if one and one.triplet}
        assert colours
        assert all(max(colour) == min(colour) for colour in colours)


async def test_an_ascii_terminal_gets_ascii_only(
    make_app: Any, monkeypatch: pytest.MonkeyPatch, screen_text: Any, until: Any
) -> None:
    monkeypatch.setenv("INFER_ASCII", "1")
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.history.latest, "a picture")
        for keys in ((), ("u",), ("escape", "enter"), ("question_mark",), ("escape", "ctrl+p")):
            await pilot.press(*keys)
            await pilot.pause()
            assert screen_text(app).isascii()


@pytest.mark.parametrize("size", [(79, 24), (80, 23), (40, 10), (20, 5)])
async def test_a_terminal_that_is_too_small_is_told_so(make_app: Any, size: tuple[int, int], screen_text: Any) -> None:
    app = make_app()
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        assert "80 columns" in " ".join(screen_text(app).split())
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert "80 columns" not in screen_text(app)


async def test_the_keys_that_are_valid_are_on_the_last_line(make_app: Any, until: Any, screen_text: Any) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.history.latest, "a picture")
        await pilot.pause()
        last = screen_text(app).splitlines()[-1]
        assert last.strip() == "enter Open space Mark o Load u Unload r Reload / Filter ? Help : Command q Quit"


async def test_a_click_on_a_key_presses_it(make_app: Any, until: Any) -> None:
    app = make_app(owned=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.history.latest, "a picture")
        await pilot.pause()
        await pilot.click(KeyBar, offset=(76, 0))
        await until(pilot, lambda: isinstance(app.screen, QuitScreen), "the question")


async def test_the_mouse_can_be_turned_off_and_on(make_app: Any) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        assert app.mouse
        await pilot.press("m")
        assert not app.mouse
        await pilot.press("m")
        assert app.mouse


def test_the_last_words_are_a_summary_and_the_answer_says_what_was_chosen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], source: Any
) -> None:
    def run(app: DashboardApp, *, mouse: bool) -> str | None:
        app.history.add(source.overview())
        return answers.pop(0)

    answers: list[str | None] = ["stop", None, None]
    monkeypatch.setattr(app_module.DashboardApp, "run", run)
    assert run_dashboard(source, owned=True) == "stop"
    assert "default at 127.0.0.1:8000: ready, up 1 min, 2 of 2 models ready" in capsys.readouterr().out
    assert run_dashboard(source, owned=True) == "leave"
    assert run_dashboard(source, owned=False) == "detach"


def test_the_environment_can_leave_the_mouse_to_the_terminal(monkeypatch: pytest.MonkeyPatch, source: Any) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(app_module.DashboardApp, "run", lambda app, *, mouse: asked.append(mouse))
    run_dashboard(source, owned=False)
    monkeypatch.setenv("INFER_NO_MOUSE", "1")
    run_dashboard(source, owned=False)
    assert asked == [True, False]


def test_leaving_does_not_wait_for_a_server_that_does_not_answer() -> None:
    """The whole process ends, though a thread of it waits for an answer for a minute."""
    script = (
        "import socket, sys\n"
        "from infer.tui.app import DashboardApp\n"
        "from infer.tui.client import Client\n"
        "from infer.tui.source import ServerSource\n"
        "silent = socket.create_server(('127.0.0.1', 0))\n"
        "source = ServerSource(Client(f'http://127.0.0.1:{silent.getsockname()[1]}', timeout=300))\n"
        "async def leave(pilot):\n"
        "    await pilot.pause(0.2)\n"
        "    await pilot.press('q')\n"
        "print(DashboardApp(source).run(headless=True, size=(80, 24), auto_pilot=leave))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == ["detach"], done.stderr
