"""Help, palette and command line: the same verbs, complete."""

from __future__ import annotations

from typing import Any

import pytest
from textual.command import CommandPalette
from textual.widgets import Input, OptionList

from infer.tui.places import available
from infer.tui.screens.command import CommandScreen
from infer.tui.screens.confirm import ConfirmScreen
from infer.tui.screens.help import HelpScreen, help_lines, key_table
from infer.tui.screens.model import ModelScreen
from infer.tui.verbs import offered


@pytest.mark.parametrize("keys", [(), ("enter",), ("slash",)], ids=["models", "model", "filter"])
async def test_the_help_has_every_key_that_does_something(opened: Any, keys: tuple[str, ...]) -> None:
    async with opened() as (app, pilot):
        await pilot.press(*keys)
        await pilot.pause()
        text = "\n".join(line.plain for line in help_lines(app.screen))
        for active in app.screen.active_bindings.values():
            shown = app.get_key_display(active.binding)
            words = active.tooltip or active.binding.description
            assert words, f"{active.binding.key} says nothing of itself"
            assert any(shown in line and words in line for line in text.splitlines()), (shown, words)


async def test_every_binding_of_ours_explains_itself(opened: Any) -> None:
    async with opened() as (app, pilot):
        for keys in ((), ("enter",)):
            await pilot.press(*keys)
            await pilot.pause()
            for node in (app, app.screen, app.focused):
                ours = node is not None and type(node).__module__.startswith("infer.")
                for binding in type(node).BINDINGS if ours else ():
                    assert binding.tooltip, binding


@pytest.mark.parametrize("key", ["question_mark", "f1"])
async def test_help_opens_over_a_screen_scrolls_and_closes(opened: Any, key: str, screen_text: Any) -> None:
    async with opened() as (app, pilot):
        await pilot.press(key)
        await pilot.pause()
        assert isinstance(app.screen, HelpScreen)
        assert "Open what is selected" in screen_text(app)
        await pilot.press("end")
        await pilot.pause()
        assert "infer model unload MODEL" in screen_text(app)
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is app.front


async def test_keys_that_are_not_allowed_are_marked_in_the_help(opened: Any) -> None:
    async with opened(read_only=True) as (app, _):
        lines = [line.plain for line in help_lines(app.screen)]
        assert any("Unload what is marked" in line and "(not allowed now)" in line for line in lines)


async def test_no_key_means_two_things_on_a_screen(opened: Any) -> None:
    async with opened() as (app, pilot):
        for keys in ((), ("enter",)):
            await pilot.press(*keys)
            await pilot.pause()
            table = key_table(app.screen)
            own = [key for group in list(table)[:2] for keys, _, _ in table[group].values() for key in keys]
            assert len(own) == len(set(own))


def options(app: Any) -> list[str]:
    found = app.screen.query_one(OptionList)
    return [found.get_option_at_index(index).prompt.plain for index in range(found.option_count)]


async def test_the_palette_offers_every_verb_with_its_line_for_the_shell(opened: Any, until: Any) -> None:
    async with opened((120, 60)) as (app, pilot):
        await pilot.press("ctrl+p")
        assert isinstance(app.screen, CommandPalette)
        verbs = offered(place.name for place in available())
        await until(pilot, lambda: len(options(app)) >= len(verbs), "the entries")
        shown = "\n".join(options(app))
        for verb in verbs:
            assert verb.hint("digits" if verb.takes_model == "required" else "") in shown, verb


async def test_the_palette_finds_a_verb_for_any_model_and_does_it(opened: Any, until: Any) -> None:
    async with opened((120, 60)) as (app, pilot):
        await pilot.press("ctrl+p", *"unload", "space", *"simple")
        await until(pilot, lambda: options(app) and "infer model unload simple" in options(app)[0], "the entry")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, ConfirmScreen), "the question")


async def test_a_read_only_palette_offers_no_changes(opened: Any, until: Any) -> None:
    async with opened((120, 60), read_only=True) as (app, pilot):
        await pilot.press("ctrl+p")
        await until(pilot, lambda: len(options(app)) > 5, "the entries")
        assert not any("unload" in option for option in options(app))


async def command(pilot: Any, line: str) -> None:
    await pilot.press("colon")
    pilot.app.screen.query_one(Input).value = line
    await pilot.press("enter")
    await pilot.pause()


async def test_commands_do_what_their_keys_do(opened: Any) -> None:
    async with opened() as (app, pilot):
        await command(pilot, "m simple")
        assert isinstance(app.screen, ModelScreen)
        await command(pilot, "models")
        assert app.front.MODE == "models"
        await command(pilot, "unload simple")
        assert isinstance(app.screen, ConfirmScreen)
        await pilot.press("escape")
        await command(pilot, "q")
    assert app.return_value == "detach"


async def test_a_command_that_is_wrong_is_told_where_it_is_typed(opened: Any, screen_text: Any) -> None:
    async with opened() as (app, pilot):
        await command(pilot, "unload nobody")
        assert isinstance(app.screen, CommandScreen)
        assert "there is no model 'nobody'" in screen_text(app)
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is app.front


async def test_commands_are_completed_by_tab(opened: Any, screen_text: Any) -> None:
    async with opened() as (app, pilot):
        await pilot.press("colon", "u", "n")
        await pilot.pause()
        assert "unload" in screen_text(app)
        await pilot.press("tab", "s", "tab")
        assert app.screen.query_one(Input).value == "unload simple"


async def test_an_empty_command_closes_the_line(opened: Any) -> None:
    async with opened() as (app, pilot):
        await pilot.press("colon", "enter")
        await pilot.pause()
        assert app.screen is app.front
