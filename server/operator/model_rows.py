"""A row a model version in the overview: made anew where something was counted, else the bytes of the last time.

A dashboard asks every second, and most models of a large server are idle: their rows cost a comparison.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from ...backends.api.model_config import InstanceKind
from ..observe.host import resident_bytes
from ..observe.metrics import InstanceMemory
from ..observe.statistics import Totals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ...backends.api.backend import InstanceSpec
    from ...backends.api.model_config import ModelConfig
    from ..lifecycle.models import ServedModel
    from ..lifecycle.states import IndexEntry
    from ..scheduling.pool import InstancePicture

NOTHING: Final = Totals(0, {}, 0, 0, 0, 0, 0, 0, 0, 0, (), {}, (), 0.0, 0)
"""What a version has counted that is not loaded."""


class InstanceState(NamedTuple):
    """One instance as a row shows it; ``memory`` is that of its worker in bytes, None without one."""

    picture: InstancePicture
    spec: InstanceSpec | None
    memory: int | None


class ModelRows:
    """The rows of one server. One thread at a time."""

    def __init__(self, memory: Callable[[int], int | None] = resident_bytes) -> None:
        """``memory`` says how much a process holds."""
        self._memory = memory
        self._known: dict[tuple[str, str], tuple[object, orjson.Fragment]] = {}

    def render(self, rows: Iterable[tuple[IndexEntry, ServedModel | None]]) -> list[orjson.Fragment]:
        """The rows as JSON, in the order of the index."""
        known: dict[tuple[str, str], tuple[object, orjson.Fragment]] = {}
        rendered: list[orjson.Fragment] = []
        for entry, served in rows:
            key = (entry.name, entry.version)
            before = self._known.get(key)
            known[key] = now = self._row(entry, served, before)
            rendered.append(now[1])
        self._known = known
        return rendered

    def _row(
        self, entry: IndexEntry, served: ServedModel | None, before: tuple[object, orjson.Fragment] | None
    ) -> tuple[object, orjson.Fragment]:
        if served is None:
            if before is not None and before[0] == entry:
                return before
            return entry, orjson.Fragment(orjson.dumps(model_row(entry)))
        # The stamp first: what is counted from here on shows in the next row at the latest.
        stamp = served.statistics.stamp
        in_flight = served.scheduler.in_flight
        instances = self._instances(served)
        # The time that a load took tells it from every other; a reference would keep an unloaded model alive.
        mark = (entry, served.statistics.load_duration_s, stamp, in_flight, instances)
        if before is not None and before[0] == mark:
            return before
        row = model_row(entry, served.config, served.statistics.totals())
        row["in_flight"] = in_flight
        row["instances"] = [instance_row(each) for each in instances]
        return mark, orjson.Fragment(orjson.dumps(row))

    def _instances(self, served: ServedModel) -> tuple[InstanceState, ...]:
        specs = served.placement
        return tuple(
            InstanceState(picture, specs.get(picture.name), self._memory(picture.pid) if picture.pid else None)
            for picture in served.scheduler.instances.pictures()
        )


def worker_memory(
    rows: Iterable[tuple[IndexEntry, ServedModel | None]], memory: Callable[[int], int | None] = resident_bytes
) -> list[InstanceMemory]:
    """What the worker processes of all loaded versions hold. Any thread."""
    return [
        InstanceMemory(entry.name, entry.version, picture.name, held)
        for entry, served in rows
        if served is not None
        for picture in served.scheduler.instances.pictures()
        if picture.pid and (held := memory(picture.pid)) is not None
    ]


def model_row(entry: IndexEntry, config: ModelConfig | None = None, totals: Totals = NOTHING) -> dict[str, Any]:
    """A row without instances and what is in flight; zeros for a version that is not loaded."""
    count = totals.success
    return {
        "name": entry.name,
        "version": entry.version,
        "state": entry.state,
        "reason": entry.reason,
        "backend": (config.backend or config.platform) if config is not None else "",
        "max_batch_size": config.max_batch_size if config is not None else 0,
        "depends_on": depends_on(config.document) if config is not None else [],
        "instances": [],
        "success": count,
        "failures": totals.failures,
        "inference_count": totals.inference_count,
        "execution_count": totals.execution_count,
        "pending": totals.pending,
        "in_flight": 0,
        "durations": {
            "request": {"count": count, "ns": totals.request_ns},
            "queue": {"count": count, "ns": totals.queue_ns},
            "compute_input": {"count": count, "ns": totals.input_ns},
            "compute_infer": {"count": count, "ns": totals.infer_ns},
            "compute_output": {"count": count, "ns": totals.output_ns},
        },
        "latency": totals.latency,
        "batches": totals.batches,
        "batch_limits": totals.batch_limits,
        "load_duration_s": totals.load_duration_s,
        "last_inference_ms": totals.last_inference,
    }


def instance_row(instance: InstanceState) -> dict[str, Any]:
    """An instance; ``device`` is a GPU's number or -1."""
    picture, spec, memory = instance
    return {
        "name": picture.name,
        "kind": spec.kind.value if spec is not None else "",
        "device": spec.device_id if spec is not None and spec.kind is InstanceKind.GPU else -1,
        "state": picture.state,
        "pid": picture.pid or None,
        "memory_bytes": memory,
        "restarts": picture.restarts,
    }


def depends_on(document: Mapping[str, Any]) -> list[str]:
    """The models that the steps of an ensemble name, each once and in their order."""
    steps: list[Mapping[str, Any]] = document.get("ensemble_scheduling", {}).get("step", [])
    names = dict.fromkeys(str(step.get("model_name", "")) for step in steps)
    return [name for name in names if name]
