"""The HTTP door on real sockets in front of an engine that answers by itself: no worker, no queue."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import sys
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from infer.backends.api.datatypes import Datatype
from infer.backends.api.errors import BackendFailure, Cancelled, InferError, InvalidArgument, NotFound
from infer.backends.api.model_config import ModelConfig, TensorSpec
from infer.backends.api.response import InferenceResponse
from infer.backends.api.tensor import Tensor
from infer.server.http.service import HttpService, HttpSettings
from infer.server.lifecycle.signature import ModelSignature
from infer.server.lifecycle.states import IndexEntry
from infer.server.observe.statistics import ModelStatistics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from infer.backends.api.request import InferenceRequest
    from infer.server.lifecycle.overrides import LoadOverrides
    from infer.server.loop import ServingLoop

CODEC_COMMAND = (
    sys.executable,
    "-c",
    "import sys; from infer.server.http.codec_process import main; main(int(sys.argv[1]))",
)


def spec(name: str, datatype: str, *dims: int) -> TensorSpec:
    return TensorSpec(name, Datatype(datatype), dims)


def model(
    name: str,
    inputs: list[TensorSpec],
    outputs: list[TensorSpec],
    max_batch_size: int = 0,
    labels: dict[str, tuple[str, ...]] | None = None,
    decoupled: bool = False,
) -> SimpleNamespace:
    """What the door needs of a served model."""
    document = {"name": name, "platform": "", "backend": "fake", "max_batch_size": max_batch_size}
    config = ModelConfig(
        name=name,
        backend="fake",
        max_batch_size=max_batch_size,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        decoupled=decoupled,
        document=document,
    )
    return SimpleNamespace(
        name=name,
        version=1,
        config=config,
        signature=ModelSignature(config, labels),
        statistics=ModelStatistics(name, 1),
    )


def identity(datatype: str) -> SimpleNamespace:
    return model(f"ident_{datatype}", [spec("INPUT0", datatype, -1)], [spec("OUTPUT0", datatype, -1)])


def add_sub(request: InferenceRequest) -> InferenceResponse:
    left, right = (request.inputs[name].as_numpy() for name in ("INPUT0", "INPUT1"))
    outputs = {"OUTPUT0": Tensor.from_numpy(left + right), "OUTPUT1": Tensor.from_numpy(left - right)}
    return InferenceResponse(outputs)


def echo(request: InferenceRequest) -> InferenceResponse:
    pairs = zip(("OUTPUT0", "OUTPUT1", "OUTPUT2"), request.inputs.values(), strict=False)
    outputs = {name: Tensor(tensor.datatype, tensor.shape, tensor.buffer) for name, tensor in pairs}
    return InferenceResponse(outputs, dict(request.parameters))


def fail(request: InferenceRequest) -> InferenceResponse:
    return InferenceResponse(error=BackendFailure("ValueError: boom from execute"))


@dataclass(eq=False)
class FakeTicket:
    """An accepted request that answers itself, or that a test answers."""

    request: InferenceRequest
    on_response: Callable[[InferenceResponse], None]
    cancelled: bool = False
    done: bool = False
    paused: bool = False
    on_cancel: Callable[[], None] = field(default=lambda: None)

    def send(self, response: InferenceResponse) -> None:
        self.done = True
        self.on_response(response)

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    def cancel(self) -> None:
        if not self.done and not self.cancelled:
            self.cancelled = True
            self.on_cancel()
            self.send(InferenceResponse(error=Cancelled("the request was cancelled")))


class FakeEngine:
    """The engine as a door sees it. ``held`` keeps its requests until a test answers them."""

    server_id = "triton"
    version = "0.1.0"
    extensions = ("classification", "binary_tensor_data")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.draining = False
        self.live = True
        self.ready = True
        self.control_mode = "explicit"
        self.remote_control = True
        self.refused: list[InferError] = []
        self.tickets: list[FakeTicket] = []
        self.held: list[FakeTicket] = []
        self.changes: list[tuple[str, str]] = []
        self.overrides: list[LoadOverrides | None] = []
        labels = {"OUTPUT0": tuple(f"label{index}" for index in range(16))}
        two = [spec("INPUT0", "INT32", 16), spec("INPUT1", "INT32", 16)]
        sums = [spec("OUTPUT0", "INT32", 16), spec("OUTPUT1", "INT32", 16)]
        self.behaviours: dict[str, Callable[[InferenceRequest], InferenceResponse] | None] = {}
        self.models: dict[str, Any] = {}
        self.add(model("simple", two, sums, 8, labels), add_sub)
        self.add(model("held", [spec("INPUT0", "FP32", -1)], [spec("OUTPUT0", "FP32", -1)]), None)
        self.add(model("raises", [spec("INPUT0", "FP32", -1)], [spec("OUTPUT0", "FP32", -1)]), fail)
        self.add(model("decoupled", [spec("INPUT0", "FP32", -1)], [spec("OUTPUT0", "FP32", -1)], decoupled=True), echo)
        self.add(model("batched", [spec("INPUT0", "FP32", -1)], [spec("OUTPUT0", "FP32", -1)], 8), echo)
        self.add(model("text", [spec("INPUT0", "BYTES", 1)], [spec("OUTPUT0", "BYTES", 1)]), echo)
        self.add(model("matrix", [spec("INPUT0", "FP32", -1, -1)], [spec("OUTPUT0", "FP32", -1, -1)]), echo)
        for datatype in Datatype:
            self.add(identity(datatype.value), echo)

    def add(self, served: Any, behaviour: Callable[[InferenceRequest], InferenceResponse] | None) -> None:
        self.models[served.name] = served
        self.behaviours[served.name] = behaviour

    def find(self, name: str, version: int | None = None) -> Any:
        if name not in self.models:
            raise NotFound(f"Request for unknown model: '{name}' is not found")
        if version not in (None, 1):
            raise NotFound(f"Request for unknown model: '{name}' version {version} is not found")
        return self.models[name]

    def ready_versions(self, name: str) -> tuple[int, ...]:
        return (1,)

    async def probe_server_ready(self) -> bool:
        return self.ready

    async def probe_ready(self, name: str, version: int | None = None) -> bool:
        return name in self.models and version in (None, 1)

    def infer(
        self, request: InferenceRequest, on_response: Callable[[InferenceResponse], None], model: Any = None
    ) -> FakeTicket:
        served = model or self.find(request.model_name, request.model_version)
        served.signature.check(request)
        ticket = FakeTicket(request, on_response)
        self.tickets.append(ticket)
        behaviour = self.behaviours[served.name]
        if behaviour is None:
            self.held.append(ticket)
        else:
            self.loop.call_soon(lambda: None if ticket.done else ticket.send(behaviour(request)))
        return ticket

    def refuse(self, error: InferError) -> None:
        self.refused.append(error)

    def index(self, *, ready_only: bool = False) -> tuple[IndexEntry, ...]:
        entries = [IndexEntry(name, "1", "READY") for name in self.models]
        if not ready_only:
            entries += [IndexEntry("asleep"), IndexEntry("broken", "1", "UNAVAILABLE", "unloaded")]
        return tuple(entries)

    def statistics(self, name: str = "", version: str = "") -> tuple[Any, ...]:
        if name and name not in self.models:
            raise InvalidArgument(f"requested model '{name}' is not available")
        if version not in ("", "1"):
            raise InvalidArgument(f"requested model version is not available for model '{name}'")
        return tuple(served.statistics.snapshot() for served in self.models.values() if name in ("", served.name))

    async def load(self, name: str, overrides: LoadOverrides | None = None) -> None:
        self.changes.append(("load", name))
        self.overrides.append(overrides)
        if name == "unknown_model":
            raise InferError(f"failed to load '{name}', failed to poll from model repository")

    async def unload(self, name: str, *, wait: bool = True, unload_dependents: bool = False) -> None:
        assert not wait, "a client is not kept until the last request is answered"
        self.changes.append(("unload_all" if unload_dependents else "unload", name))


@dataclass
class Answer:
    """A whole HTTP response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """The error's sentence; the body must be nothing else."""
        document = json.loads(self.body)
        assert list(document) == ["error"]
        assert self.headers["content-type"] == "application/json"
        return document["error"]


