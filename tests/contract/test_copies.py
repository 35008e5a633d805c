"""How often a large tensor is copied on its way, counted by where its bytes lie at each station.

The counts are published as a table in ARCHITECTURE.md, and the test keeps the table true. Copies between the kernel
and the process are not counted: every server has them. Between processes a tensor is copied into a slab, so the bytes
that go into slabs are counted on both sides: in a worker the model itself does that.
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
from infer.backends.python.worker.slabs import Slab
from infer.server.engine import Engine
from infer.server.grpc.inference import Inference as GrpcInference
from infer.server.grpc.messages import SERVICE, message
from infer.server.grpc.transport.call import Call
from infer.server.grpc.transport.connection import Connection
from infer.server.http.cycle import Cycle
from infer.server.http.protocol import DoorProtocol
from infer.server.scheduling.ticket import Ticket

if TYPE_CHECKING:
    from collections.abc import Iterable

    from infer.backends.api.request import InferenceRequest
    from infer.backends.api.response import InferenceResponse

ELEMENTS = 150_528
SMALL = 1000
"""Bytes of a tensor that counts only what happens to the large one beside it."""
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


COUNTING = """
import sys

import numpy as np
import triton_python_backend_utils as pb_utils

slabs = sys.modules[pb_utils.Tensor.__module__.rpartition(".")[0] + ".slabs"]
written = []
original = slabs.Slab.write


def write(self, offset, data):
    source = np.frombuffer(data, np.uint8)
    if source.nbytes > 1000:  # figures travel in the slab of the tensor beside them
        written.append((source.ctypes.data, source.nbytes))
    return original(self, offset, data)


slabs.Slab.write = write


def in_slab(array):
    with open("/proc/self/maps") as maps:
        for line in maps:
            first, last = (int(part, 16) for part in line.split(" ", 1)[0].split("-"))
            if first <= array.ctypes.data < last:
                return "memfd:" in line
    return False


def figures(*numbers):
    return np.array(numbers, np.int64)
"""
FIGURES = 'output [{ name: "FIGURES" data_type: TYPE_INT64 dims: [-1] }]\n'
LARGE_IN = 'input [{ name: "IN" data_type: TYPE_FP32 dims: [-1] }]\n'
LARGE_OUT = 'output [{ name: "OUT" data_type: TYPE_FP32 dims: [-1] }]\n'
CPU = "instance_group [{ kind: KIND_CPU count: 1 }]\n"
DECOUPLED = "model_transaction_policy { decoupled: true }\n"
CALLER = """
# Figures: bytes into slabs before the answer came, from the model's own array?, answer in a slab?, callee's figures.
class TritonPythonModel:
    def execute(self, requests):
        array = requests[0].inputs()[0].as_numpy() + 1
        written.clear()
        answer = pb_utils.InferenceRequest(
            model_name="callee", inputs=[pb_utils.Tensor("IN", array)], requested_output_names=["OUT", "FIGURES"]
        ).exec()
        assert not answer.has_error(), answer.error().message()
        out, theirs = (pb_utils.get_output_tensor_by_name(answer, name).as_numpy() for name in ("OUT", "FIGURES"))
        assert np.array_equal(out, -array)
        own = [sum(size for _, size in written), all(place == array.ctypes.data for place, _ in written), in_slab(out)]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("FIGURES", figures(*own, *theirs))])]
"""
CALLEE = """
# Figures: input in a slab?, bytes that the previous execution put into slabs.
class TritonPythonModel:
    def execute(self, requests):
        array = requests[0].inputs()[0].as_numpy()
        before = sum(size for _, size in written)
        written.clear()
        tensors = [pb_utils.Tensor("OUT", -array), pb_utils.Tensor("FIGURES", figures(in_slab(array), before))]
        return [pb_utils.InferenceResponse(tensors)]
