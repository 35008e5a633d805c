"""The newest records stay in memory, numbered, so that a reader can go on where it was and knows what it missed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from infer.server.observe.log_ring import MESSAGE_LIMIT, LogQuery, LogRing
from infer.server.observe.logs import LogService, LogSettings, configure, model_facts, verbose

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

log = logging.getLogger("infer.test")


def record(message: str, level: int = logging.INFO, **facts: Any) -> logging.LogRecord:
    made = logging.LogRecord("infer.test", level, "/somewhere/loader.py", 88, message, None, None)
    vars(made).update(facts)
    return made


def filled(count: int, capacity: int = 5) -> LogRing:
    ring = LogRing(capacity)
    ring.extend(record(f"line {number}") for number in range(1, count + 1))
    return ring


def numbers(ring: LogRing, **query: Any) -> list[int]:
    return [each.seq for each in ring.read(LogQuery(**query)).records]


def test_an_empty_ring_has_nothing_to_tell() -> None:
    ring = LogRing()
    assert ring.last == 0
    for after in (None, 0, 7):
        assert ring.read(LogQuery(after=after)) == (0, 0, ())


def test_a_record_is_told_with_its_place_and_what_was_attached() -> None:
    ring = LogRing()
    ring.extend([record("no", logging.ERROR, model="m", version=3, instance="m_0_0", request_id="7", other=1)])
    (entry,) = ring.read(LogQuery()).records
    assert entry.time > 1_600_000_000
    assert entry._replace(time=0) == (1, 0, "ERROR", "no", "loader.py:88", "m", "3", "m_0_0", "7")


def test_what_was_not_attached_is_empty() -> None:
    (entry,) = filled(1).read(LogQuery()).records
    assert (entry.model, entry.version, entry.instance, entry.request_id) == ("", "", "", "")


def test_without_a_number_the_last_records_come_the_oldest_first() -> None:
    ring = filled(9)
    assert numbers(ring) == [5, 6, 7, 8, 9]
    page = ring.read(LogQuery(limit=2))
    assert [each.message for each in page.records] == ["line 8", "line 9"]
    assert (page.last, page.lost) == (9, 0)


@pytest.mark.parametrize(
    ("after", "limit", "expected", "last", "lost"),
    [
        (9, 10, [], 9, 0),
        (8, 10, [9], 9, 0),
        (4, 10, [5, 6, 7, 8, 9], 9, 0),
        (3, 10, [5, 6, 7, 8, 9], 9, 1),
        (0, 10, [5, 6, 7, 8, 9], 9, 4),
        (5, 2, [6, 7], 7, 0),
        (7, 2, [8, 9], 9, 0),
        (0, 2, [5, 6], 6, 4),
        (99, 2, [8, 9], 9, 0),
    ],
    ids=["nothing new", "one", "all", "one lost", "four lost", "a page", "the last page", "lost", "an earlier life"],
)
def test_a_reader_goes_on_where_it_was(after: int, limit: int, expected: list[int], last: int, lost: int) -> None:
    page = filled(9).read(LogQuery(after=after, limit=limit))
    assert [each.seq for each in page.records] == expected
    assert (page.last, page.lost) == (last, lost)


def test_pages_that_follow_each_other_miss_nothing_whatever_is_chosen() -> None:
    ring = LogRing()
    ring.extend(record(f"{number}", model="a" if number % 3 else "b") for number in range(100))
    seen: list[str] = []
    after = 0
    while True:
        page = ring.read(LogQuery(after=after, limit=7, model="b"))
        seen += [each.message for each in page.records]
        if page.last == after or not page.records:
            break
        after = page.last
    assert seen == [str(number) for number in range(0, 100, 3)]


@pytest.mark.parametrize(
    ("level", "expected"),
    [("VERBOSE", [1, 2, 3, 4]), ("INFO", [2, 3, 4]), ("WARNING", [3, 4]), ("ERROR", [4])],
)
def test_a_level_asks_for_itself_and_what_is_worse(level: str, expected: list[int]) -> None:
    ring = LogRing()
    ring.extend(record("x", number) for number in (verbose(2), logging.INFO, logging.WARNING, logging.CRITICAL))
    assert numbers(ring, level=level) == expected
    assert numbers(ring, level=level, after=0) == expected


def test_a_model_is_chosen_by_its_whole_name() -> None:
    ring = LogRing()
    ring.extend([record("x", model="a"), record("x", model="ab"), record("x")])
    assert numbers(ring, model="a") == [1]
    assert numbers(ring) == [1, 2, 3]


def test_a_long_message_is_cut() -> None:
    ring = LogRing()
    ring.extend([record("x" * (MESSAGE_LIMIT + 1))])
    (entry,) = ring.read(LogQuery()).records
    assert entry.message == "x" * MESSAGE_LIMIT + f"… ({MESSAGE_LIMIT + 1} characters)"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[LogService]:
    service = configure(LogSettings(log_file=tmp_path / "server.log"))
    yield service
    service.stop()


def test_the_log_keeps_what_it_writes_and_nothing_else(service: LogService) -> None:
    log.info("loaded %s", "it", extra=model_facts("m", 2))
    log.debug("quiet")
    service.update(log_info=False)
    log.info("quiet too")
    log.warning("loud", extra=model_facts("m"))
    service.stop()
    page = service.ring.read(LogQuery())
    assert [(each.message, each.model, each.version) for each in page.records] == [
        ("loaded it", "m", "2"),
        ("loud", "m", ""),
    ]
    assert page.records[0].file.startswith("test_log_ring.py:")


def test_a_traceback_is_part_of_the_message(service: LogService) -> None:
    def fail() -> None:
        raise ValueError("no such thing")

    try:
        fail()
    except ValueError:
        log.exception("failed")
    service.stop()
    (entry,) = service.ring.read(LogQuery()).records
    assert entry.message.startswith("failed\nTraceback")
    assert entry.message.endswith("ValueError: no such thing")
