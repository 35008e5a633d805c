from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import socket
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from infer.backends.api.errors import InvalidArgument, NotFound
from infer.backends.api.model_config import ModelConfig
from infer.server.lifecycle.signature import ModelSignature
from infer.server.lifecycle.states import IndexEntry
from infer.server.loop import ServingLoop
from infer.server.observe.custom_metrics import CustomMetricRegistry
from infer.server.observe.log_ring import LogRing
from infer.server.observe.statistics import Duration, ModelSnapshot
from infer.server.operator.overview import Addresses
from infer.server.operator.service import OperatorService, OperatorSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from infer.server.lifecycle.overrides import LoadOverrides

KEY = "the-key"

CONFIG = ModelConfig.from_document(
    {
        "name": "simple",
        "backend": "python",
        "max_batch_size": 8,
        "input": [{"name": "IN", "data_type": "TYPE_INT32", "dims": [16]}],
        "output": [{"name": "OUT", "data_type": "TYPE_STRING", "dims": [-1]}],
    }
)


class SocketConnection(http.client.HTTPConnection):
    """A client over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=20)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class StubEngine:
    """What the door asks of an engine, with one model ``simple`` in versions 1 and 3."""

    server_id = "triton"
    version = "1.2.3"
    extensions = ("statistics",)
    control_mode = "explicit"

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.live = self.ready = True
        self.draining = False
        self.refusals = {"NOT_FOUND": 2}
        self.custom_metrics = CustomMetricRegistry()
        self.calls: list[tuple[Any, ...]] = []
        self.opened: dict[str, Any] = {}
        self.gate: asyncio.Event | None = None
        self.entered = asyncio.Event()

    def find(self, name: str, version: int | None = None) -> Any:
        if name == "broken":
            raise RuntimeError("a secret")
        if name != "simple" or version not in (None, 1, 3):
            raise NotFound(f"Request for unknown model: '{name}' is not found")
        return SimpleNamespace(name=name, version=version or 3, config=CONFIG, signature=ModelSignature(CONFIG))

    def ready_versions(self, name: str) -> tuple[int, ...]:
        return (1, 3)

    def is_model_ready(self, name: str, version: int | None = None) -> bool:
        return name == "simple" and version in (None, 1, 3)

    def index(self, *, ready_only: bool = False) -> tuple[IndexEntry, ...]:
        entries = (IndexEntry("bad", "1", "UNAVAILABLE", "no file"), IndexEntry("simple", "3", "READY"))
        return entries[1:] if ready_only else entries

    def rows(self) -> tuple[tuple[IndexEntry, Any], ...]:
        return tuple((entry, self.opened.get(entry.name)) for entry in self.index())

    def statistics(self, name: str = "", version: str = "") -> tuple[ModelSnapshot, ...]:
        if name not in ("", "simple"):
            raise InvalidArgument(f"requested model '{name}' is not available")
        return (ModelSnapshot("simple", version or "3", success=Duration(5, 7)),)

    async def load(self, name: str, overrides: LoadOverrides | None = None) -> None:
        self.calls.append(("load", name, overrides) if overrides else ("load", name))
        if name == "bad":
            raise InvalidArgument("load failed for model 'bad': no file")
        if self.gate is not None:
            self.entered.set()
            await self.gate.wait()

    def open_gate(self) -> None:
        assert self.gate is not None
        self.gate.set()

    async def unload(self, name: str, *, unload_dependents: bool = False) -> None:
        self.calls.append(("unload", name, unload_dependents))


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Door:
    """A running door with its engine and loop, and a real client, who has the key unless a test takes it away."""

    service: OperatorService
    engine: StubEngine
    loop: ServingLoop
    ring: LogRing
    headers: dict[str, str] = field(default_factory=lambda: {"Authorization": f"Bearer {KEY}"})

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(*self.service.address, timeout=20)

    def connect_to_socket(self) -> http.client.HTTPConnection:
        path = self.service._settings.control_socket
        assert path is not None
        return SocketConnection(path)

    def ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: dict[str, str] | None = None,
        connection: http.client.HTTPConnection | None = None,
    ) -> Answer:
        connection = connection or self.connect()
        with contextlib.closing(connection):
            connection.request(method, path, body or None, self.headers | (headers or {}))
            response = connection.getresponse()
            names = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, names, response.read())

    def get(self, path: str) -> Answer:
        return self.ask("GET", path)

    def post(
        self,
        path: str,
        document: Any = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        return self.ask("POST", path, b"" if document is None else json.dumps(document).encode(), headers)


@pytest.fixture
def serving_loop() -> Iterator[ServingLoop]:
    loop = ServingLoop()
    loop.start()
    yield loop
    loop.stop()


@pytest.fixture
def settings() -> OperatorSettings:
    return OperatorSettings(port=0, control_timeout_s=10, control_key=KEY)


@pytest.fixture
def door(serving_loop: ServingLoop, settings: OperatorSettings) -> Iterator[Door]:
    engine, ring = StubEngine(serving_loop.loop), LogRing()
    service = OperatorService(engine, settings, ring=ring, doors=lambda: Addresses(http=("0.0.0.0", 80)))
    service.start()
    yield Door(service, engine, serving_loop, ring)
    service.stop()
