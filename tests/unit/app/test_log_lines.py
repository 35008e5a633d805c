"""What a log file holds is read back as what was logged."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

import pytest

from infer.app.log_lines import read_lines, show, wanted
from infer.server.observe.logs import FORMATS, render
from infer.tui.snapshot import LogRecord

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC).timestamp()


def logged(message: str, level: int = logging.INFO, created: float = NOW, **facts: Any) -> logging.LogRecord:
    record = logging.LogRecord("infer", level, "/x/loader.py", 88, message, None, None)
    record.created = created
    vars(record).update(facts)
    return record


def read(text: str, now: float = NOW) -> list[LogRecord]:
    return list(read_lines(text.splitlines(), now))


@pytest.mark.parametrize("log_format", FORMATS)
@pytest.mark.parametrize(
    ("level", "name"), [(logging.INFO, "INFO"), (logging.WARNING, "WARNING"), (logging.ERROR, "ERROR")]
)
def test_a_line_of_every_format_is_read_back(log_format: str, level: int, name: str) -> None:
    (found,) = read(render(logged('it says "no"\nand why: ü', level), log_format))
    assert found == LogRecord(1, NOW, name, 'it says "no"\nand why: ü', "loader.py:88")


@pytest.mark.parametrize("log_format", FORMATS)
def test_a_table_belongs_to_its_record_and_the_next_record_is_one_of_its_own(log_format: str) -> None:
    text = "\n".join(
        [render(logged("serving", table="MODEL\nsimple"), log_format), render(logged("stopped"), log_format)]
    )
    assert [(found.seq, found.message) for found in read(text)] == [(1, "serving\nMODEL\nsimple"), (2, "stopped")]


def test_a_json_line_has_the_facts_that_were_attached() -> None:
    (found,) = read(render(logged("m", model="simple", version="1", instance="simple_0_0", request_id="r"), "json"))
    assert (found.model, found.version, found.instance, found.request_id) == ("simple", "1", "simple_0_0", "r")


def test_an_unescaped_message_is_read_as_it_is() -> None:
    (found,) = read(render(logged("plain text"), "default", escape=False))
    assert found.message == "plain text"


def test_what_comes_before_any_record_is_shown_as_it_is() -> None:
    text = "Traceback\n  File\n" + render(logged("then"), "default")
    assert [(found.time, found.message) for found in read(text)] == [(0.0, "Traceback\n  File"), (NOW, "then")]


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "{}",
        '{"time": 1}',
        '{"time": "x", "level": "INFO", "message": ""}',
        "I1 x",
        "I9999 00:00:00.0 1 a:1]",
        "[]",
        "",
    ],
)
def test_a_line_that_only_looks_like_a_record_goes_on_with_the_one_before(line: str) -> None:
    (found,) = read(f"{render(logged('m'), 'default')}\n{line}\nend")
    assert found.message == f"m\n{line}\nend"


def test_a_date_without_a_year_is_the_last_such_day() -> None:
    def year(month: int, day: int) -> int:
        moment = datetime(2020, month, day, 1, 2, 3, tzinfo=UTC).timestamp()
        (found,) = read(render(logged("m", created=moment), "default"))
        return datetime.fromtimestamp(found.time, UTC).year

    assert [year(2, 28), year(3, 1), year(3, 2), year(3, 3), year(12, 31), year(2, 29)] == [
        2026,
        2026,
        2026,
        2025,
        2025,
        2024,
    ]


def test_a_date_that_there_never_was_is_no_time() -> None:
    (found,) = read('I0231 00:00:00.000000 1 a.py:1] "m"')
    assert found.time == 0.0


def test_levels_and_models_are_chosen_among() -> None:
    record = LogRecord(1, NOW, "WARNING", "m", model="simple")
    assert wanted(record, "", "")
    assert wanted(record, "WARNING", "simple")
    assert not wanted(record, "ERROR", "")
    assert not wanted(record, "", "other")


def test_a_record_is_shown_with_its_time_level_and_model() -> None:
    assert show(LogRecord(1, NOW + 0.25, "INFO", "up", model="simple")) == "2026-03-01 12:00:00.250 INFO    simple: up"
    assert show(LogRecord(1, 0.0, "ERROR", "no time")) == "ERROR   no time"