class DoorUnderTest:
    """A running door, and simple ways to talk to it."""

    def __init__(self, serving: ServingLoop, **settings: Any) -> None:
        self.serving = serving
        self.engine = FakeEngine(serving.loop)
        options: dict[str, Any] = {"host": "127.0.0.1", "port": 0, **settings}
        self.service = HttpService(self.engine, HttpSettings(**options))  # type: ignore[arg-type]
        serving.run(self.service.start())
        self.address = self.service.address

    def call(self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> Answer:
        """One request on a connection of its own."""
        connection = http.client.HTTPConnection(*self.address, timeout=20)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            named = {key.lower(): value for key, value in response.getheaders()}
            return Answer(response.status, named, response.read())
        finally:
            connection.close()

    def post(self, path: str, document: Any, headers: dict[str, str] | None = None) -> Answer:
        """POST JSON: a document, or bytes as they are."""
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        return self.call("POST", path, body, headers)

    def infer(self, name: str, inputs: list[dict[str, Any]], **members: Any) -> Answer:
        return self.post(f"/v2/models/{name}/infer", {"inputs": inputs, **members})

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=20)

    def on_loop(self, function: Callable[[], Any]) -> Any:
        """Run a function on the loop; everything that happened before is seen by it."""

        async def run() -> Any:
            return function()

        return self.serving.run(run())

    def wait_until(self, condition: Callable[[], bool], seconds: float = 10) -> None:
        """Let the loop turn until the condition holds; fails when it does not in time."""

        async def wait() -> None:
            async with asyncio.timeout(seconds):
                while not condition():  # noqa: ASYNC110  what a client or the kernel does sets no event
                    await asyncio.sleep(0.001)

        self.serving.run(wait())

    def assert_healthy(self) -> None:
        """Alive, and nothing pending."""
        assert self.call("GET", "/v2/health/live").status == 200
        self.wait_until(lambda: not self.service._state.tasks)
        assert all(ticket.done for ticket in self.engine.tickets)


