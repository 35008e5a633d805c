"""A log is read to its end and on from there, and what was lost in between is said."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import pytest

from infer.app import log_reading
from infer.app.log_lines import show
from infer.app.log_reading import Choice, Gap, about, follow, from_file, newest
from infer.tui.snapshot import LogPage, LogRecord

if TYPE_CHECKING:
    from pathlib import Path


class FakeSource:
    """A server that has logged ``last`` records and keeps those from ``first`` on."""

    def __init__(self, last: int, first: int = 1) -> None:
        self.first, self.last = first, last
        self.asked: list[tuple[int | None, int, str, str]] = []

    def log(self, *, after: int | None = None, limit: int = 200, level: str = "", model: str = "") -> LogPage:
        self.asked.append((after, limit, level, model))
        if after is None:
            numbers = range(max(self.first, self.last - limit + 1), self.last + 1)
            return LogPage(self.last, 0, tuple(LogRecord(n, 1.0, "INFO", str(n)) for n in numbers))
        start = max(self.first, after + 1)
        numbers = range(start, min(self.last, start + limit - 1) + 1)
        records = tuple(LogRecord(n, 1.0, "INFO", str(n)) for n in numbers)
        return LogPage(records[-1].seq if records else self.last, max(0, self.first - after - 1), records)


@pytest.mark.parametrize(("count", "numbers"), [(0, []), (1, [2000]), (3, [1998, 1999, 2000])])
def test_the_newest_are_asked_for_in_one_go(count: int, numbers: list[int]) -> None:
    source = FakeSource(2000)
    records, last = newest(source, count, Choice("WARNING", "m"))  # type: ignore[arg-type]
    assert [record.seq for record in records] == numbers
    assert last == 2000
    assert source.asked == [(None, max(1, count), "WARNING", "m")]


def test_more_than_a_page_is_gathered_page_by_page() -> None:
    records, last = newest(FakeSource(2345, first=346), 1500, Choice())  # type: ignore[arg-type]
    assert [record.seq for record in records] == list(range(846, 2346))
    assert last == 2345


def test_a_server_without_records_has_none() -> None:
    assert newest(FakeSource(0), 10, Choice()) == ((), 0)  # type: ignore[arg-type]


def test_what_follows_comes_in_order_and_what_was_lost_is_said_where_it_is_missing() -> None:
    source = FakeSource(3)
    moments = iter([(1, 3), (1, 5), (9, 10)])
    pauses: list[None] = []

    def pause() -> None:
        pauses.append(None)
        source.first, source.last = next(moments)

    got = list(islice(follow(source, 1, Choice(), pause), 7))  # type: ignore[arg-type]
    assert [entry.lost if isinstance(entry, Gap) else entry.seq for entry in got] == [2, 3, 4, 5, 3, 9, 10]
    assert isinstance(got[4], Gap)
    assert len(pauses) == 3


def test_full_pages_are_read_without_a_pause() -> None:
    def pause() -> None:
        pytest.fail("there is more to read")

    got = list(islice(follow(FakeSource(1500), 0, Choice(), pause), 1500))  # type: ignore[arg-type]
    assert len(got) == 1500


def test_the_end_of_a_file_is_read_and_chosen_from(tmp_path: Path) -> None:
    path = tmp_path / "log"
    lines = [f"{'E' if n % 2 else 'I'}1129 00:00:0{n}.000000 7 a.py:1] \"line {n} of 'm{n % 3}'\"" for n in range(9)]
    path.write_text("\n".join(lines) + "\n")

    def numbers(count: int, level: str = "", model: str = "") -> list[str]:
        return [show(record).split()[-3] for record in from_file(path, count, Choice(level, model), 0.0)]

    assert numbers(3) == ["6", "7", "8"]
    assert numbers(2, "ERROR") == ["5", "7"]
    assert numbers(9, "", "m0") == ["0", "3", "6"]
    assert numbers(0) == []
    assert len(numbers(1000)) == 9


def test_a_file_that_was_just_begun_anew_is_read_with_the_one_before_it(tmp_path: Path) -> None:
    (tmp_path / "log.1").write_text('I1129 00:00:00.000000 7 a.py:1] "one"\nI1129 00:00:00.000000 7 a.py:1] "two"\n')
    (tmp_path / "log").write_text('I1129 00:00:00.000000 7 a.py:1] "three"\n')
    assert [record.message for record in from_file(tmp_path / "log", 2, Choice(), 0.0)] == ["two", "three"]


def test_only_the_end_of_a_large_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_reading, "_FILE_BYTES", 60)
    line = 'I1129 00:00:00.000000 7 a.py:1] "m"\n'
    (tmp_path / "log").write_text(line * 5)
    assert [record.message for record in from_file(tmp_path / "log", 9, Choice(), 0.0)] == ["m"]


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        from_file(tmp_path / "nothing", 1, Choice(), 0.0)


@pytest.mark.parametrize(
    ("message", "model"),
    [
        ("successfully loaded 'simple' version 1", "simple"),
        ("simple_0_0: said so", "simple"),
        ("successfully loaded 'simpler' version 1", ""),
        ("simple things", ""),
    ],
)
def test_a_line_of_text_is_about_the_model_that_it_names(message: str, model: str) -> None:
    assert about(LogRecord(1, 1.0, "INFO", message), "simple").model == model
    assert about(LogRecord(1, 1.0, "INFO", message, model="other"), "simple").model == "other"
