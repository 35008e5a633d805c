from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from infer.server.lifecycle.overrides import LoadOverrides
from infer.server.operator.service import OperatorSettings

if TYPE_CHECKING:
    from tests.unit.server.operator.conftest import Answer, Door

KEY = "the-key"


def test_load_and_unload_reach_the_engine(door: Door) -> None:
    assert door.post("/v2/repository/models/simple/load").status == 200
    assert door.post("/v2/repository/models/simple/unload", {"parameters": {"unload_dependents": True}}).status == 200
    assert door.post("/v2/repository/models/simple/unload").body == b""
    assert door.engine.calls == [("load", "simple"), ("unload", "simple", True), ("unload", "simple", False)]


def test_a_failed_load_says_why(door: Door) -> None:
    answer = door.post("/v2/repository/models/bad/load")
    assert (answer.status, answer.json) == (400, {"error": "load failed for model 'bad': no file"})


def test_the_parameters_of_a_load_reach_the_engine(door: Door) -> None:
    parameters = {"config": "{}", "file:1/model.py": "cGFzcw=="}
    assert door.post("/v2/repository/models/new/load", {"parameters": parameters}).status == 200
    assert door.engine.calls == [("load", "new", LoadOverrides("{}", {"1/model.py": b"pass"}))]


@pytest.mark.parametrize(
    ("parameters", "phrase"),
    [
        ({"config": {}}, "Unable to parse 'config': expected a string"),
        ({"file:1/model.py": "?"}, "load parameter 'file:1/model.py' is not base64"),
        ({"color": "red"}, "unknown load parameter 'color'; a load takes 'config' and 'file:<version>/<path>'"),
        (["config"], "expected a JSON object as 'parameters'"),
    ],
)
def test_a_bad_load_parameter_is_refused(door: Door, parameters: Any, phrase: str) -> None:
    answer = door.post("/v2/repository/models/simple/load", {"parameters": parameters})
    assert answer.status == 400
    assert phrase in answer.json["error"]
    assert door.engine.calls == []


def test_a_bad_unload_parameter_is_refused(door: Door) -> None:
    answer = door.post("/v2/repository/models/simple/unload", {"parameters": {"unload_dependents": 1}})
    assert answer.status == 400
    assert door.engine.calls == []


@pytest.mark.parametrize("verb", ["load", "unload"])
def test_without_the_key_nothing_is_changed_and_the_answer_says_how_to_mend_it(door: Door, verb: str) -> None:
    door.headers = {}
    answer = door.post(f"/v2/repository/models/simple/{verb}")
    assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert "INFER_CONTROL_KEY" in answer.json["error"]
    assert door.engine.calls == []


@pytest.mark.parametrize("shown", ["Bearer wrong", "Bearer ", f"Basic {KEY}", KEY, f"Bearer {KEY}x", "Bearer k\xe9y"])
def test_a_wrong_key_changes_nothing(door: Door, shown: str) -> None:
    answer = door.post("/v2/repository/models/simple/load", headers={"Authorization": shown})
    assert answer.status == 403
    assert "not the control key of this server" in answer.json["error"]
    assert door.engine.calls == []


def test_a_page_in_a_browser_may_not_change_anything_even_with_the_key(door: Door) -> None:
    answer = door.post("/v2/repository/models/simple/load", headers={"Origin": "http://127.0.0.1:8002"})
    assert answer.status == 403
    assert "browser" in answer.json["error"]
    assert door.engine.calls == []


@pytest.mark.parametrize("settings", [OperatorSettings(port=0)])
def test_a_server_without_a_key_takes_no_changes_over_tcp(door: Door) -> None:
    for headers in ({}, {"Authorization": "Bearer "}):
        door.headers = headers
        answer = door.post("/v2/repository/models/simple/load")
        assert answer.status == 403
        assert "--control-key-file" in answer.json["error"]
    assert door.engine.calls == []


def hang(door: Door) -> tuple[threading.Thread, list[Answer]]:
    """A client whose load is under way and goes on until the engine's gate opens."""

    async def prepare() -> None:
        door.engine.gate = asyncio.Event()

    async def entered() -> None:
        await door.engine.entered.wait()

    door.loop.run(prepare())
    answers: list[Answer] = []
    thread = threading.Thread(target=lambda: answers.append(door.post("/v2/repository/models/slow/load")))
    thread.start()
    door.loop.run(entered())
    return thread, answers


@pytest.mark.parametrize("settings", [OperatorSettings(port=0, threads=3, control_timeout_s=20, control_key=KEY)])
def test_one_change_too_many_is_refused_while_reads_are_answered(door: Door) -> None:
    thread, answers = hang(door)
    answer = door.post("/v2/repository/models/simple/load")
    assert answer.status == 503
    assert "1 changes are under way already" in answer.json["error"]
    assert door.get("/metrics").status == 200
    door.loop.call_soon(door.engine.open_gate)
    thread.join(10)
    assert answers[0].status == 200
    assert door.post("/v2/repository/models/simple/load").status == 200


def test_a_stop_answers_those_who_wait(door: Door) -> None:
    thread, answers = hang(door)
    door.service.stop()
    thread.join(10)
    assert answers[0].status == 503
    assert "the server is stopping" in answers[0].json["error"]


@pytest.mark.parametrize("settings", [OperatorSettings(port=0, control_timeout_s=0.05, control_key=KEY)])
def test_a_change_that_takes_too_long_is_answered_as_under_way(door: Door) -> None:
    thread, answers = hang(door)
    thread.join(10)
    assert answers[0].status == 503
    assert "not done after 0.05 s and still under way" in answers[0].json["error"]