@pytest.fixture
def make_door(serving: ServingLoop) -> Iterator[Callable[..., DoorUnderTest]]:
    """Doors with settings of their own, stopped behind the test."""
    doors: list[DoorUnderTest] = []

    def make(**settings: Any) -> DoorUnderTest:
        doors.append(DoorUnderTest(serving, **settings))
        return doors[-1]

    yield make
    for door in doors:
        serving.run(door.service.stop())


@pytest.fixture
def door(make_door: Callable[..., DoorUnderTest]) -> DoorUnderTest:
    """A door with Triton's defaults."""
    return make_door()


SIXTEEN = list(range(16))


@pytest.fixture
def two_inputs() -> list[dict[str, Any]]:
    """The inputs of `simple`, as JSON: 0…15 and ones."""
    return [
        {"name": "INPUT0", "shape": [1, 16], "datatype": "INT32", "data": SIXTEEN},
        {"name": "INPUT1", "shape": [1, 16], "datatype": "INT32", "data": [1] * 16},
    ]


@pytest.fixture
def binary_request() -> tuple[bytes, dict[str, str]]:
    """The same as a binary request: body and headers."""
    entries = [
        {"name": name, "shape": [1, 16], "datatype": "INT32", "parameters": {"binary_data_size": 64}}
        for name in ("INPUT0", "INPUT1")
    ]
    head = json.dumps({"inputs": entries, "parameters": {"binary_data_output": True}}).encode()
    tail = np.arange(16, dtype=np.int32).tobytes() + np.ones(16, dtype=np.int32).tobytes()
    return head + tail, {"Inference-Header-Content-Length": str(len(head))}
