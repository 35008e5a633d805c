"""Metrics that models count: families and series by name and labels, alive while somebody holds a handle on them.

Rules are those of Triton's custom metrics: who names a family or a metric alike shares it, the first description
stays, and what nobody holds any more is not shown.
"""

from __future__ import annotations

import math
import re
import threading
from bisect import bisect_left
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final

from prometheus_client.registry import Collector

from ...backends.api.custom_metrics import MetricKind
from ...backends.api.errors import InvalidArgument
from .metrics import SERVER_FAMILIES, Family, RenderedMetric, label_text, number_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from prometheus_client.metrics_core import Metric

_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_HISTOGRAM_SUFFIXES: Final = ("_bucket", "_count", "_sum")
_GONE: Final = "Invalid metric operation as the corresponding 'MetricFamily' has been deleted."


class _Series:
    """One metric: a number, or what a histogram counts. Guarded by the registry's lock."""

    __slots__ = ("bounds", "counts", "holders", "number")

    def __init__(self, bounds: tuple[float, ...] | None) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1) if bounds is not None else []
        self.number = 0.0
        """The value, or the sum of what a histogram has observed."""
        self.holders = 0

    def lines(self, name: str, labels: Mapping[str, str]) -> Iterator[str]:
        if self.bounds is None:
            yield f"{name}{label_text(labels)} {_number(self.number)}\n"
            return
        totals = tuple(accumulate(self.counts))
        yield f"{name}_count{label_text(labels)} {totals[-1]}\n"
        yield f"{name}_sum{label_text(labels)} {_number(self.number)}\n"
        for bound, total in zip((*self.bounds, math.inf), totals, strict=True):
            yield f"{name}_bucket{label_text(labels, le=_number(bound))} {total}\n"


class _Group:
    """A family with its series by sorted labels. Guarded by the registry's lock."""

    __slots__ = ("description", "holders", "kind", "name", "series")

    def __init__(self, name: str, description: str, kind: MetricKind) -> None:
        self.name = name
        self.description = description
        self.kind = kind
        self.holders = 0
        self.series: dict[tuple[tuple[str, str], ...], _Series] = {}

    @property
    def names(self) -> set[str]:
        """The names of its samples."""
        suffixes = _HISTOGRAM_SUFFIXES if self.kind is MetricKind.HISTOGRAM else ()
        return {self.name, *(self.name + suffix for suffix in suffixes)}


class CustomMetric:
    """A handle on one metric; see the port. Any thread."""

    __slots__ = ("_group", "_key", "_lock", "_open", "_series")

    def __init__(self, group: _Group, key: tuple[tuple[str, str], ...], series: _Series, lock: threading.Lock) -> None:
        self._group = group
        self._key = key
        self._series = series
        self._lock = lock
        self._open = True
        series.holders += 1

    @property
    def is_open(self) -> bool:
        """Whether it was not let go of."""
        return self._open

    def increment(self, value: float) -> None:
        """Add to a counter or a gauge."""
        with self._lock:
            self._check("increment", MetricKind.COUNTER, MetricKind.GAUGE)
            if self._group.kind is MetricKind.COUNTER and not value >= 0:
                msg = f"counter '{self._group.name}' only grows, it cannot be incremented by {value}"
                raise InvalidArgument(msg)
            self._series.number += value

    def set(self, value: float) -> None:
        """Set a gauge."""
        with self._lock:
            self._check("set", MetricKind.GAUGE)
            self._series.number = value

    def observe(self, value: float) -> None:
        """Count a value in a histogram."""
        with self._lock:
            self._check("observe", MetricKind.HISTOGRAM)
            if math.isnan(value):
                msg = f"histogram '{self._group.name}' cannot observe NaN: it is in no bucket"
                raise InvalidArgument(msg)
            series = self._series
            series.number += value
            series.counts[bisect_left(series.bounds or (), value)] += 1

    def value(self) -> float:
        """The value of a counter or a gauge."""
        with self._lock:
            self._check("value", MetricKind.COUNTER, MetricKind.GAUGE)
            return self._series.number

    def close(self) -> None:
        """Let go of it. Idempotent."""
        with self._lock:
            if not self._open:
                return
            self._open = False
            self._series.holders -= 1
            if not self._series.holders:
                del self._group.series[self._key]

    def _check(self, operation: str, *kinds: MetricKind) -> None:
        if not self._open:
            raise InvalidArgument(_GONE)
        if self._group.kind not in kinds:
            msg = f"metric '{self._group.name}' is a {self._group.kind.value} and does not support '{operation}'"
            raise InvalidArgument(msg)


