"""Large JSON goes through a process of its own, which may die without harm."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from infer.backends.api.datatypes import Datatype
from infer.backends.api.model_config import ModelConfig, TensorSpec
from infer.server.lifecycle.signature import ModelSignature

if TYPE_CHECKING:
    from collections.abc import Callable

COMMAND = (
    sys.executable,
    "-c",
    "import sys; from infer.server.http.codec_process import main; main(int(sys.argv[1]))",
)
COUNT = 50_000
VALUES = [index / 3 for index in range(COUNT)]


def entry(**members: Any) -> dict[str, Any]:
    return {"name": "INPUT0", "shape": [COUNT], "datatype": "FP64", "data": VALUES, **members}


def make_three() -> Any:
    """A model of three inputs, any size each, that the door can ask about."""
    specs = tuple(TensorSpec(f"INPUT{index}", Datatype.FP64, (-1,)) for index in range(3))
    outputs = tuple(TensorSpec(f"OUTPUT{index}", Datatype.FP64, (-1,)) for index in range(3))
    config = ModelConfig("three", inputs=specs, outputs=outputs)
    return SimpleNamespace(name="three", version=1, config=config, signature=ModelSignature(config))


@pytest.fixture
def coded(make_door: Callable[..., Any]) -> Any:
    """A door with a codec process."""
    return make_door(codec_command=COMMAND)


def test_it_is_started_when_it_is_first_needed(coded: Any) -> None:
    assert coded.service.codec.pid is None
    small = {"name": "INPUT0", "shape": [1], "datatype": "FP64", "data": [1]}
    assert coded.infer("ident_FP64", [small]).status == 200
    assert coded.service.codec.pid is None
    assert coded.infer("ident_FP64", [entry()]).status == 200
    assert coded.service.codec.pid is not None


def test_large_json_gives_the_same_answer_as_without_it(coded: Any, make_door: Callable[..., Any]) -> None:
    plain = make_door()
    members = {"id": "7", "parameters": {"mine": 1, "sequence_id": 3}}
    answer = coded.infer("ident_FP64", [entry()], **members)
    assert answer.status == 200
    assert answer.json["outputs"][0]["data"] == VALUES
    assert answer.body == plain.infer("ident_FP64", [entry()], **members).body
    request, expected = coded.engine.tickets[-1].request, plain.engine.tickets[-1].request
    assert (request.request_id, request.parameters, request.correlation_id) == ("7", {"mine": 1}, 3)
    assert bytes(request.inputs["INPUT0"].view) == bytes(expected.inputs["INPUT0"].view)


def test_large_strings_go_round_with_bytes_that_are_no_utf8(coded: Any) -> None:
    body = b'{"id":"\xff","inputs":[{"name":"INPUT0","shape":[1],"datatype":"BYTES","data":["\xff%s"]}]}' % (
        b"x" * 300_000
    )
    answer = coded.post("/v2/models/ident_BYTES/infer", body)
    assert answer.status == 200
    assert answer.body.startswith(b'{"id":"\xff",')
    assert b'"data":["\xffxxx' in answer.body


def test_json_and_binary_inputs_stay_in_their_places(coded: Any) -> None:
    raw = np.arange(4, dtype=np.float64)
    binary = {"name": "INPUT1", "shape": [4], "datatype": "FP64", "parameters": {"binary_data_size": raw.nbytes}}
    coded.engine.add(make_three(), coded.engine.behaviours["ident_FP64"])
    inputs = [binary, entry(name="INPUT0"), {**binary, "name": "INPUT2"}]
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
    tail = raw.tobytes() + (raw + 1).tobytes()
    headers = {"Inference-Header-Content-Length": str(len(head))}
    answer = coded.post("/v2/models/three/infer", head + tail, headers)
    assert answer.status == 200
    got = coded.engine.tickets[-1].request.inputs
    assert list(got) == ["INPUT1", "INPUT0", "INPUT2"]
    assert [got[name].as_numpy().tolist() for name in got] == [raw.tolist(), VALUES, (raw + 1).tolist()]
    short = coded.post("/v2/models/three/infer", head + tail[:-8], headers)
    assert short.error == "unexpected size for input 'INPUT2', expecting 8 additional bytes for model 'three'"


def test_a_large_reply_to_a_small_request_is_encoded_there(coded: Any) -> None:
    raw = np.arange(COUNT, dtype=np.float32)
    described = {"name": "INPUT0", "shape": [COUNT], "datatype": "FP32", "parameters": {"binary_data_size": raw.nbytes}}
    head = json.dumps({"inputs": [described]}).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))}
    answer = coded.post("/v2/models/ident_FP32/infer", head + raw.tobytes(), headers)
    assert answer.json["outputs"][0]["data"] == raw.tolist()
    assert coded.service.codec.pid is not None


REFUSALS: list[tuple[Any, int, str]] = [
    ({"inputs": [entry(shape=[COUNT + 1])]}, 500, "Failed to parse 'data' field: shape does not match true shape"),
    ({"inputs": [entry(datatype="INT32")]}, 500, "non-signed-integer as signed-integer"),
    ({"inputs": [entry()], "id": 5}, 500, "Unable to parse 'id'"),
    ({"inputs": [entry(), entry()]}, 400, "input 'INPUT0' already exists in request"),
    ({"inputs": [entry()], "outputs": [{}]}, 500, "Unable to parse 'name'"),
    ({"inputs": [entry(name="X")]}, 400, "unexpected inference input 'X' for model 'ident_FP64'"),
    (b"[" * 300_000, 400, "JSON nesting depth exceeds maximum allowed limit (100)"),
    (b" " * 300_000 + b"{", 500, "failed to parse the request JSON buffer: "),
    (
        b'{"inputs":[' + b" " * 300_000 + b'{"name":"\xff","shape":[1],"datatype":"FP64","data":[1]}]}',
        400,
        "unexpected",
    ),
]


def test_a_wrong_request_is_refused_in_the_same_words(coded: Any) -> None:
    for document, status, phrase in REFUSALS:
        answer = coded.post("/v2/models/ident_FP64/infer", document)
        assert answer.status == status
        assert phrase.encode() in answer.body
    coded.assert_healthy()


def test_its_death_fails_what_it_holds_and_the_next_request_starts_another(coded: Any) -> None:
    assert coded.infer("ident_FP64", [entry()]).status == 200
    pid = coded.service.codec.pid
    os.kill(pid, signal.SIGSTOP)

    async def kill_while_it_holds_one() -> str:
        codec = coded.service.codec
        signature = coded.engine.find("ident_FP64").signature
        call = asyncio.ensure_future(codec.decode(memoryview(b"{}"), signature, 0, 1000))
        while not codec._channel._waiting:  # noqa: ASYNC110  sending sets no event
            await asyncio.sleep(0)
        os.kill(pid, signal.SIGKILL)
        try:
            await call
        except Exception as exc:  # noqa: BLE001
            return str(exc)
        return ""

    message = coded.serving.run(kill_while_it_holds_one())
    assert message.startswith("the JSON codec process ended (exit code -9) while it held this request")
    assert not Path(f"/proc/{pid}").exists()
    assert coded.infer("ident_FP64", [entry()]).status == 200
    assert coded.service.codec.pid not in (None, pid)


def test_a_client_that_goes_away_meanwhile_is_not_served(coded: Any) -> None:
    assert coded.infer("ident_FP64", [entry()]).status == 200
    pid, served = coded.service.codec.pid, len(coded.engine.tickets)
    os.kill(pid, signal.SIGSTOP)
    body = json.dumps({"inputs": [entry()]}).encode()
    with coded.connect() as connection:
        connection.sendall(
            b"POST /v2/models/ident_FP64/infer HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        )
        coded.wait_until(lambda: bool(coded.service.codec._channel._waiting))
    coded.wait_until(lambda: coded.service.connection_count == 0)
    os.kill(pid, signal.SIGCONT)
    coded.assert_healthy()
    assert len(coded.engine.tickets) == served
    assert [type(error).__name__ for error in coded.engine.refused] == ["Cancelled"]


def test_requests_at_the_same_time_share_one_process(coded: Any) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda index: coded.infer("ident_FP64", [entry()], id=str(index)), range(8)))
    assert [answer.json["id"] for answer in answers] == [str(index) for index in range(8)]


def test_a_command_that_cannot_be_started_is_an_error_with_a_way_out(make_door: Callable[..., Any]) -> None:
    door = make_door(codec_command=("/nonexistent/codec",))
    answer = door.infer("ident_FP64", [entry()])
    assert answer.status == 500
    assert "the JSON codec process could not be started" in answer.error
    assert "send tensors in binary" in answer.error


def test_a_command_that_ends_at_once_is_an_error(make_door: Callable[..., Any]) -> None:
    door = make_door(codec_command=("/bin/true",))
    answer = door.infer("ident_FP64", [entry()])
    assert answer.status == 500
    assert "the JSON codec process ended" in answer.error
    door.assert_healthy()


def test_it_ends_with_the_door(make_door: Callable[..., Any]) -> None:
    door = make_door(codec_command=COMMAND)
    assert door.infer("ident_FP64", [entry()]).status == 200
    pid = door.service.codec.pid
    door.serving.run(door.service.stop())
    assert not Path(f"/proc/{pid}").exists()
