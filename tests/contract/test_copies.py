"""How often a large tensor is copied on its way, counted by where its bytes lie at each station.

The counts are published as a table in ARCHITECTURE.md, and the test keeps the table true. Copies between the kernel
and the process are not counted: every server has them.
"""

from __future__ import annotations

import http.client
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import numpy as np
import pytest

import infer
from infer.app.settings import ServerSettings
from infer.app.wiring import build
from infer.server.engine import Engine
from infer.server.grpc.inference import Inference as GrpcInference
from infer.server.grpc.messages import SERVICE, message
from infer.server.grpc.transport.call import Call
from infer.server.grpc.transport.connection import Connection
from infer.server.http.cycle import Cycle
from infer.server.http.protocol import DoorProtocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from infer.backends.api.request import InferenceRequest
    from infer.backends.api.response import InferenceResponse

ELEMENTS = 150_528
CONFIG = """
backend: "python"
input [{ name: "INPUT0" data_type: TYPE_FP32 dims: [-1] }]
output [
  { name: "OUTPUT0" data_type: TYPE_FP32 dims: [-1] },
  { name: "FROM_SLAB" data_type: TYPE_BOOL dims: [1] }
]
instance_group [{ kind: KIND_CPU count: 1 }]
"""
MODEL = '''
"""Negates its input, and says whether the input lay in memory shared with the server."""

import numpy as np
import triton_python_backend_utils as pb_utils


def in_slab(address):
    with open("/proc/self/maps") as maps:
        for line in maps:
            first, last = (int(part, 16) for part in line.split(" ", 1)[0].split("-"))
            if first <= address < last:
                return "memfd:" in line
    return False


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            array = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()
            shared = np.array([in_slab(array.ctypes.data)])
            outputs = [pb_utils.Tensor("OUTPUT0", -array), pb_utils.Tensor("FROM_SLAB", shared)]
            responses.append(pb_utils.InferenceResponse(outputs))
        return responses
'''


def address(buffer: Any) -> int:
    return np.frombuffer(buffer, np.uint8).ctypes.data


def inside(buffer: Any, others: Iterable[Any]) -> bool:
    """Whether a buffer is a part of one of the others, byte for byte the same memory."""
    start, size = address(buffer), memoryview(buffer).nbytes
    return any(
        address(other) <= start and start + size <= address(other) + memoryview(other).nbytes
        for other in others
        if memoryview(other).nbytes
    )


def in_memfd(buffer: Any) -> bool:
    start = address(buffer)
    with Path("/proc/self/maps").open(encoding="ascii") as maps:
        for line in maps:
            first, last = (int(part, 16) for part in line.split(" ", 1)[0].split("-"))
            if first <= start < last:
                return "memfd:" in line
    return False


