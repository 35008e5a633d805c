"""The table of models: what fits, what is said, in which order."""

from __future__ import annotations

from typing import Any

import pytest
from rich.cells import cell_len

from infer.tui import columns
from infer.tui.columns import BY_NAME, COLUMNS, Cell, Row, Sorting, clip, everything, layout, padded
from infer.tui.rates import Rates
from infer.tui.snapshot import Instance, ModelSnapshot


def row(name: str = "m", rates: Rates | None = None, **fields: Any) -> Row:
    fields = {"version": "1", "state": "READY", **fields}
    return Row(ModelSnapshot(name, **fields), rates or Rates())


def text(column: str, of: Row, width: int = 20) -> str:
    return BY_NAME[column].cell(of, width).text


@pytest.mark.parametrize("width", range(80, 260, 7))
def test_columns_never_take_more_than_there_is(width: int) -> None:
    assert sum(taken + 1 for _, taken in layout(width, 30, 40)) <= width


def test_eighty_columns_have_what_an_operator_looks_at_first() -> None:
    shown = [column.name for column, _ in layout(80, 16, 0)]
    assert {"mark", "name", "state", "requests", "p99", "queue", "failures", "trend"} <= set(shown)
    assert shown == [column.name for column in COLUMNS if column.name in shown]


def test_a_wide_screen_has_every_column() -> None:
    assert len(layout(200, 16, 0)) == len(COLUMNS)


def test_room_that_is_left_goes_to_names_first() -> None:
    narrow = {column.name: width for column, width in layout(80, 30, 0)}
    assert narrow["name"] > BY_NAME["name"].least
    assert {column.name: width for column, width in layout(140, 30, 0)}["name"] == 30


def test_all_columns_can_be_had_on_a_narrow_screen() -> None:
    shown = {column.name: width for column, width in everything(60, 50)}
    assert list(shown) == [column.name for column in COLUMNS]
    assert shown["name"] == 60


@pytest.mark.parametrize(
    "column", [column for column in COLUMNS if column.name != "name"], ids=lambda column: column.name
)
def test_cells_are_as_wide_as_their_column_whatever_they_hold(column: columns.Column) -> None:
    extreme = row(
        "日本語" * 20,
        Rates(requests_s=123_456.7, p50_us=99_999_999.0, p99_us=1e9, batch_size=1e6),
        reason="a\nreason " * 20,
        success=10**12,
        failures={"OTHER": 10**9},
        pending=10**9,
        in_flight=10**9,
        backend="a-backend-with-a-long-name",
        instances=tuple(Instance(f"i{n}", memory_bytes=10**15, state="dead") for n in range(1000)),
    )
    for one in (extreme, row(), Row(ModelSnapshot("never loaded"), Rates())):
        cell = padded(column.cell(one, column.least), column, column.least)
        assert cell_len(cell.text) == column.least
        assert cell.style in columns.STYLES


def test_figures_stand_on_the_right_and_words_on_the_left() -> None:
    assert padded(Cell("7"), BY_NAME["requests"], 4).text == "   7"
    assert padded(Cell("a"), BY_NAME["name"], 4).text == "a   "


@pytest.mark.parametrize(
    ("given", "width", "expected"),
    [
        ("simple", 6, "simple"),
        ("simple", 5, "simp…"),
        ("日本語", 5, "日本…"),
        ("日本語", 4, "日…"),
        ("a\nb\tc", 9, "a b c"),
        ("x", 0, ""),
    ],
)
def test_what_does_not_fit_ends_in_an_ellipsis(given: str, width: int, expected: str) -> None:
    assert clip(given, width) == expected


def test_a_state_is_a_sign_and_a_word_and_a_reason_where_there_is_room() -> None:
    broken = row(state="UNAVAILABLE", reason="no such file")
    assert text("state", broken, 40) == "✗ UNAVAILABLE: no such file"
    assert text("state", broken, 13) == "✗ UNAVAILABLE"
    assert text("state", row()) == "● READY"
    assert text("state", row(state="", version="")) == "○ not loaded"


def test_a_model_that_is_being_changed_says_so() -> None:
    assert BY_NAME["state"].cell(Row(ModelSnapshot("m"), Rates(), changing="loading"), 13) == Cell("◐ loading", "warn")


def test_what_an_operator_must_see_has_a_sign_beside_its_colour() -> None:
    failing = row(rates=Rates(failures_s=0.5), failures={"OTHER": 3})
    assert BY_NAME["failures"].cell(failing, 6) == Cell("3!", "bad")
    assert BY_NAME["queue"].cell(row(pending=9, max_batch_size=8), 6) == Cell("9!", "warn")
    assert BY_NAME["queue"].cell(row(pending=8, max_batch_size=8), 6) == Cell("8", "")
    half = row(instances=(Instance("a", state="idle"), Instance("b", state="dead")))
    assert BY_NAME["instances"].cell(half, 5) == Cell("1/2!", "bad")


def test_nothing_and_zero_step_back() -> None:
    assert BY_NAME["requests"].cell(row(), 6) == Cell("0", "dim")
    assert BY_NAME["p99"].cell(row(), 7) == Cell("-", "dim")
    assert BY_NAME["memory"].cell(row(), 7) == Cell("-", "dim")


def names(sorting: Sorting, *rows: Row) -> str:
    return "".join(one.model.name for one in sorting.sort(rows))


def test_figures_are_sorted_from_the_largest_and_back_again() -> None:
    rows = [row(name, Rates(requests_s=value)) for name, value in (("a", 1.0), ("b", 3.0), ("c", 2.0))]
    largest = Sorting().by("requests")
    assert names(largest, *rows) == "bca"
    assert names(largest.by("requests"), *rows) == "acb"


def test_equal_rows_keep_the_order_of_their_names() -> None:
    rows = [row(name, Rates(requests_s=1.0)) for name in "cab"]
    assert names(Sorting("requests", descending=True), *rows) == "abc"
    assert names(Sorting("requests", descending=False), *rows) == "abc"


def test_rows_without_a_value_stand_at_the_end_whichever_way_it_goes() -> None:
    rows = [row("a"), row("b", Rates(p99_us=5.0)), row("c", Rates(p99_us=9.0))]
    assert names(Sorting("p99", descending=True), *rows) == "cba"
    assert names(Sorting("p99", descending=False), *rows) == "bca"


def test_names_are_sorted_without_regard_to_case() -> None:
    assert names(Sorting(), row("b"), row("A"), row("C")) == "AbC"


def test_every_column_can_be_sorted_by() -> None:
    rows = [
        row("a"),
        Row(ModelSnapshot("b"), Rates()),
        row("c", Rates(1.0, 1.0, 1.0, 1.0, 1.0, 1.0), pending=1, in_flight=1),
    ]
    for column in COLUMNS:
        assert len(Sorting().by(column.name).sort(rows)) == 3


def test_letters_that_sort_are_capitals_and_no_two_are_the_same() -> None:
    keys = [column.key for column in COLUMNS if column.key]
    assert all(key.isupper() for key in keys)
    assert len(keys) == len(set(keys))


def test_a_filter_looks_at_name_state_backend_and_reason() -> None:
    one = row("bert", state="UNAVAILABLE", backend="torch", reason="out of memory")
    assert all(word in one.filter_text for word in ("bert", "UNAVAILABLE", "torch", "out of memory"))
