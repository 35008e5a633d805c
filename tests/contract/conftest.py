"""Servers in this process, and streams to a server process, read as slowly as a test likes."""

from __future__ import annotations

import contextlib
import queue
import re
import threading
from typing import TYPE_CHECKING, Any, Protocol

import grpc
import numpy as np
import psutil
import pytest
from tritonclient.grpc import service_pb2

import infer
from infer.app.settings import ServerSettings
from infer.app.wiring import RunningServer, build

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

METHOD = "/inference.GRPCInferenceService/ModelStreamInfer"
LIMIT_S = 600


def numbers(message: Any) -> list[int]:
    """What a response carries. It must not be an error."""
    assert not message.error_message
    return np.frombuffer(message.infer_response.raw_output_contents[0], np.int32).tolist()


def address(server: Any) -> str:
    """Host and port of the gRPC door of a server process."""
    found = re.search(r"^grpc +(?:grpc://)?([\d.]+:\d+)", server.log, re.MULTILINE)
    assert found is not None, server.log
    return found[1]


class Reader:
    """One stream, which reads a response when it is told to."""

    def __init__(self, url: str) -> None:
        self._channel = grpc.insecure_channel(url, options=[("grpc.max_receive_message_length", -1)])
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        call = self._channel.stream_stream(
            METHOD, service_pb2.ModelInferRequest.SerializeToString, service_pb2.ModelStreamInferResponse.FromString
        )
        self._call: Any = call(iter(self._requests.get, None), timeout=LIMIT_S)

    def ask(self, model: str, *, empty_final: bool = False, **inputs: list[int]) -> None:
        """Send a request; ``empty_final`` asks for the final flag also where it carries nothing."""
        request = service_pb2.ModelInferRequest(model_name=model)
        if empty_final:
            request.parameters["triton_enable_empty_final_response"].bool_param = True
        for name, values in inputs.items():
            request.inputs.add(name=name, datatype="INT32", shape=[len(values)])
            request.raw_input_contents.append(np.array(values, np.int32).tobytes())
        self._requests.put(request)

    def next(self) -> list[int]:
        """The next response."""
        return numbers(next(self._call))

    def rest(self) -> Iterator[Any]:
        """All that still comes, as messages."""
        self._requests.put(None)
        yield from self._call

    def leave(self) -> None:
        """Go away without a word."""
        self._requests.put(None)
        self._call.cancel()
        self._channel.close()


class Serve(Protocol):
    """Starts a server in this process, both doors on free ports of the loopback; all of its models have to load."""

    def __call__(
        self,
        repository: Path,
        **settings: Any,
    ) -> contextlib.AbstractContextManager[RunningServer]: ...


@pytest.fixture(scope="session")
def serve() -> Serve:
    """Servers with doors, each for as long as its ``with`` block."""

    @contextlib.contextmanager
    def serving(repository: Path, **settings: Any) -> Iterator[RunningServer]:
        doors = {"http_address": "127.0.0.1", "http_port": 0, "grpc_address": "127.0.0.1", "grpc_port": 0}
        told: dict[str, Any] = {"model_repository": (repository,), "allow_metrics": False, **doors, **settings}
        running = build(ServerSettings(**told))
        assert running.start() == {}
        try:
            yield running
        finally:
            running.drain(5)
            running.stop()

    return serving


class Embed(Protocol):
    """Starts `infer.Server`, which has no doors."""

    def __call__(self, repository: Path, **settings: Any) -> contextlib.AbstractContextManager[infer.Server]: ...


@pytest.fixture(scope="session")
def embed() -> Embed:
    """Servers without doors. With each end the processes that it has started and the threads of its instances."""

    @contextlib.contextmanager
    def embedding(repository: Path, **settings: Any) -> Iterator[infer.Server]:
        before, others = psutil.Process().children(recursive=True), set(threading.enumerate())
        with infer.Server(repository, **settings) as server:
            yield server
        assert psutil.Process().children(recursive=True) == before
        left = set(threading.enumerate()) - others
        assert [thread.name for thread in left if thread.name.startswith("instance-")] == []

    return embedding


@pytest.fixture
def read_from() -> Iterator[Callable[[Any], Reader]]:
    """Opens streams to a server process; with the test they end."""
    opened: list[Reader] = []

    def opening(server: Any) -> Reader:
        opened.append(Reader(address(server)))
        return opened[-1]

    yield opening
    for each in opened:
        each.leave()
