"""A picture of a real Triton, from its index, its statistics, its configurations and its metrics. Pure.

Triton counts no latencies: percentiles are there only where it was started with ``--metrics-config
summary_latencies=true``, and speak of its own sliding window.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from .snapshot import Duration, Gpu, Host, Instance, ModelSnapshot, Overview, Server

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Document = dict[str, Any]
Key = tuple[str, str]

_PHASES = ("queue", "compute_input", "compute_infer", "compute_output")
_UNTOLD = "UNKNOWN"
"""The reason of failures that only the statistics tell: they have none."""

_GPU = {
    "nv_gpu_utilization": "utilization",
    "nv_gpu_memory_total_bytes": "memory_total_bytes",
    "nv_gpu_memory_used_bytes": "memory_used_bytes",
    "nv_gpu_power_usage": "power_usage_watts",
    "nv_gpu_power_limit": "power_limit_watts",
    "nv_energy_consumption": "energy_joules",
}
_HOST = {
    "nv_cpu_utilization": "cpu_utilization",
    "nv_cpu_memory_total_bytes": "memory_total_bytes",
    "nv_cpu_memory_used_bytes": "memory_used_bytes",
}
_WHOLE = ("memory_total_bytes", "memory_used_bytes")
NO_METRICS = "the metrics port does not answer; name it with --metrics-url URL"
NO_GPU = "Triton's metrics name no GPU"


@dataclass(slots=True)
class Metrics:
    """What is used of Triton's metrics: by model version, by GPU, of the host."""

    pending: dict[Key, int] = field(default_factory=dict[Key, int])
    failures: dict[Key, dict[str, int]] = field(default_factory=dict[Key, dict[str, int]])
    quantiles: dict[Key, list[tuple[float, float]]] = field(default_factory=dict[Key, list[tuple[float, float]]])
    gpus: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    host: dict[str, Any] = field(default_factory=dict[str, Any])


def parse_metrics(text: str) -> Metrics:
    """The metrics in a Prometheus text. Raises ValueError where it is none."""
    from prometheus_client.parser import text_string_to_metric_families

    found = Metrics()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if not math.isnan(sample.value):
                # The parser names counters as OpenMetrics does, whatever the text called them.
                _take(found, sample.name.removesuffix("_total"), sample.labels, sample.value)
    return found


def _take(found: Metrics, name: str, labels: Mapping[str, str], value: float) -> None:
    key = (labels.get("model", ""), labels.get("version", ""))
    if name == "nv_inference_pending_request_count":
        found.pending[key] = int(value)
    elif name == "nv_inference_request_failure":
        found.failures.setdefault(key, {})[labels.get("reason", _UNTOLD)] = int(value)
    elif name == "nv_inference_request_summary_us" and "quantile" in labels:
        found.quantiles.setdefault(key, []).append((float(labels["quantile"]), value))
    elif name in _GPU and "gpu_uuid" in labels:
        figure = _GPU[name]
        found.gpus.setdefault(labels["gpu_uuid"], {})[figure] = int(value) if figure in _WHOLE else value
    elif name in _HOST:
        found.host[_HOST[name]] = int(value) if _HOST[name] in _WHOLE else value


@dataclass(frozen=True, slots=True)
class Told:
    """What Triton answered: ``/v2``, ready or not, the index, the statistics, configurations by version, metrics."""

    identity: Document
    ready: bool
    index: Sequence[Document]
    statistics: Sequence[Document]
    configs: Mapping[Key, Document]
    metrics: Metrics | None


def overview_of(told: Told, *, now: float, http: str, changes: str) -> Overview:
    """The picture. ``now`` is the clock here, since Triton does not tell its own; ``changes`` why none are made."""
    metrics = told.metrics or Metrics()
    statistics = {(row["name"], str(row["version"])): row for row in told.statistics}
    server = Server(
        id=told.identity.get("name", ""),
        version=told.identity.get("version", ""),
        now=now,
        ready=told.ready,
        changes=changes,
        http=http,
    )
    return Overview(
        server=server,
        models=tuple(_row(entry, statistics, told.configs, metrics) for entry in told.index),
        host=Host(**metrics.host) if metrics.host else None,
        gpus=tuple(Gpu(index=index, uuid=uuid, **told) for index, (uuid, told) in enumerate(metrics.gpus.items())),
        gpu_reason="" if metrics.gpus else NO_GPU if told.metrics else NO_METRICS,
    )


def _row(
    entry: Document, statistics: Mapping[Key, Document], configs: Mapping[Key, Document], metrics: Metrics
) -> ModelSnapshot:
    key = (str(entry["name"]), str(entry.get("version", "")))
    config = configs.get(key, {})
    row = ModelSnapshot(
        name=key[0],
        version=key[1],
        state=entry.get("state", ""),
        reason=entry.get("reason", ""),
        backend=config.get("backend") or config.get("platform", ""),
        max_batch_size=config.get("max_batch_size", 0),
        depends_on=tuple(dict.fromkeys(step["model_name"] for step in _steps(config))),
        instances=tuple(_instances(config)),
        pending=metrics.pending.get(key),
        quantiles=tuple(sorted(metrics.quantiles.get(key, ()))),
    )
    found = statistics.get(key)
    return row if found is None else _counted(row, found, metrics.failures.get(key))


def _counted(row: ModelSnapshot, found: Document, failures: Mapping[str, int] | None) -> ModelSnapshot:
    spans: dict[str, dict[str, int]] = found.get("inference_stats", {})
    success, failed = (spans.get(name, {}).get("count", 0) for name in ("success", "fail"))
    durations = {phase: _duration(spans.get(phase, {})) for phase in _PHASES}
    return replace(
        row,
        success=success,
        failures=dict(failures) if failures is not None else {_UNTOLD: failed} if failed else {},
        inference_count=found.get("inference_count", 0),
        execution_count=found.get("execution_count", 0),
        durations={"request": _duration(spans.get("success", {})), **durations},
        batches=tuple(
            (one["batch_size"], one.get("compute_infer", {}).get("count", 0)) for one in found.get("batch_stats", ())
        ),
        last_inference_ms=found.get("last_inference", 0),
    )


def _duration(span: Mapping[str, int]) -> Duration:
    return Duration(span.get("count", 0), span.get("ns", 0))


def _steps(config: Document) -> Iterable[Document]:
    return config.get("ensemble_scheduling", {}).get("step", ())


def _instances(config: Document) -> Iterable[Instance]:
    """The instances that the configuration asks for; Triton tells nothing of what they do."""
    for group in config.get("instance_group", ()):
        for device in group.get("gpus") or (-1,):
            for number in range(group.get("count", 1)):
                name = f"{group.get('name', '')}_{number}"
                yield Instance(name, group.get("kind", ""), device)
