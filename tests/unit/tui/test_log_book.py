"""The log is kept, filtered and laid out without losing, inventing or obeying anything."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from infer.tui.filtering import Filter
from infer.tui.log_book import NOTE, LogBook, Row, Wanted, chop, clean, clock, found, next_match, rows
from infer.tui.snapshot import LogPage, LogRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

NOON = 1_800_014_400.25


def record(seq: int, message: str = "hello", level: str = "INFO", model: str = "") -> LogRecord:
    return LogRecord(seq, NOON + seq, level, message, model=model)


def page(first: int, last: int, *, lost: int = 0, newest: int | None = None) -> LogPage:
    return LogPage(newest or last, lost, tuple(record(seq) for seq in range(first, last + 1)))


def texts(shown: Sequence[Row]) -> list[str]:
    return [f"{row.head}{row.model}{row.text}" for row in shown]


def test_pages_are_read_on_from_the_last_record() -> None:
    book = LogBook()
    assert [one.seq for one in book.take(page(5, 7))] == [5, 6, 7]
    assert book.last == 7
    assert book.take(LogPage(7)) == []
    assert [one.seq for one in book.take(page(8, 9))] == [8, 9]
    assert [one.seq for one in book.records] == [5, 6, 7, 8, 9]


def test_a_page_that_is_not_the_last_leaves_more_to_read() -> None:
    book = LogBook()
    book.take(page(1, 3, newest=10))
    assert book.last == 3


def test_lost_lines_are_told_where_they_are_missing() -> None:
    book = LogBook()
    book.take(page(1, 1))
    note, first = book.take(page(10, 10, lost=8))
    assert (note.level, "8 lines are lost" in note.message, first.seq, book.lost) == (NOTE, True, 10, 8)


def test_a_server_that_began_anew_is_read_from_its_beginning() -> None:
    book = LogBook()
    book.take(page(1, 50))
    (note,) = book.take(page(1, 3))
    assert "started anew" in note.message
    assert book.last == 0
    assert [one.seq for one in book.take(page(1, 3))] == [1, 2, 3]


def test_memory_is_bounded() -> None:
    book = LogBook(10)
    book.take(page(1, 8))
    book.take(page(9, 14))
    assert [one.seq for one in book.records] == list(range(5, 15))
    assert book.dropped == 4


def test_models_are_those_of_the_lines() -> None:
    book = LogBook()
    book.take(LogPage(3, 0, (record(1, model="b"), record(2), record(3, model="a"))))
    assert book.models == ("a", "b")


@pytest.mark.parametrize(
    ("wanted", "shown"),
    [
        (Wanted(), [1, 2, 3, 4]),
        (Wanted(level="INFO"), [2, 3, 4]),
        (Wanted(level="WARNING"), [3, 4]),
        (Wanted(level="ERROR"), [4]),
        (Wanted(model="m"), [2, 4]),
        (Wanted(filter=Filter("ba|bow")), [2, 3]),
        (Wanted(filter=Filter("!ba|bow")), [1, 4]),
        (Wanted(filter=Filter("error")), [4]),
        (Wanted(level="WARNING", model="m"), [4]),
        (Wanted(search=Filter("ba")), [1, 2, 3, 4]),
    ],
)
def test_level_model_and_filter_leave_lines_out_and_a_search_does_not(wanted: Wanted, shown: list[int]) -> None:
    lines = (
        record(1, "foo", "VERBOSE"),
        record(2, "bar", "INFO", "m"),
        record(3, "bow", "WARNING"),
        record(4, "fee", "ERROR", "m"),
    )
    assert [row.record.seq for row in rows(lines, wanted, 80)] == shown


def test_notes_are_always_shown() -> None:
    book = LogBook()
    book.take(page(1, 1, lost=3))
    assert len(rows(book.records, Wanted(level="ERROR", model="x", filter=Filter("nothing")), 80)) == 1


def test_levels_go_round() -> None:
    wanted = Wanted()
    seen = [wanted.level]
    for _ in range(4):
        wanted = wanted.stricter()
        seen.append(wanted.level)
    assert seen == ["", "INFO", "WARNING", "ERROR", ""]
    assert Wanted(level="ERROR", model="m").words == ["ERROR and worse", "model m"]


def test_a_line_has_time_level_model_and_text() -> None:
    (row,) = rows([record(0, "hello", "WARNING", "m")], Wanted(), 80)
    assert row.head == f"{clock(NOON)} WARN  "
    assert (row.model, row.text) == ("m  ", "hello")
    assert texts(rows([record(0, "hello", "INFO", "m")], Wanted(times=False, model="m"), 80)) == ["INFO  hello"]


def test_the_time_is_that_of_the_day_here() -> None:
    assert clock(NOON) == time.strftime("%H:%M:%S", time.localtime(NOON)) + ".250"


def test_a_message_of_several_lines_is_indented_below_its_first() -> None:
    shown = rows([record(1, "one\ntwo\n  three")], Wanted(times=False), 80)
    assert texts(shown) == ["INFO  one", "        two", "          three"]
    assert [row.first for row in shown] == [True, False, False]
    assert texts(rows([record(1, "")], Wanted(times=False), 80)) == ["INFO  "]


def test_long_lines_are_broken_or_left_whole() -> None:
    lines = [record(1, "x" * 100, model="m")]
    assert len(rows(lines, Wanted(), 40)) == 1
    wrapped = rows(lines, Wanted(wrap=True, times=False), 40)
    assert all(len(text) <= 40 for text in texts(wrapped))
    assert "".join(row.text for row in wrapped) == "x" * 100


@pytest.mark.parametrize("text", ["\x1b[2Jx", "a\rb", "bell\a", "c1\x9b31m"])
def test_a_line_cannot_move_the_cursor(text: str) -> None:
    assert clean(text).isprintable()
    assert all(row.isprintable() for row in texts(rows([record(1, text, model=text)], Wanted(), 80)))


def test_text_that_can_be_shown_stays() -> None:
    assert clean("häß ✓ [bold]") == "häß ✓ [bold]"
    assert clean("a\tb") == "a    b"


@given(st.text(max_size=60), st.integers(1, 30), st.integers(1, 30))
def test_a_broken_line_loses_nothing_and_fits(text: str, first: int, others: int) -> None:
    pieces = chop(text, first, others)
    assert "".join(pieces) == text
    assert cell_len(pieces[0]) <= max(first, 2)
    assert all(cell_len(piece) <= max(others, 2) for piece in pieces[1:])


def test_a_search_finds_records_once_and_goes_round() -> None:
    lines = [record(1, "a fault\nfault again"), record(2, "fine"), record(3, "Fault")]
    wanted = Wanted(search=Filter("fault"))
    shown = rows(lines, wanted, 80)
    places = found(shown, wanted)
    assert places == [0, 3]
    assert [next_match(places, 0, 1), next_match(places, 3, 1), next_match(places, 0, -1)] == [3, 0, 3]
    assert next_match(places, -1, 1) == 0
    assert next_match([], 0, 1) is None
    assert found(shown, Wanted()) == []