class Stations:
    """What passed where: buffers are kept alive, so that addresses stay theirs."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.received: list[bytes] = []
        self.pieces: list[bytes] = []
        self.inputs: list[memoryview] = []
        self.outputs: list[memoryview] = []
        self.in_slab: list[bool] = []
        self.written: list[Any] = []
        self._wrap(patch, DoorProtocol, "data_received", lambda args: self.received.append(args[0]))
        self._wrap(patch, DoorProtocol, "on_body", lambda args: self.pieces.append(args[0]))
        self._wrap(patch, Cycle, "_add_body", lambda args: self.written.append(args[0]))
        self._wrap(patch, Connection, "data_received", lambda args: self.received.append(args[0]))
        self._wrap(patch, GrpcInference, "answer", lambda args: self.pieces.append(args[1]))
        self._wrap(patch, Call, "reply", lambda args: self.written.append(args[0]))
        original = Engine.infer

        def infer_(engine: Engine, request: InferenceRequest, on_response: Any, *rest: Any, **named: Any) -> Any:
            def seen(response: InferenceResponse) -> None:
                view = response.outputs["OUTPUT0"].view
                self.outputs.append(view)
                self.in_slab.append(in_memfd(view))
                on_response(response)

            self.inputs.append(request.inputs["INPUT0"].view)
            return original(engine, request, seen, *rest, **named)

        patch.setattr(Engine, "infer", infer_)

    @staticmethod
    def _wrap(patch: pytest.MonkeyPatch, owner: type, name: str, note: Any) -> None:
        original = getattr(owner, name)

        def wrapper(self: Any, *args: Any, **named: Any) -> Any:
            note(args)
            return original(self, *args, **named)

        patch.setattr(owner, name, wrapper)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "negate" / "1").mkdir(parents=True)
    (tmp_path / "negate" / "config.pbtxt").write_text(CONFIG)
    (tmp_path / "negate" / "1" / "model.py").write_text(MODEL)
    return tmp_path


def through_http(repository: Path, array: np.ndarray[Any, Any]) -> dict[str, Any]:
    """One binary request over a socket: the parsed JSON of the reply, the tensors checked."""
    settings = ServerSettings(
        model_repository=(repository,), http_address="127.0.0.1", http_port=0, metrics_port=0, allow_grpc=False
    )
    server = build(settings)
    server.start()
    try:
        assert server.http_address is not None
        size = array.nbytes
        one = {"name": "INPUT0", "datatype": "FP32", "shape": [array.size], "parameters": {"binary_data_size": size}}
        head = json.dumps({"inputs": [one], "parameters": {"binary_data_output": True}}).encode()
        connection = http.client.HTTPConnection(*server.http_address, timeout=20)
        headers = {"Inference-Header-Content-Length": str(len(head))}
        connection.request("POST", "/v2/models/negate/infer", head + array.tobytes(), headers)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        assert answer.status == 200, body
        split = int(answer.headers["Inference-Header-Content-Length"])
        assert np.array_equal(np.frombuffer(body[split : split + size], np.float32), -array)
        document = json.loads(body[:split])
        document["from_slab"] = bool(body[-1])
        return document
    finally:
        server.stop()


def through_grpc(repository: Path, array: np.ndarray[Any, Any]) -> None:
    """One raw request and its reply, the tensor checked."""
    settings = ServerSettings(
        model_repository=(repository,), grpc_address="127.0.0.1", grpc_port=0, allow_http=False, allow_metrics=False
    )
    server = build(settings)
    server.start()
    try:
        assert server.grpc_address is not None
        request = message("ModelInferRequest")(model_name="negate", raw_input_contents=[array.tobytes()])
        request.inputs.add(name="INPUT0", datatype="FP32", shape=[array.size])
        with grpc.insecure_channel("{}:{}".format(*server.grpc_address)) as channel:
            data = channel.unary_unary(f"/{SERVICE}/ModelInfer")(request.SerializeToString(), timeout=20)
        answer = message("ModelInferResponse").FromString(data)
        assert np.array_equal(np.frombuffer(answer.raw_output_contents[0], np.float32), -array)
    finally:
        server.stop()


def test_the_table_of_copies_is_true(repository: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.arange(ELEMENTS, dtype=np.float32)
    http_door = Stations(monkeypatch)
    answer = through_http(repository, array)
    request, response = http_door.inputs[0], http_door.outputs[0]
    parsed = 0 if all(inside(piece, http_door.received) for piece in http_door.pieces) else 1
    joined = 0 if inside(request, http_door.pieces) else 1
    sent = 0 if any(inside(response, [part]) for part in http_door.written) else 1
    to_worker = 1 if answer["from_slab"] else 2
    from_worker = 1 if http_door.in_slab[0] else 2

    monkeypatch.undo()
    in_process = Stations(monkeypatch)
    with infer.Server(repository) as server:
        result = server.infer("negate", {"INPUT0": array})
    taken = 0 if inside(in_process.inputs[0], [array]) else 1
    given = 0 if inside(np.ascontiguousarray(result["OUTPUT0"]), in_process.outputs) else 1

    monkeypatch.undo()
    grpc_door = Stations(monkeypatch)
    through_grpc(repository, array)
    gathered = 0 if inside(grpc_door.pieces[0], grpc_door.received) else 1
    cut = 0 if inside(grpc_door.inputs[0], grpc_door.pieces) else 1
    put = 0 if inside(grpc_door.outputs[0], grpc_door.written) else 1

    table = {
        "HTTP door": (parsed + joined, sent),
        "gRPC door": (gathered + cut, put),
        "in-process API": (taken, given),
        "worker process": (to_worker, from_worker),
    }
    published = re.findall(r"^\| ([\w -]+?) \| (\d) \| (\d) \|$", (root / "ARCHITECTURE.md").read_text(), re.MULTILINE)
    assert {name: (int(there), int(back)) for name, there, back in published} == table
