"""GET /v2/operator/overview: everything a dashboard shows, in one document that is cheap enough for every second.

It is made of frozen pictures by the door's own threads, so it costs the serving loop nothing and answers while the
loop is saturated. Times are in seconds, or in nanoseconds where the name says so.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from ..addresses import host_and_port
from ..observe.host import resident_bytes
from .model_rows import ModelRows
from .reply import send

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import falcon
    import orjson

    from ..engine import Engine
    from ..observe.gpu import GpuReading
    from ..observe.host import HostReading
    from .control import Gate

SCHEMA: Final = 1
"""The document's version: raised when a field changes its meaning, not when one is added."""

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the doors listen, None for one that is not open."""

    http: Address | None = None
    grpc: Address | None = None
    operator: Address | None = None


@dataclass(frozen=True, slots=True)
class Sources:
    """What the overview is read from besides the engine; every one may be called by any thread.

    ``host`` gives None where the machine is not measured, ``gpus`` the readings and the sentence why there are none,
    ``log_last`` the number of the newest log record.
    """

    name: str = ""
    log_file: str = ""
    addresses: Callable[[], Addresses] = Addresses
    host: Callable[[], HostReading | None] = lambda: None
    gpus: Callable[[], tuple[tuple[GpuReading, ...], str]] = lambda: ((), "")
    log_last: Callable[[], int] = int


class OverviewResource:
    """The overview of one server."""

    def __init__(self, engine: Engine, sources: Sources, gate: Gate) -> None:
        """``gate`` says what a client may change."""
        self._engine = engine
        self._sources = sources
        self._gate = gate
        self._rows = ModelRows()
        self._lock = threading.Lock()
        self._started_at = time.time()

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """The whole of it."""
        refusal = self._gate.refusal(req)
        server = self._server(refusal.sentence if refusal is not None else "")
        with self._lock:
            rows = self._rows.render(self._engine.rows())
        sources = self._sources
        send(resp, document(server, rows, self._engine.refusals, sources))

    def _server(self, changes: str) -> dict[str, Any]:
        engine, sources = self._engine, self._sources
        addresses = sources.addresses()
        used = os.times()
        return {
            "id": engine.server_id,
            "version": engine.version,
            "pid": os.getpid(),
            "name": sources.name,
            "started_at": self._started_at,
            "now": time.time(),
            "live": engine.live,
            "ready": engine.ready,
            "draining": engine.draining,
            "control_mode": engine.control_mode,
            "changes": changes,
            "http": reachable(addresses.http),
            "grpc": reachable(addresses.grpc),
            "operator": reachable(addresses.operator),
            "memory_bytes": resident_bytes(os.getpid()) or 0,
            "cpu_s": used.user + used.system,
            "log_file": sources.log_file,
        }


def document(
    server: Mapping[str, Any], rows: list[orjson.Fragment], refused: Mapping[str, int], sources: Sources
) -> dict[str, Any]:
    """The document from its parts."""
    host = sources.host()
    gpus, gpu_reason = sources.gpus()
    return {
        "schema": SCHEMA,
        "server": server,
        "host": asdict(host) if host is not None else None,
        "gpus": [asdict(gpu) for gpu in gpus],
        "gpu_reason": "" if gpus else gpu_reason,
        "models": rows,
        "refused": dict(refused),
        "log_last": sources.log_last(),
    }


def reachable(address: Address | None) -> str | None:
    """``host:port`` that reaches a door from this machine."""
    return None if address is None else host_and_port(address)
