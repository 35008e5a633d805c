"""A row a model version in the overview: made anew where something was counted, else the bytes of the last time.

A dashboard asks every second, and most models of a large server are idle: their rows cost a comparison.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from ...backends.api.model_config import InstanceKind
from ..observe.host import resident_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ...backends.api.backend import InstanceSpec
    from ...backends.api.model_config import ModelConfig
    from ..lifecycle.models import ServedModel
    from ..lifecycle.states import IndexEntry
    from ..observe.statistics import Duration, ModelSnapshot
    from ..scheduling.pool import InstancePicture

_PHASES: Final = ("queue", "compute_input", "compute_infer", "compute_output")


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
        mark = (entry, id(served.statistics), stamp, in_flight, instances)
        if before is not None and before[0] == mark:
            return before
        row = model_row(entry, served.config, served.statistics.snapshot(), served.statistics.latency)
        row["in_flight"] = in_flight
        row["instances"] = [instance_row(each) for each in instances]
        return mark, orjson.Fragment(orjson.dumps(row))

    def _instances(self, served: ServedModel) -> tuple[InstanceState, ...]:
        specs = served.placement
        return tuple(
            InstanceState(picture, specs.get(picture.name), self._memory(picture.pid) if picture.pid else None)
            for picture in served.scheduler.instances.pictures()
        )


def model_row(
    entry: IndexEntry,
    config: ModelConfig | None = None,
    counts: ModelSnapshot | None = None,
    latency: tuple[tuple[float, int], ...] = (),
) -> dict[str, Any]:
    """A row without its instances; zeros for a version that is not loaded."""
    row: dict[str, Any] = {
        "name": entry.name,
        "version": entry.version,
        "state": entry.state,
        "reason": entry.reason,
        "backend": (config.backend or config.platform) if config is not None else "",
        "max_batch_size": config.max_batch_size if config is not None else 0,
        "depends_on": depends_on(config.document) if config is not None else [],
        "instances": [],
        "in_flight": 0,
    }
    row.update(_counted(counts) if counts is not None else _NOTHING)
    row["latency"] = latency
    return row


def _counted(counts: ModelSnapshot) -> dict[str, Any]:
    return {
        "success": counts.success.count,
        "failures": counts.failures,
        "inference_count": counts.inference_count,
        "execution_count": counts.execution_count,
        "pending": counts.pending,
        "durations": {
            "request": _duration(counts.success),
            **{phase: _duration(getattr(counts, phase)) for phase in _PHASES},
        },
        "batches": [(batch.batch_size, batch.compute_infer.count) for batch in counts.batches],
        "load_duration_s": counts.load_duration_s,
        "last_inference_ms": counts.last_inference,
    }


def _duration(duration: Duration) -> dict[str, int]:
    return {"count": duration.count, "ns": duration.ns}


_NO_TIME: Final = {"count": 0, "ns": 0}
_NOTHING: Final[dict[str, Any]] = {
    "success": 0,
    "failures": {},
    "inference_count": 0,
    "execution_count": 0,
    "pending": 0,
    "durations": dict.fromkeys(("request", *_PHASES), _NO_TIME),
    "batches": [],
    "load_duration_s": 0.0,
    "last_inference_ms": 0,
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
