"""What is over goes at once: no circle of objects keeps a request or a model until the garbage collector comes by.

A server has the collector come rarely, because requests leave nothing for it: a request that failed and stays has its
tensors with it, a model that is unloaded the memory that its workers' frames are received into.
"""

from __future__ import annotations

import contextlib
import gc
import http.client
import json
import threading
from typing import TYPE_CHECKING, Any

import grpc
import numpy as np
import pytest

import infer
from infer.backends.api.errors import InferError
from infer.server.grpc.messages import SERVICE, message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from infer.app.wiring import RunningServer

    Serve = Any

LIMIT_S = 20
TENSORS = """
input [{ name: "IN" data_type: TYPE_INT32 dims: [-1] }]
output [{ name: "OUT" data_type: TYPE_INT32 dims: [-1] }]
"""
ONE = "instance_group [{ kind: KIND_CPU count: 1 }]\n"
ECHO = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", each.inputs()[0].as_numpy())]) for each in requests]
"""
SENDER = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        for each in requests:
            response = pb_utils.InferenceResponse([pb_utils.Tensor("OUT", each.inputs()[0].as_numpy())])
            each.get_response_sender().send(response, pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
PYTHON = f'backend: "python"\n{TENSORS}'
MODELS = {
    "one instance": (PYTHON + ONE, ECHO),
    "two instances": (PYTHON + ONE.replace("1", "2"), ECHO),
    "a batcher": (PYTHON + ONE + "max_batch_size: 4\ndynamic_batching { }\n", ECHO),
    "decoupled": (PYTHON + ONE + "model_transaction_policy { decoupled: true }\n", SENDER),
}


RAISING = """
class TritonPythonModel:
    def execute(self, requests):
        raise ValueError("no")
"""


def come_and_go(server: infer.Server, gone: threading.Event) -> None:
    """Load, ask, unload, and wait until it is gone."""
    server.load("m")
    answer = next(iter(server.stream("m", {"IN": np.array([[5]], np.int32)})))
    assert answer["OUT"].tolist() == [[5]]
    server.unload("m")
    for _ in range(LIMIT_S * 100):
        if all(entry.state == "UNAVAILABLE" for entry in server.index()):
            return
        gone.wait(0.01)
    pytest.fail(f"not unloaded: {server.index()}")


def garbage() -> list[Any]:
    """Objects of ours that only a round of the collector can free."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        return [each for each in gc.garbage if type(each).__module__.startswith("infer.")]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


@pytest.mark.parametrize(("config", "source"), MODELS.values(), ids=MODELS.keys())
def test_a_model_that_comes_and_goes_leaves_nothing_for_the_garbage_collector(
    tmp_path: Path, config: str, source: str
) -> None:
    if "max_batch_size" not in config:
        config = config.replace("dims: [-1]", "dims: [-1, -1]")
    write(tmp_path, "m", config, source)
    with infer.Server(tmp_path, model_control_mode="explicit") as server:
        come_and_go(server, threading.Event())
        gc.collect()
        gc.disable()
        try:
            come_and_go(server, threading.Event())
            assert garbage() == []
        finally:
            gc.enable()


def write(folder: Path, name: str, config: str, source: str) -> None:
    (folder / name / "1").mkdir(parents=True)
    (folder / name / "config.pbtxt").write_text(config)
    (folder / name / "1" / "model.py").write_text(source)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, serve: Serve) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("garbage")
    write(folder, "good", PYTHON + ONE, ECHO)
    write(folder, "raising", PYTHON + ONE, RAISING)
    write(folder, "sender", PYTHON + ONE + "model_transaction_policy { decoupled: true }\n", SENDER)
    with serve(folder) as running:
        yield running


class Clients:
    """One client of each kind, which takes errors as answers."""

    def __init__(self, server: RunningServer, stack: contextlib.ExitStack) -> None:
        assert server.http_address is not None
        assert server.grpc_address is not None
        self._http = http.client.HTTPConnection(*server.http_address, timeout=LIMIT_S)
        stack.callback(self._http.close)
        channel = stack.enter_context(grpc.insecure_channel("{}:{}".format(*server.grpc_address)))
        self._unary = channel.unary_unary(f"/{SERVICE}/ModelInfer")
        self._stream = channel.stream_stream(f"/{SERVICE}/ModelStreamInfer")

    def http(self, model: str) -> None:
        document = {"inputs": [{"name": "IN", "datatype": "INT32", "shape": [3], "data": [1, 2, 3]}]}
        self._http.request("POST", f"/v2/models/{model}/infer", json.dumps(document))
        self._http.getresponse().read()

    def unary(self, model: str) -> None:
        with contextlib.suppress(grpc.RpcError):
            self._unary(self._request(model), timeout=LIMIT_S)

    def stream(self, model: str) -> None:
        with contextlib.suppress(grpc.RpcError):
            for _ in self._stream(iter([self._request(model)]), timeout=LIMIT_S):
                pass

    @staticmethod
    def _request(model: str) -> bytes:
        request = message("ModelInferRequest")(model_name=model, raw_input_contents=[bytes(12)])
        request.inputs.add(name="IN", datatype="INT32", shape=[3])
        return request.SerializeToString()


@pytest.mark.parametrize("model", ["good", "raising", "sender", "there is none"])
@pytest.mark.parametrize("door", ["http", "unary", "stream"])
def test_a_request_leaves_nothing_for_the_garbage_collector_however_it_ends(
    server: RunningServer, door: str, model: str
) -> None:
    with contextlib.ExitStack() as stack:
        ask: Callable[[str], None] = getattr(Clients(server, stack), door)
        ask(model.replace(" ", "_"))
        gc.collect()
        gc.disable()
        stack.callback(gc.enable)
        for _ in range(3):
            ask(model.replace(" ", "_"))
        assert garbage() == []


def test_a_refused_and_a_failed_request_in_process_leave_nothing_either(tmp_path: Path) -> None:
    write(tmp_path, "m", PYTHON + ONE, RAISING)
    with infer.Server(tmp_path) as server:

        def fail(model: str) -> None:
            with pytest.raises(InferError):
                server.infer(model, {"IN": np.zeros(3, np.int32)})
            with pytest.raises(InferError):
                next(server.stream(model, {"IN": np.zeros(3, np.int32)}))

        fail("m")
        gc.collect()
        gc.disable()
        try:
            fail("m")
            fail("nowhere")
            assert garbage() == []
        finally:
            gc.enable()
