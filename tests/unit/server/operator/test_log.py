"""The newest log records are there to be read, page by page."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from infer.backends.api.errors import InvalidArgument
from infer.server.observe.log_ring import LogQuery
from infer.server.operator.log import query

if TYPE_CHECKING:
    from tests.unit.server.operator.conftest import Door


def fill(door: Door, count: int) -> None:
    records = [logging.LogRecord("infer", logging.INFO, "loader.py", 8, f"line {n}", None, None) for n in range(count)]
    records[0].model, records[0].levelno = "m", logging.ERROR
    door.ring.extend(records)


def ask(door: Door, **parameters: object) -> Any:
    text = "&".join(f"{name}={quote(str(value))}" for name, value in parameters.items())
    answer = door.get(f"/v2/operator/log?{text}")
    assert answer.status == 200, answer.body
    return answer.json


def test_a_record_has_all_its_fields(door: Door) -> None:
    fill(door, 1)
    page = ask(door)
    (record,) = page["records"]
    assert record.pop("time") > 1_600_000_000
    assert record == {
        "seq": 1,
        "level": "ERROR",
        "message": "line 0",
        "file": "loader.py:8",
        "model": "m",
        "version": "",
        "instance": "",
        "request_id": "",
    }
    assert (page["last"], page["lost"]) == (1, 0)


def test_the_last_200_come_unless_a_number_is_given(door: Door) -> None:
    fill(door, 300)
    assert [record["seq"] for record in ask(door)["records"]] == list(range(101, 301))
    assert [record["seq"] for record in ask(door, limit=2)["records"]] == [299, 300]
    assert [record["seq"] for record in ask(door, after=298)["records"]] == [299, 300]
    assert ask(door, after=0, limit=1000)["records"][0]["seq"] == 1


def test_what_is_gone_is_counted(door: Door) -> None:
    fill(door, 2500)
    page = ask(door, after=100, limit=1)
    assert (page["lost"], page["records"][0]["seq"], page["last"]) == (400, 501, 501)


def test_levels_and_models_are_chosen(door: Door) -> None:
    fill(door, 5)
    assert [record["seq"] for record in ask(door, level="ERROR")["records"]] == [1]
    assert [record["seq"] for record in ask(door, model="m")["records"]] == [1]
    assert ask(door, model="n")["records"] == []


def test_the_overview_tells_whether_there_is_something_new(door: Door) -> None:
    fill(door, 7)
    assert door.get("/v2/operator/overview").json["log_last"] == 7


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("limit=0", "invalid value for 'limit': got '0', expected a whole number from 1 to 1000"),
        ("limit=1001", "invalid value for 'limit': got '1001'"),
        ("limit=-1", "invalid value for 'limit': got '-1'"),
        ("limit=ten", "invalid value for 'limit': got 'ten'"),
        ("limit=%D9%A3", "expected a whole number from 1 to 1000"),
        ("after=-1", "invalid value for 'after': got '-1', expected a whole number of 0 or more"),
        ("after=1.5", "invalid value for 'after': got '1.5'"),
        ("after=" + "9" * 5000, "expected a whole number of 0 or more"),
        ("level=info", "invalid value for 'level': got 'info', expected one of VERBOSE, INFO, WARNING, ERROR"),
        ("level=DEBUG", "invalid value for 'level': got 'DEBUG'"),
        ("since=3", "unknown parameter 'since'; the log takes after, limit, level, model"),
        ("after=1&after=2", "parameter 'after' is given 2 times; give it once"),
    ],
)
def test_a_bad_parameter_is_refused_with_a_sentence(door: Door, text: str, sentence: str) -> None:
    answer = door.get(f"/v2/operator/log?{text}")
    assert answer.status == 400
    assert sentence in answer.json["error"]


def test_nothing_given_asks_for_the_last_of_every_kind() -> None:
    assert query({}) == LogQuery(None, 200, "VERBOSE", "")
    assert query({"after": "3", "limit": "5", "level": "WARNING", "model": "m"}) == LogQuery(3, 5, "WARNING", "m")


def test_an_empty_value_is_not_taken_for_none() -> None:
    for name in ("after", "limit", "level"):
        with pytest.raises(InvalidArgument, match=f"invalid value for '{name}': got ''"):
            query({name: ""})


@pytest.mark.parametrize(
    ("headers", "status", "sentence"),
    [
        ({"Authorization": "Bearer guessed"}, 403, "not the control key"),
        ({"Origin": "http://page.example"}, 403, "no log lines for a page in a browser"),
    ],
)
def test_the_log_is_for_who_has_the_key(door: Door, headers: dict[str, str], status: int, sentence: str) -> None:
    fill(door, 1)
    answer = door.ask("GET", "/v2/operator/log", headers=headers)
    assert answer.status == status
    assert sentence in answer.json["error"]
    assert "line 0" not in answer.body.decode()


def test_without_the_key_the_log_says_what_it_wants(door: Door) -> None:
    door.headers.clear()
    answer = door.get("/v2/operator/log")
    assert answer.status == 401
    assert "log lines want the server's control key" in answer.json["error"]
    assert door.get("/v2/operator/overview").status == 200
