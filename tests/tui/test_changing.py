"""Loading and unloading from the dashboard: what is asked, what is refused, what is told afterwards."""

from __future__ import annotations

from typing import Any

import pytest
from textual.widgets import Button

from infer.tui.failure import ClientError
from infer.tui.screens.confirm import ConfirmScreen
from infer.tui.screens.quit import QuitScreen
from infer.tui.screens.results import ResultsScreen

REFUSED = ClientError("the server refused it", "model.py has no class TritonPythonModel", "add the class, then reload")


def changes(source: Any) -> list[tuple[str, ...]]:
    return [call for call in source.calls if call[0] in ("load", "unload")]


@pytest.mark.parametrize(("key", "verb"), [("o", "load"), ("u", "unload"), ("r", "reload")])
async def test_a_change_is_asked_about_and_cancel_stands_first(opened: Any, source: Any, key: str, verb: str) -> None:
    async with opened() as (app, pilot):
        await pilot.press(key)
        await pilot.pause()
        assert isinstance(app.screen, ConfirmScreen)
        assert isinstance(app.focused, Button)
        assert str(app.focused.label).startswith("Cancel")
        await pilot.press("enter")
        await pilot.pause()
        assert app.screen is app.front
        await pilot.press(key, "escape", key, key, "escape")
        await pilot.pause()
        assert changes(source) == []


@pytest.mark.parametrize(
    ("keys", "call"),
    [
        (("u", "y"), "unload"),
        (("o", "y"), "load"),
        (("r", "right", "enter"), "load"),
        (("u", "tab", "enter"), "unload"),
    ],
)
async def test_a_change_is_carried_out_once_it_is_confirmed(
    opened: Any, source: Any, keys: tuple[str, ...], call: str, until: Any, screen_text: Any
) -> None:
    async with opened() as (app, pilot):
        await pilot.press(*keys)
        await until(pilot, lambda: "loaded in" in screen_text(app), "the result")
        assert changes(source) == [(call, "digits")]
        assert app.screen is app.front


async def test_a_dialog_names_requests_and_models_that_are_concerned(
    opened: Any, source: Any, make_model: Any, screen_text: Any
) -> None:
    source.models = {"step": make_model("step", in_flight=3), "zflow": make_model("zflow", depends_on=("step",))}
    async with opened() as (app, pilot):
        await pilot.press("u")
        await pilot.pause()
        words = " ".join(screen_text(app).replace("│", " ").split())
        assert "step: 3 requests are in flight" in words
        assert "step is a step of zflow; it cannot answer without it." in words
        assert "infer model unload step" in words


async def test_the_screen_goes_on_while_a_change_is_under_way(
    opened: Any, source: Any, until: Any, screen_text: Any
) -> None:
    async with opened() as (app, pilot):
        source.gate.clear()
        await pilot.press("u", "y")
        await until(pilot, lambda: changes(source), "the call")
        await until(pilot, lambda: "unloading digits" in screen_text(app), "a word about it")
        await pilot.press("j")
        assert app.front.subject == "simple"
        source.gate.set()
        await until(pilot, lambda: "digits unloaded in" in screen_text(app), "the result")
        await until(pilot, lambda: app.history.latest.model("digits").state == "UNAVAILABLE", "the new picture")


async def test_leaving_while_a_change_is_under_way_asks(opened: Any, source: Any, until: Any, screen_text: Any) -> None:
    async with opened() as (app, pilot):
        source.gate.clear()
        await pilot.press("o", "y")
        await until(pilot, lambda: changes(source), "the call")
        await pilot.press("q")
        await pilot.pause()
        assert isinstance(app.screen, QuitScreen)
        assert "loading digits" in screen_text(app)
        await pilot.press("l")
    assert app.return_value == "detach"


async def test_a_failure_is_shown_with_reason_and_mend_until_it_is_read(
    opened: Any, source: Any, until: Any, screen_text: Any
) -> None:
    source.refused = {"digits": REFUSED}
    async with opened() as (app, pilot):
        await pilot.press("o", "y")
        await until(pilot, lambda: isinstance(app.screen, ResultsScreen), "the result")
        await pilot.pause()
        text = screen_text(app)
        assert "load digits: the server refused it" in text
        assert "why  model.py has no class TritonPythonModel" in text
        assert "fix  add the class, then reload" in text
        await pilot.press("enter")
        await pilot.pause()
        assert app.screen is app.front


async def test_marked_models_are_changed_together_and_a_table_says_what_came_of_each(
    opened: Any, source: Any, until: Any, screen_text: Any
) -> None:
    source.refused = {"simple": REFUSED}
    async with opened() as (app, pilot):
        await pilot.press("a", "u")
        await pilot.pause()
        assert "Unload 2 models?" in screen_text(app)
        await pilot.press("y")
        await until(pilot, lambda: isinstance(app.screen, ResultsScreen), "the results")
        await pilot.pause()
        assert sorted(changes(source)) == [("unload", "digits"), ("unload", "simple")]
        text = screen_text(app)
        assert "1 of 2 unloaded" in text
        assert "digits  unloaded" in text
        assert "simple  failed" in text


async def test_a_read_only_dashboard_changes_nothing(opened: Any, source: Any, screen_text: Any) -> None:
    async with opened(read_only=True) as (app, pilot):
        assert "read-only: this dashboard is read-only" in screen_text(app)
        enabled = {active.binding.key: active.enabled for active in app.screen.active_bindings.values()}
        assert not any(enabled[key] for key in "our")
        await pilot.press("u", "o", "r")
        assert app.screen is app.front
        app.perform("unload", "simple")
        await pilot.pause()
        assert app.screen is app.front
        assert changes(source) == []


async def test_a_server_that_says_why_it_may_not_be_changed_is_believed(
    opened: Any, source: Any, screen_text: Any, until: Any
) -> None:
    from dataclasses import replace

    source.server = replace(source.server, changes="this client has no key: set INFER_CONTROL_KEY")
    async with opened((120, 40)) as (app, pilot):
        assert "this client has no key" in screen_text(app)
        await pilot.press("u")
        assert app.screen is app.front
        source.server = replace(source.server, changes="")
        app.poller.now()
        await until(pilot, lambda: not app.refusal, "the next picture")
        await pilot.press("u")
        await pilot.pause()
        assert isinstance(app.screen, ConfirmScreen)