"""
SENDER = """
# Three responses, the last with figures in place of numbers: bytes that the two before put into slabs, in place?
class TritonPythonModel:
    def execute(self, requests):
        sender = requests[0].get_response_sender()
        array = requests[0].inputs()[0].as_numpy() + 1
        written.clear()
        for _ in range(2):
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", array)]))
        own = figures(sum(size for _, size in written), all(place == array.ctypes.data for place, _ in written))
        last = pb_utils.InferenceResponse([pb_utils.Tensor("FIGURES", own)])
        sender.send(last, pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
PASSING_ON = """
# Its input is its output. Figures: input in a slab?, bytes that the previous execution put into slabs.
class TritonPythonModel:
    def execute(self, requests):
        tensor = requests[0].inputs()[0]
        before = sum(size for _, size in written)
        written.clear()
        own = figures(in_slab(tensor.as_numpy()), before)
        tensors = [pb_utils.Tensor("OUT", tensor.as_numpy()), pb_utils.Tensor("FIGURES", own)]
        return [pb_utils.InferenceResponse(tensors)]
"""


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
    folder = tmp_path / "doors"
    (folder / "negate" / "1").mkdir(parents=True)
    (folder / "negate" / "config.pbtxt").write_text(CONFIG)
    (folder / "negate" / "1" / "model.py").write_text(MODEL)
    return folder


def write_model(folder: Path, name: str, config: str, source: str) -> None:
    (folder / name / "1").mkdir(parents=True)
    (folder / name / "config.pbtxt").write_text(f'backend: "python"\n{config}{CPU}')
    (folder / name / "1" / "model.py").write_text(COUNTING + source)


class Forwarded:
    """What this process copies into slabs: how many bytes, and whether each copy is made from a slab."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.sizes: list[int] = []
        self.from_slab: list[bool] = []
        original = Slab.write

        def write(slab: Slab, offset: int, data: Any) -> int:
            if memoryview(data).nbytes > SMALL:
                self.sizes.append(memoryview(data).nbytes)
                self.from_slab.append(in_memfd(data))
            return original(slab, offset, data)

        patch.setattr(Slab, "write", write)


def bls_copies(folder: Path, patch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Copies of a tensor on its way from a caller to its callee, and of its answer, over all three processes."""
    write_model(folder, "caller", LARGE_IN + FIGURES, CALLER)
    write_model(folder, "callee", LARGE_IN + LARGE_OUT + FIGURES, CALLEE)
    array = np.arange(ELEMENTS, dtype=np.float32)
    with infer.Server(folder) as server:
        server.infer("caller", {"IN": array})
        forwarded = Forwarded(patch)
        result = server.infer("caller", {"IN": array})["FIGURES"].tolist()
    sent, in_place, answer_in_slab, input_in_slab, answered = result
    assert (in_place, answer_in_slab, input_in_slab) == (1, 1, 1)
    # The first is the caller's own input, which comes from this test's memory.
    assert forwarded.sizes == [array.nbytes] * 3
    assert forwarded.from_slab == [False, True, True]
    there, back = forwarded.sizes[1], forwarded.sizes[2]
    return (sent + there) // array.nbytes, (answered + back) // array.nbytes


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


def test_the_table_of_copies_is_true(
    repository: Path, tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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

    monkeypatch.undo()
    table = {
        "HTTP door": (parsed + joined, sent),
        "gRPC door": (gathered + cut, put),
        "in-process API": (taken, given),
        "worker process": (to_worker, from_worker),
        "BLS call": bls_copies(tmp_path / "bls", monkeypatch),
    }
    published = re.findall(r"^\| ([\w -]+?) \| (\d) \| (\d) \|$", (root / "ARCHITECTURE.md").read_text(), re.MULTILINE)
    assert {name: (int(there), int(back)) for name, there, back in published} == table


def test_a_decoupled_response_is_copied_once_by_its_worker_and_not_by_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_model(tmp_path, "sender", LARGE_IN + LARGE_OUT + FIGURES + DECOUPLED, SENDER)
    array = np.arange(ELEMENTS, dtype=np.float32)
    responses: list[tuple[bool, InferenceResponse]] = []
    original = Ticket.send

    def send(ticket: Ticket, response: InferenceResponse) -> None:
        if "OUT" in response.outputs:
            responses.append((in_memfd(response.outputs["OUT"].view), response))
        original(ticket, response)

    monkeypatch.setattr(Ticket, "send", send)
    with infer.Server(tmp_path) as server:
        *results, last = server.stream("sender", {"IN": array})
        assert [np.array_equal(result["OUT"], array + 1) for result in results] == [True, True]
        assert last["FIGURES"].tolist() == [2 * array.nbytes, 1]
        assert [shared for shared, _ in responses] == [True, True]
        responses.clear()


def test_an_output_that_lies_in_a_slab_already_is_copied_once(tmp_path: Path) -> None:
    write_model(tmp_path, "passing_on", LARGE_IN + LARGE_OUT + FIGURES, PASSING_ON)
    array = np.arange(ELEMENTS, dtype=np.float32)
    with infer.Server(tmp_path) as server:
        server.infer("passing_on", {"IN": array})
        result = server.infer("passing_on", {"IN": array})
    assert np.array_equal(result["OUT"], array)
    assert result["FIGURES"].tolist() == [1, array.nbytes]
