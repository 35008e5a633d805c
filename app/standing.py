"""How a server of the registry stands: what it told the registry, and what it answers now. Pure but for ``look``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..tui.failure import Failure
from ..tui.source import ServerSource
from .failures import ExitCode
from .finding import client_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..tui.snapshot import ModelSnapshot, Overview
    from .registry import Record

_READY = "READY"
_UNLOADED = "unloaded"
"""Triton's reason of a version that somebody has unloaded."""


@dataclass(frozen=True, slots=True)
class Standing:
    """One server; ``overview`` is None where it does not answer, and ``why`` says why."""

    record: Record
    overview: Overview | None = None
    why: str = ""

    @property
    def state(self) -> str:
        """One word or two for people."""
        if self.overview is None:
            return "starting" if not self.record.start_page and not self.record.operator else "no answer"
        if self.overview.server.draining:
            return "draining"
        if self.overview.server.ready:
            return "ready"
        return "not ready" if self.record.start_page else "starting"

    @property
    def ready(self) -> bool:
        """Whether it is ready for requests."""
        return self.state == "ready"

    @property
    def counted(self) -> tuple[ModelSnapshot, ...]:
        """The versions that somebody wants: those never loaded, and those unloaded, are not among them."""
        rows = self.overview.models if self.overview else ()
        return tuple(row for row in rows if row.state and row.reason != _UNLOADED)

    @property
    def not_ready(self) -> tuple[ModelSnapshot, ...]:
        """Those of them that do not serve."""
        return tuple(row for row in self.counted if row.state != _READY)

    @property
    def in_flight(self) -> int:
        """Requests accepted and not answered."""
        return sum(row.in_flight or 0 for row in (self.overview.models if self.overview else ()))

    @property
    def memory_bytes(self) -> int | None:
        """Memory of the server process and its workers; None where it does not answer."""
        if self.overview is None:
            return None
        return (self.overview.server.memory_bytes or 0) + sum(row.memory_bytes or 0 for row in self.overview.models)


def look(record: Record, timeout_s: float) -> Standing:
    """Ask a server how it stands."""
    try:
        return Standing(record, ServerSource(client_of(record, timeout_s)).overview())
    except Failure as error:
        return Standing(record, None, f"{error.what}: {error.why}")


def outcome(standings: Sequence[Standing]) -> ExitCode:
    """The exit code for servers: all ready, some not, none there."""
    if not standings:
        return ExitCode.NOT_FOUND
    return ExitCode.OK if all(standing.ready for standing in standings) else ExitCode.NOT_READY


def document(standing: Standing, now: float) -> dict[str, Any]:
    """One server for programs: sizes in bytes, times in seconds. ``now`` is in seconds since 1970."""
    record = standing.record
    return {
        "name": record.name,
        "pid": record.pid,
        "version": record.version,
        "state": standing.state,
        "ready": standing.ready,
        "why": standing.why,
        "started_at": record.started_at,
        "uptime_s": round(max(0.0, now - record.started_at), 3),
        "http": record.http,
        "grpc": record.grpc,
        "operator": record.operator,
        "control_socket": record.control_socket,
        "log_file": record.log_file,
        "models": {
            "ready": len(standing.counted) - len(standing.not_ready),
            "total": len(standing.counted),
            "not_ready": [
                {"name": row.name, "version": row.version, "state": row.state, "reason": row.reason}
                for row in standing.not_ready
            ],
        },
        "in_flight": standing.in_flight,
        "memory_bytes": standing.memory_bytes,
    }


def reasons(standing: Standing) -> list[str]:
    """A line for everything that is not as it should be."""
    lines = [f"{standing.record.name}: {standing.why}"] if standing.why else []
    for row in standing.not_ready:
        version = f" version {row.version}" if row.version else ""
        reason = f": {row.reason}" if row.reason else ""
        lines.append(f"{row.name}{version} {row.state}{reason}")
    return lines
