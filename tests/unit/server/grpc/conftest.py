"""The gRPC door in front of an engine that answers by itself: no worker, no queue."""

from __future__ import annotations

import asyncio
import queue
from typing import TYPE_CHECKING, Any

import grpc
import numpy as np
import pytest

from infer.server.grpc.messages import SERVICE, message
from infer.server.grpc.options import GrpcSettings
from infer.server.grpc.requests import RequestReader
from infer.server.grpc.service import GrpcService
from infer.tests.unit.server.http.conftest import FakeEngine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from infer.server.loop import ServingLoop

TIMEOUT_S = 20


class DoorUnderTest:
    """A running door, and simple ways to talk to it."""

    def __init__(self, serving: ServingLoop, **settings: Any) -> None:
        self.serving = serving
        self.engine = FakeEngine(serving.loop)
        options: dict[str, Any] = {"host": "127.0.0.1", "port": 0, **settings}
        self.service = GrpcService(self.engine, GrpcSettings(**options))  # type: ignore[arg-type]
        serving.run(self.service.start())
        self.address = self.service.address

    @property
    def target(self) -> str:
        host, port = self.address
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def channel(self, credentials: Any = None, **options: Any) -> grpc.Channel:
        """A channel of its own; the caller closes it."""
        unlimited = {"max_receive_message_length": -1, "max_send_message_length": -1}
        given = [(f"grpc.{name}", value) for name, value in {**unlimited, **options}.items()]
        if credentials is not None:
            return grpc.secure_channel(self.target, credentials, given)
        return grpc.insecure_channel(self.target, given)

    def call(self, method: str, request: Any = None, **options: Any) -> Any:
        """One unary call: the response's message. Raises grpc.RpcError."""
        data = (message(f"{method}Request")() if request is None else request).SerializeToString()
        with self.channel() as channel:
            answer = channel.unary_unary(f"/{SERVICE}/{method}")(data, timeout=TIMEOUT_S, **options)
        return message(f"{method}Response").FromString(answer)

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


class Stream:
    """One call of ModelStreamInfer. Messages may be sent and taken in any order."""

    def __init__(self, door: DoorUnderTest, *metadata: tuple[str, str]) -> None:
        self._requests: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        # A client that does not measure the connection takes no more ahead of its reader than the first window.
        self.channel = door.channel(**{"http2.bdp_probe": 0})
        method = self.channel.stream_stream(f"/{SERVICE}/ModelStreamInfer")
        self.call: Any = method(iter(self._requests.get, None), metadata=metadata, timeout=TIMEOUT_S)

    def send(self, *requests: Any) -> None:
        """Send messages, or bytes as they are."""
        for request in requests:
            self._requests.put(request if isinstance(request, bytes) else request.SerializeToString())

    def half_close(self) -> None:
        """Send nothing more."""
        self._requests.put(None)

    def take(self) -> Any:
        """The next message."""
        return message("ModelStreamInferResponse").FromString(next(self.call))

    def rest(self) -> list[Any]:
        """Half-close and take everything until the end. Raises grpc.RpcError for an end with a failure."""
        self.half_close()
        return [message("ModelStreamInferResponse").FromString(data) for data in self.call]

    def end(self) -> tuple[grpc.StatusCode, str]:
        """How the call ended."""
        return self.call.code(), self.call.details()

    def close(self) -> None:
        self.half_close()
        self.call.cancel()
        self.channel.close()


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
        # A ticket leads to its call, whose sockets grpc keeps as long as anybody knows it.
        door.engine.tickets.clear()
        door.engine.held.clear()


@pytest.fixture
def door(make_door: Callable[..., DoorUnderTest]) -> DoorUnderTest:
    """A door with Triton's defaults."""
    return make_door()


@pytest.fixture
def open_stream(door: DoorUnderTest) -> Iterator[Callable[..., Stream]]:
    """Streams to the door, closed behind the test."""
    streams: list[Stream] = []

    def make(*metadata: tuple[str, str]) -> Stream:
        streams.append(Stream(door, *metadata))
        return streams[-1]

    yield make
    for stream in streams:
        stream.close()


@pytest.fixture
def engine() -> Any:
    """An engine whose requests nobody answers by itself: a test does."""
    loop = asyncio.new_event_loop()
    engine = FakeEngine(loop)
    yield engine
    loop.close()


@pytest.fixture
def reader(engine: Any) -> RequestReader:
    """Reads requests for that engine."""
    return RequestReader(engine)


class MakeRequest:
    """Makes ModelInferRequests."""

    def __call__(self, model: str = "simple", *, raw: tuple[bytes, ...] = (), **fields: Any) -> Any:
        return message("ModelInferRequest")(model_name=model, raw_input_contents=raw, **fields)

    def tensor(self, name: str, datatype: str, *shape: int, **contents: Any) -> Any:
        """An input, with typed contents where they are given."""
        tensor = message("ModelInferRequest").InferInputTensor(name=name, datatype=datatype, shape=shape)
        for field, values in contents.items():
            if field == "parameters":
                set_parameters(tensor.parameters, values)
            else:
                getattr(tensor.contents, field).extend(values)
        return tensor

    def simple(self, left: Any = None, **fields: Any) -> Any:
        """The sum model's request: 0…15 and ones."""
        array = np.arange(16, dtype=np.int32) if left is None else left
        inputs = [self.tensor(name, "INT32", 1, 16) for name in ("INPUT0", "INPUT1")]
        return self(raw=(array.tobytes(), np.ones(16, np.int32).tobytes()), inputs=inputs, **fields)

    def one(self, model: str, values: Any, **fields: Any) -> Any:
        """A request with the one input INPUT0 of numbers."""
        array = np.asarray(values, dtype=np.float32)
        return self(model, raw=(array.tobytes(),), inputs=[self.tensor("INPUT0", "FP32", array.size)], **fields)


def set_parameters(target: Any, values: dict[str, tuple[str, Any] | None]) -> None:
    """Set parameters, each a field and its value; None for a parameter with no field set."""
    for key, value in values.items():
        parameter = target[key]
        if value is not None:
            setattr(parameter, value[0], value[1])


@pytest.fixture
def make() -> MakeRequest:
    """Makes requests."""
    return MakeRequest()


@pytest.fixture
def parametrise() -> Callable[[Any, dict[str, Any]], Any]:
    """Sets the parameters of a message and gives it back."""

    def parametrise(target: Any, values: dict[str, Any]) -> Any:
        set_parameters(target.parameters, values)
        return target

    return parametrise