class CustomFamily:
    """A handle on a family; see the port. Any thread."""

    __slots__ = ("_given", "_group", "_open", "_registry")

    def __init__(self, group: _Group, registry: CustomMetricRegistry) -> None:
        self._group = group
        self._registry = registry
        self._given: list[CustomMetric] = []
        self._open = True

    def metric(self, labels: Mapping[str, str], buckets: Sequence[float] | None = None) -> CustomMetric:
        """The metric with these labels. Raises InvalidArgument."""
        group = self._group
        _check_labels(group, labels)
        bounds = _checked_bounds(group, buckets)
        key = tuple(sorted(labels.items()))
        with self._registry.lock:
            if not self._open:
                raise InvalidArgument(_GONE)
            series = group.series.get(key)
            if series is None:
                series = group.series[key] = _Series(bounds)
            handle = CustomMetric(group, key, series, self._registry.lock)
        self._given = [each for each in self._given if each.is_open]
        self._given.append(handle)
        return handle

    def close(self) -> None:
        """Let go of it and of every metric that it gave. Idempotent."""
        if not self._open:
            return
        self._open = False
        for handle in self._given:
            handle.close()
        self._given.clear()
        self._registry.let_go(self._group)


class CustomMetricRegistry(Collector):
    """All custom metrics of a server. Any thread; nothing is waited for under the lock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._groups: dict[str, _Group] = {}

    def family(self, name: str, description: str, kind: MetricKind) -> CustomFamily:
        """The family of that name. Raises InvalidArgument."""
        if not _NAME.fullmatch(name):
            msg = (
                f"'{name}' is not a name for a metric: use letters, digits, '_' and ':', and no digit at the beginning"
            )
            raise InvalidArgument(msg)
        with self.lock:
            group = self._groups.get(name)
            if group is None:
                group = _Group(name, description, kind)
                self._check_free(group)
                self._groups[name] = group
            elif group.kind is not kind:
                msg = f"metric family '{name}' exists as a {group.kind.value}, it cannot also be a {kind.value}"
                raise InvalidArgument(msg)
            group.holders += 1
        return CustomFamily(group, self)

    def let_go(self, group: _Group) -> None:
        """A handle on a family is closed."""
        with self.lock:
            group.holders -= 1
            if not group.holders:
                del self._groups[group.name]

    def collect(self) -> Iterator[Metric]:
        """A metric a family, in the order of their names."""
        with self.lock:
            shown = [
                (
                    Family(group.name, group.description, group.kind.value),
                    "".join(line for key, each in group.series.items() for line in each.lines(name, dict(key))),
                )
                for name, group in sorted(self._groups.items())
                if group.series
            ]
        for family, lines in shown:
            yield RenderedMetric(family, (lines,))

    def _check_free(self, group: _Group) -> None:
        """Raise InvalidArgument where other samples would have a name of the family's."""
        taken = group.names & SERVER_FAMILIES
        if taken:
            msg = f"'{min(taken)}' is a metric of the server itself; name yours differently"
            raise InvalidArgument(msg)
        for other in self._groups.values():
            taken = group.names & other.names
            if taken:
                msg = f"metric family '{group.name}' would show '{min(taken)}', as '{other.name}' does already"
                raise InvalidArgument(msg)


def _check_labels(group: _Group, labels: Mapping[str, str]) -> None:
    for name, value in labels.items():
        if not _LABEL.fullmatch(name) or name.startswith("__"):
            msg = (
                f"'{name}' is not a name for a label of metric '{group.name}': use letters, digits and '_', and no "
                "digit and no '__' at the beginning"
            )
            raise InvalidArgument(msg)
        if name == "le" and group.kind is MetricKind.HISTOGRAM:
            msg = f"histogram '{group.name}' cannot have a label 'le': it is the one of its buckets"
            raise InvalidArgument(msg)
        if not _is_text(value):
            msg = f"label '{name}' of metric '{group.name}' is not UTF-8 text"
            raise InvalidArgument(msg)


def _is_text(value: str) -> bool:
    """Whether it has no half characters, which no text exposition could carry."""
    return value.encode(errors="replace").decode() == value


def _checked_bounds(group: _Group, buckets: Sequence[float] | None) -> tuple[float, ...] | None:
    if group.kind is not MetricKind.HISTOGRAM:
        if buckets is None:
            return None
        msg = f"metric '{group.name}' is a {group.kind.value} and has no buckets"
        raise InvalidArgument(msg)
    if buckets is None:
        msg = f"histogram '{group.name}' needs buckets: a list of ascending upper bounds"
        raise InvalidArgument(msg)
    bounds = tuple(map(float, buckets))
    if not all(map(math.isfinite, bounds)):
        msg = f"the buckets of histogram '{group.name}' must be finite, as +Inf is always there; got {list(bounds)}"
        raise InvalidArgument(msg)
    if any(lower >= upper for lower, upper in pairwise(bounds)):
        msg = f"the buckets of histogram '{group.name}' must be strictly ascending, got {list(bounds)}"
        raise InvalidArgument(msg)
    return bounds


def _number(value: float) -> str:
    """As Prometheus's own clients write it: whole numbers without a point."""
    return (
        str(int(value)) if math.isfinite(value) and value == int(value) and abs(value) < 1 << 53 else number_text(value)
    )
