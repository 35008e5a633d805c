"""What happened between two pictures of a server: requests a second, percentiles, means. Pure.

Percentiles come from the counts by latency of the same span of time, so that they speak of now, not of since the load;
a server that does not count by latency has those that it tells itself, or none, and its means stand alone.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from .snapshot import PHASES, Duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .snapshot import ModelSnapshot, Overview

Buckets = tuple[tuple[float, int], ...]
"""Counts by upper bound, ascending."""

HISTORY = 300
"""Pictures that are kept: five minutes at one a second."""

WINDOW_S = 10.0
"""Percentiles and means speak of the last so many seconds; fewer requests than a handful would make them jump."""


@dataclass(frozen=True, slots=True)
class Rates:
    """One model version over a span of time. Times are in microseconds; None where nothing happened or is told."""

    requests_s: float = 0.0
    failures_s: float = 0.0
    inferences_s: float = 0.0
    p50_us: float | None = None
    p90_us: float | None = None
    p99_us: float | None = None
    mean_us: float | None = None
    batch_size: float | None = None
    phases_us: Mapping[str, float] = field(default_factory=dict[str, float])


def rates(before: ModelSnapshot | None, after: ModelSnapshot, seconds: float) -> Rates:
    """What a version did between two pictures ``seconds`` apart. Counters that went back were reset by a reload."""
    if before is None or seconds <= 0:
        return Rates()
    if any(now < then for then, now in zip(_counters(before), _counters(after), strict=True)):
        before = type(after)(after.name, after.version)
    requests = after.success - before.success
    executions = after.execution_count - before.execution_count
    inferences = after.inference_count - before.inference_count
    latency = None if after.latency is None else difference(before.latency or (), after.latency)
    told = dict(after.quantiles) if latency is None and requests > 0 else {}
    return Rates(
        requests_s=requests / seconds,
        failures_s=(after.failed - before.failed) / seconds,
        inferences_s=inferences / seconds,
        p50_us=percentile(latency, 0.50) if latency else told.get(0.50),
        p90_us=percentile(latency, 0.90) if latency else told.get(0.90),
        p99_us=percentile(latency, 0.99) if latency else told.get(0.99),
        mean_us=_mean_us(before, after, "request"),
        batch_size=inferences / executions if executions > 0 else None,
        phases_us={phase: mean for phase in PHASES if (mean := _mean_us(before, after, phase)) is not None},
    )


def _counters(row: ModelSnapshot) -> tuple[int, ...]:
    return (row.success, row.failed, row.inference_count, row.execution_count)


def _mean_us(before: ModelSnapshot, after: ModelSnapshot, name: str) -> float | None:
    first, last = before.durations.get(name, Duration()), after.durations.get(name, Duration())
    count, ns = last.count - first.count, last.ns - first.ns
    return ns / count / 1000 if count > 0 and ns >= 0 else None


def difference(before: Buckets, after: Buckets) -> Buckets:
    """The counts that were added between two pictures of one histogram."""
    old = dict(before)
    added = ((bound, count - old.get(bound, 0)) for bound, count in after)
    return tuple((bound, count) for bound, count in added if count > 0)


def percentile(buckets: Buckets | None, share: float) -> float | None:
    """The upper bound of the bucket that the ``share``-th (0..1) event fell into; None without events."""
    filled = [(bound, count) for bound, count in buckets or () if count]
    if not filled:
        return None
    wanted = share * sum(count for _, count in filled)
    seen = 0
    for bound, count in filled:
        seen += count
        if seen >= wanted:
            return bound
    return filled[-1][0]


def cpu_cores(before: Overview | None, after: Overview) -> float | None:
    """The cores that the server kept busy between two pictures of it; None where that cannot be known."""
    if before is None or before.server.cpu_s is None or after.server.cpu_s is None:
        return None
    seconds = after.server.now - before.server.now
    spent = after.server.cpu_s - before.server.cpu_s
    return spent / seconds if seconds > 0 and spent >= 0 else None


class History:
    """The last pictures of one server, and what can be read from their differences."""

    def __init__(self, length: int = HISTORY) -> None:
        """``length`` pictures are kept."""
        self._pictures: deque[Overview] = deque(maxlen=length)

    def add(self, overview: Overview) -> None:
        """Take one more picture. A server that was started anew begins a history of its own.

        A clock that was set back takes along what it told before: moments ascend.
        """
        if self._pictures and self._pictures[-1].server.pid != overview.server.pid:
            self._pictures.clear()
        while self._pictures and overview.server.now <= self._pictures[-1].server.now:
            self._pictures.pop()
        self._pictures.append(overview)

    @property
    def pictures(self) -> Sequence[Overview]:
        """Oldest first."""
        return self._pictures

    @property
    def latest(self) -> Overview | None:
        """The newest picture."""
        return self._pictures[-1] if self._pictures else None

    def rates(self, name: str, version: str, window_s: float = WINDOW_S) -> Rates:
        """A version over the last ``window_s`` seconds, or as long as there is."""
        latest = self.latest
        after = latest.model(name, version) if latest else None
        if latest is None or after is None:
            return Rates()
        first = next(one for one in self._pictures if latest.server.now - one.server.now <= window_s)
        return rates(first.model(name, version), after, latest.server.now - first.server.now)

    def series(self, name: str, version: str, length: int = 60) -> tuple[Rates, ...]:
        """A version between each two of the last ``length`` + 1 pictures, oldest first."""
        pictures = list(self._pictures)[-length - 1 :]
        found: list[Rates] = []
        for first, last in pairwise(pictures):
            after = last.model(name, version)
            seconds = last.server.now - first.server.now
            found.append(Rates() if after is None else rates(first.model(name, version), after, seconds))
        return tuple(found)
