"""A server at one moment, as the dashboard and the commands see it: the overview of the operator's door, frozen.

What a server does not tell is None (a real Triton has no percentiles and no picture of its instances); a document of an
older or newer server parses as far as it goes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

Document = Mapping[str, Any]
T = TypeVar("T")

PHASES = ("queue", "compute_input", "compute_infer", "compute_output")
"""The spans of a request, in their order; ``request`` is the whole."""


@dataclass(frozen=True, slots=True)
class Duration:
    """A number of events, and the nanoseconds that they took together."""

    count: int = 0
    ns: int = 0


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance of a model version. ``memory_bytes`` is that of its worker process; None where it has none."""

    name: str
    kind: str = ""
    device: int = -1
    state: str = ""
    pid: int | None = None
    memory_bytes: int | None = None
    restarts: int = 0


@dataclass(frozen=True, slots=True)
class ModelSnapshot:
    """One version of a model (or a model that was never loaded: version and state are empty), counters since load.

    ``latency`` counts successes by upper bound in microseconds, ascending; a server without such counts may tell
    ``quantiles`` (share 0..1, microseconds) over a window of its own. ``pending`` wait in the queue; ``in_flight`` are
    accepted and not answered. ``batch_limits`` counts batches by why they were no larger; it is empty without a
    batcher.
    """

    name: str
    version: str = ""
    state: str = ""
    reason: str = ""
    backend: str = ""
    max_batch_size: int = 0
    depends_on: tuple[str, ...] = ()
    instances: tuple[Instance, ...] = ()
    success: int = 0
    failures: Mapping[str, int] = field(default_factory=dict[str, int])
    inference_count: int = 0
    execution_count: int = 0
    pending: int | None = None
    in_flight: int | None = None
    durations: Mapping[str, Duration] = field(default_factory=dict[str, Duration])
    latency: tuple[tuple[float, int], ...] | None = None
    quantiles: tuple[tuple[float, float], ...] = ()
    batches: tuple[tuple[int, int], ...] = ()
    batch_limits: Mapping[str, int] = field(default_factory=dict[str, int])
    load_duration_s: float = 0.0
    last_inference_ms: int = 0

    @property
    def key(self) -> tuple[str, str]:
        """What makes this the same row in the next picture."""
        return (self.name, self.version)

    @property
    def failed(self) -> int:
        """Failures of every reason."""
        return sum(self.failures.values())

    @property
    def limit_shares(self) -> list[tuple[str, float]]:
        """Why batches were no larger: the reasons that there were with their shares 0..1, the most frequent first."""
        total = sum(self.batch_limits.values())
        found = sorted(self.batch_limits.items(), key=lambda pair: -pair[1])
        return [(reason, count / total) for reason, count in found if count]

    @property
    def memory_bytes(self) -> int | None:
        """Memory of all worker processes together; None where no instance has one of its own."""
        known = [instance.memory_bytes for instance in self.instances if instance.memory_bytes is not None]
        return sum(known) if known else None


@dataclass(frozen=True, slots=True)
class Server:
    """The server itself. ``changes`` says why this client may not load or unload; empty where it may."""

    id: str = ""
    version: str = ""
    name: str = ""
    pid: int | None = None
    started_at: float | None = None
    now: float = 0.0
    live: bool = True
    ready: bool = False
    draining: bool = False
    control_mode: str = ""
    changes: str = ""
    http: str | None = None
    grpc: str | None = None
    operator: str | None = None
    memory_bytes: int | None = None
    cpu_s: float | None = None
    log_file: str = ""


@dataclass(frozen=True, slots=True)
class Host:
    """The machine. ``cpu_utilization`` is 0..1 over all cores."""

    cpu_utilization: float | None = None
    cpu_count: int | None = None
    load_1m: float | None = None
    memory_total_bytes: int = 0
    memory_used_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU. ``utilization`` is 0..1; a figure that it does not tell is None."""

    index: int = 0
    uuid: str = ""
    name: str = ""
    utilization: float | None = None
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    power_usage_watts: float | None = None
    power_limit_watts: float | None = None
    temperature_celsius: float | None = None
    energy_joules: float | None = None


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything at one moment; ``server.now`` is the server's clock in seconds since 1970."""

    server: Server
    models: tuple[ModelSnapshot, ...] = ()
    host: Host | None = None
    gpus: tuple[Gpu, ...] = ()
    gpu_reason: str = ""
    refused: Mapping[str, int] = field(default_factory=dict[str, int])
    log_last: int = 0

    def model(self, name: str, version: str = "") -> ModelSnapshot | None:
        """The version of a model; without one, its first row."""
        return next((row for row in self.models if row.name == name and version in ("", row.version)), None)

    def dependents(self, name: str) -> tuple[str, ...]:
        """The models that call this one as a step, by name."""
        return tuple(dict.fromkeys(row.name for row in self.models if name in row.depends_on))


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One line of the server's log. ``time`` is in seconds since 1970; ``level`` VERBOSE, INFO, WARNING or ERROR."""

    seq: int
    time: float
    level: str
    message: str
    file: str = ""
    model: str = ""
    version: str = ""
    instance: str = ""
    request_id: str = ""


@dataclass(frozen=True, slots=True)
class LogPage:
    """Records in order; ``lost`` were gone before they could be read, ``last`` is the newest number there is."""

    last: int = 0
    lost: int = 0
    records: tuple[LogRecord, ...] = ()


def parse_overview(document: Document) -> Overview:
    """The picture in an answer of ``/v2/operator/overview``."""
    host = document.get("host")
    return Overview(
        server=_fill(Server, document.get("server", {})),
        models=tuple(parse_model(row) for row in document.get("models", ())),
        host=_fill(Host, host) if host else None,
        gpus=tuple(_fill(Gpu, row) for row in document.get("gpus", ())),
        gpu_reason=document.get("gpu_reason", ""),
        refused=document.get("refused", {}),
        log_last=document.get("log_last", 0),
    )


def parse_model(row: Document) -> ModelSnapshot:
    """One row of the overview."""
    latency = row.get("latency")
    parsed = {
        **row,
        "depends_on": tuple(row.get("depends_on", ())),
        "instances": tuple(_fill(Instance, instance) for instance in row.get("instances", ())),
        "durations": {name: _fill(Duration, value) for name, value in row.get("durations", {}).items()},
        "latency": None if latency is None else tuple((float(bound), int(count)) for bound, count in latency),
        "quantiles": tuple((float(share), float(value)) for share, value in row.get("quantiles", ())),
        "batches": tuple((int(size), int(count)) for size, count in row.get("batches", ())),
    }
    return _fill(ModelSnapshot, parsed)


def parse_log(document: Document) -> LogPage:
    """The page in an answer of ``/v2/operator/log``."""
    records = tuple(_fill(LogRecord, row) for row in document.get("records", ()))
    return LogPage(document.get("last", 0), document.get("lost", 0), records)


def _fill(kind: type[T], values: Document) -> T:
    """A dataclass from the keys that it knows."""
    names: Mapping[str, Any] = cast("Any", kind).__dataclass_fields__
    return kind(**{name: value for name, value in values.items() if name in names})
