"""How a server stands, from what it told and what it answers."""

from __future__ import annotations

from typing import Any

import pytest

from infer.app.failures import ExitCode
from infer.app.registry import Record
from infer.app.standing import Standing, document, look, outcome, reasons
from infer.tui.snapshot import Instance, ModelSnapshot, Overview, Server

RECORD = Record(name="blue", pid=7, version="1", started_at=100.0, http="127.0.0.1:1", operator="o:2", start_page="M")


def standing(*models: ModelSnapshot, record: Record = RECORD, **server: Any) -> Standing:
    return Standing(record, Overview(Server(**{"ready": True, **server}), models))


READY = ModelSnapshot("a", "1", "READY", in_flight=2, instances=(Instance("a_0", memory_bytes=1000),))
BROKEN = ModelSnapshot("b", "3", "UNAVAILABLE", "no such file", in_flight=1)
NEVER = ModelSnapshot("c")
UNLOADED = ModelSnapshot("d", "1", "UNAVAILABLE", "unloaded")
LOADING = ModelSnapshot("e", "1", "LOADING")


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (standing(), "ready"),
        (standing(ready=False), "not ready"),
        (standing(ready=False, draining=True), "draining"),
        (standing(draining=True), "draining"),
        (standing(ready=False, record=Record(name="blue", pid=7)), "starting"),
        (Standing(Record(name="blue", pid=7), None, "no door is open"), "starting"),
        (Standing(RECORD, None, "time is over"), "no answer"),
    ],
)
def test_its_state_is_a_word(found: Standing, state: str) -> None:
    assert found.state == state
    assert found.ready == (state == "ready")


def test_models_that_nobody_wants_are_not_counted_as_missing() -> None:
    found = standing(READY, BROKEN, NEVER, UNLOADED, LOADING)
    assert [row.name for row in found.counted] == ["a", "b", "e"]
    assert [row.name for row in found.not_ready] == ["b", "e"]
    assert reasons(found) == ["b version 3 UNAVAILABLE: no such file", "e version 1 LOADING"]


def test_requests_and_memory_are_those_of_all_together() -> None:
    found = standing(READY, BROKEN, memory_bytes=500)
    assert (found.in_flight, found.memory_bytes) == (3, 1500)
    silent = Standing(RECORD, None, "time is over")
    assert (silent.in_flight, silent.memory_bytes) == (0, None)
    assert reasons(silent) == ["blue: time is over"]


def test_programs_get_numbers_in_bytes_and_seconds() -> None:
    got = document(standing(READY, BROKEN, memory_bytes=500), 160.5)
    assert (got["uptime_s"], got["memory_bytes"], got["in_flight"]) == (60.5, 1500, 3)
    assert got["models"] == {
        "ready": 1,
        "total": 2,
        "not_ready": [{"name": "b", "version": "3", "state": "UNAVAILABLE", "reason": "no such file"}],
    }
    assert "control_key" not in got
    assert document(standing(), 0.0)["uptime_s"] == 0.0


def test_the_exit_code_is_that_of_the_worst() -> None:
    assert outcome([]) == ExitCode.NOT_FOUND
    assert outcome([standing()]) == ExitCode.OK
    assert outcome([standing(), standing(ready=False)]) == ExitCode.NOT_READY


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (Record(name="blue", pid=7), "no door of it is open"),
        (Record(name="blue", pid=7, control_socket="/no/such/socket"), "No such file"),
        (Record(name="blue", pid=7, start_page="M"), "--allow-metrics=false"),
    ],
)
def test_a_server_that_does_not_answer_has_a_reason(record: Record, why: str) -> None:
    found = look(record, 1.0)
    assert found.overview is None
    assert why in found.why
