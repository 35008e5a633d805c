"""The table of models under the hands of a user."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from infer.tui.screens.model import ModelScreen
from infer.tui.widgets.filter_bar import FilterBar
from infer.tui.widgets.model_table import ModelTable


def table(app: Any) -> ModelTable:
    return app.front.query_one(ModelTable)


def names(app: Any) -> list[str]:
    return [row.model.name for row in table(app).rows_shown]


def fill(source: Any, make_model: Any, *rows: str, **fields: Any) -> None:
    source.models = {name: make_model(name, **fields) for name in rows}


async def picture(app: Any, pilot: Any, until: Any) -> None:
    """One more picture."""
    before = app.history.latest
    app.poller.now()
    await until(pilot, lambda: app.history.latest is not before, "another picture")
    await pilot.pause()


async def test_every_model_has_a_row(opened: Any, screen_text: Any) -> None:
    async with opened() as (app, _):
        text = screen_text(app)
        assert "2 models" in text
        assert names(app) == ["digits", "simple"]
        assert text.count("● READY") == 2
        assert "80 MB" in text


async def test_rows_come_and_go_with_the_server(opened: Any, source: Any, make_model: Any, until: Any) -> None:
    async with opened() as (app, pilot):
        source.models["new"] = make_model("new")
        del source.models["digits"]
        await picture(app, pilot, until)
        assert names(app) == ["new", "simple"]


async def test_the_cursor_moves_by_letters_and_arrows(opened: Any, source: Any, make_model: Any) -> None:
    fill(source, make_model, *(f"m{number:02}" for number in range(50)))
    async with opened() as (app, pilot):
        for keys, expected in (
            (("j", "j"), 2), (("down",), 3), (("k",), 2), (("up",), 1), (("G",), 49), (("j",), 49), (("g",), 0),
            (("k",), 0), (("end",), 49), (("home",), 0), (("pagedown",), 19), (("pageup",), 0), (("ctrl+d",), 19),
            (("ctrl+u",), 0),
        ):  # fmt: skip
            await pilot.press(*keys)
            assert table(app).cursor_row == expected, keys


async def test_the_row_under_the_cursor_is_always_in_view(
    opened: Any, source: Any, make_model: Any, screen_text: Any
) -> None:
    fill(source, make_model, *(f"m{number:02}" for number in range(50)))
    async with opened() as (app, pilot):
        await pilot.press("G")
        await pilot.pause()
        assert "m49" in screen_text(app)
        assert "model" in screen_text(app).splitlines()[3]
        await pilot.press("g")
        await pilot.pause()
        assert "m00" in screen_text(app)


async def test_the_cursor_stays_on_its_model_when_the_order_changes(
    opened: Any, source: Any, make_model: Any, until: Any
) -> None:
    fill(source, make_model, "a", "b", "c")
    async with opened() as (app, pilot):
        await pilot.press("R", "j")
        assert app.front.subject == "b"
        source.models["c"] = replace(source.models["c"], success=5000)
        await picture(app, pilot, until)
        assert names(app)[0] == "c"
        assert app.front.subject == "b"
        assert table(app).cursor_row == 2


async def test_the_cursor_goes_to_the_next_row_where_its_own_is_gone(
    opened: Any, source: Any, make_model: Any, until: Any
) -> None:
    fill(source, make_model, "a", "b", "c")
    async with opened() as (app, pilot):
        await pilot.press("j")
        del source.models["b"]
        await picture(app, pilot, until)
        assert app.front.subject == "c"
        del source.models["c"]
        await picture(app, pilot, until)
        assert app.front.subject == "a"


async def test_a_letter_sorts_and_the_same_letter_turns_it_round(
    opened: Any, source: Any, make_model: Any, screen_text: Any
) -> None:
    source.models = {name: make_model(name, pending=pending) for name, pending in (("a", 1), ("b", 3), ("c", 2))}
    async with opened() as (app, pilot):
        await pilot.press("Q")
        assert names(app) == ["b", "c", "a"]
        assert "queue▼" in screen_text(app)
        await pilot.press("Q")
        assert names(app) == ["a", "c", "b"]
        assert "queue▲" in screen_text(app)
        await pilot.press("N")
        assert names(app) == ["a", "b", "c"]


async def test_a_click_on_a_title_sorts_and_one_on_a_row_selects(opened: Any, source: Any, make_model: Any) -> None:
    source.models = {name: make_model(name, pending=pending) for name, pending in (("a", 1), ("b", 3), ("c", 2))}
    async with opened() as (app, pilot):
        titles = table(app).titled
        queue = sum(width for name, _, width in titles[: [name for name, _, _ in titles].index("queue")]) + 1
        await pilot.click(ModelTable, offset=(queue, 0))
        await pilot.pause()
        assert names(app) == ["b", "c", "a"]
        await pilot.click(ModelTable, offset=(5, 1))
        await pilot.pause()
        assert app.front.subject == "b"
        await pilot.click(ModelTable, offset=(5, 1))
        await pilot.pause()
        assert isinstance(app.screen, ModelScreen)


async def test_arrows_of_the_keyboard_sort_by_the_next_column(opened: Any) -> None:
    async with opened() as (app, pilot):
        await pilot.press("greater_than_sign")
        assert table(app).sorting.column == "state"
        await pilot.press("less_than_sign", "less_than_sign")
        assert table(app).sorting.column == "trend"


async def test_a_filter_works_while_it_is_typed_and_stays_in_sight(
    opened: Any, source: Any, make_model: Any, screen_text: Any, until: Any
) -> None:
    fill(source, make_model, "bert", "bert_tokenizer", "resnet")
    async with opened() as (app, pilot):
        await pilot.press("slash", "b", "e")
        await pilot.pause()
        assert names(app) == ["bert", "bert_tokenizer"]
        await pilot.press("enter")
        await pilot.pause()
        assert "/be" in screen_text(app)
        assert "2 shown, esc clears" in screen_text(app)
        assert app.focused is table(app)
        source.models["beta"] = make_model("beta")
        await picture(app, pilot, until)
        assert names(app) == ["bert", "bert_tokenizer", "beta"]
        await pilot.press("escape")
        await pilot.pause()
        assert len(names(app)) == 4
        assert app.screen is app.front


async def test_a_filter_can_leave_out_and_be_no_expression_at_all(
    opened: Any, source: Any, make_model: Any, screen_text: Any
) -> None:
    fill(source, make_model, "bert", "resnet")
    async with opened() as (app, pilot):
        await pilot.press("slash", "exclamation_mark", "b")
        await pilot.pause()
        assert names(app) == ["resnet"]
        await pilot.press("escape")
        await pilot.pause()
        assert len(names(app)) == 2
        await pilot.press("slash", "left_square_bracket")
        await pilot.pause()
        assert names(app) == []
        assert "the filter leaves nothing" in screen_text(app)
        await pilot.press("escape")
        assert not app.front.query_one(FilterBar).display


async def test_marks_are_set_counted_and_taken_away(opened: Any, screen_text: Any) -> None:
    async with opened() as (app, pilot):
        await pilot.press("space")
        assert table(app).marked == ("digits",)
        assert table(app).cursor_row == 1
        assert "✓ 1 marked" in screen_text(app)
        await pilot.press("a")
        assert len(table(app).marked) == 2
        await pilot.press("a")
        assert table(app).marked == ()
        await pilot.press("space", "escape")
        assert table(app).marked == ()


async def test_a_mark_goes_with_its_model(opened: Any, source: Any, until: Any) -> None:
    async with opened() as (app, pilot):
        await pilot.press("space")
        del source.models["digits"]
        await picture(app, pilot, until)
        assert table(app).marked == ()


async def test_the_reason_of_the_selected_model_is_there_in_full(
    opened: Any, source: Any, make_model: Any, screen_text: Any
) -> None:
    reason = "failed to load: " + "the file is 12 bytes long and no model; " * 3
    source.models = {"a": make_model("a"), "b": make_model("b", state="UNAVAILABLE", reason=reason)}
    async with opened() as (app, pilot):
        assert "12 bytes" not in screen_text(app)
        await pilot.press("j")
        await pilot.pause()
        assert " ".join(screen_text(app).split()).count("12 bytes") == 3


async def test_all_columns_can_be_had_and_scrolled_to(opened: Any, screen_text: Any) -> None:
    async with opened() as (app, pilot):
        assert "backend" not in screen_text(app)
        await pilot.press("w")
        await pilot.pause()
        assert table(app).max_scroll_x > 0
        await pilot.press(*["right"] * 90)
        await pilot.pause()
        assert "trend" in screen_text(app)
        await pilot.press("w")
        await pilot.pause()
        assert table(app).max_scroll_x == 0


async def test_a_wider_terminal_shows_more_columns(opened: Any, screen_text: Any) -> None:
    async with opened() as (app, pilot):
        assert "p50" not in screen_text(app)
        await pilot.resize_terminal(160, 40)
        await pilot.pause()
        assert all(word in screen_text(app) for word in ("p50", "backend", "inst", "batch"))


async def test_only_rows_that_changed_are_drawn_again(
    opened: Any, source: Any, make_model: Any, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(source, make_model, *(f"m{number:02}" for number in range(15)))
    async with opened() as (app, pilot):
        await picture(app, pilot, until)
        drawn: list[int] = []
        render = ModelTable.render_line
        monkeypatch.setattr(ModelTable, "render_line", lambda self, y: (drawn.append(y), render(self, y))[1])
        await picture(app, pilot, until)
        assert drawn == []
        source.models["m03"] = replace(source.models["m03"], pending=7)
        await picture(app, pilot, until)
        assert set(drawn) == {4}


@pytest.mark.parametrize("name", ["[bold]x[/bold]", "[/]", "日本語モデル", "a" * 200, "x\ty", "$error", "👩‍👩‍👧"])
async def test_odd_names_are_shown_as_they_are_and_harm_nothing(
    opened: Any, source: Any, make_model: Any, name: str, screen_text: Any
) -> None:
    fill(source, make_model, name, reason="[red]because[/red] of\nmarkup", state="UNAVAILABLE", in_flight=1)
    async with opened((120, 40)) as (app, pilot):
        for keys in ((), ("u",), ("escape", "enter"), ("right_square_bracket",), ("l",), ("escape", "ctrl+p")):
            await pilot.press(*keys)
            await pilot.pause()
        await pilot.press("escape")
        await pilot.pause()
        shown = screen_text(app)
        assert name[:5].strip() in shown or not name[:5].isascii() or "\t" in name
        assert "[red]because[/red]" in shown


async def test_no_models_at_all_is_said(opened: Any, source: Any, screen_text: Any) -> None:
    source.models = {}
    async with opened() as (app, pilot):
        await pilot.press("j", "space", "u", "enter", "a", "R", "c", "l")
        await pilot.pause()
        assert "no models: the server's repository is empty" in screen_text(app)


async def test_a_hundred_models_can_be_scrolled_through(opened: Any, source: Any, make_model: Any) -> None:
    fill(source, make_model, *(f"m{number:03}" for number in range(100)))
    async with opened() as (app, pilot):
        await pilot.press("G")
        assert app.front.subject == "m099"


async def test_enter_opens_the_model_and_escape_comes_back(opened: Any, screen_text: Any) -> None:
    async with opened() as (app, pilot):
        await pilot.press("j", "enter")
        await pilot.pause()
        assert isinstance(app.screen, ModelScreen)
        assert "▸ simple 1" in screen_text(app)
        await pilot.press("escape")
        await pilot.pause()
        assert app.front.subject == "simple"


async def test_a_name_can_be_copied(opened: Any) -> None:
    async with opened() as (app, pilot):
        await pilot.press("c")
        assert app.clipboard == "digits"
