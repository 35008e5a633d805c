"""What happened between two pictures of a server: requests a second, percentiles, means. Pure.

Percentiles come from the counts by latency of the same span of time, so that they speak of now, not of since the load;
a server that does not count by latency has those that it tells itself, or none, and its means stand alone.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .snapshot import PHASES, Duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .snapshot import ModelSnapshot, Overview

Key = tuple[str, str]
"""Name and version of a model."""

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
    """The last pictures of one server, and what can be read from their differences.

    What a version did between two pictures is computed once, when the second comes; a dashboard of a hundred models
    reads thirty such steps of each every second.
    """

    def __init__(self, length: int = HISTORY) -> None:
        """``length`` pictures are kept."""
        self._length = length
        self._pictures: deque[Overview] = deque(maxlen=length)
        self._rows: deque[dict[Key, ModelSnapshot]] = deque(maxlen=length)
        self._steps: dict[Key, deque[Rates]] = {}
        self._asked: dict[tuple[Key, float], Rates] = {}

    def add(self, overview: Overview) -> None:
        """Take one more picture. A server that was started anew begins a history of its own.

        A clock that was set back takes along what it told before: moments ascend.
        """
        last = self.latest
        if last is not None and last.server.pid != overview.server.pid:
            self._clear()
        while self._pictures and overview.server.now <= self._pictures[-1].server.now:
            self._drop_last()
        self._asked.clear()
        rows = {row.key: row for row in overview.models}
        if self._pictures:
            self._step(rows, overview.server.now - self._pictures[-1].server.now)
        self._pictures.append(overview)
        self._rows.append(rows)

    def _clear(self) -> None:
        self._pictures.clear()
        self._rows.clear()
        self._steps.clear()

    def _drop_last(self) -> None:
        self._pictures.pop()
        self._rows.pop()
        for steps in self._steps.values():
            if steps and self._pictures:
                steps.pop()

    def _step(self, rows: dict[Key, ModelSnapshot], seconds: float) -> None:
        before = self._rows[-1]
        old = self._steps
        self._steps = {key: old.get(key) or deque(maxlen=self._length) for key in rows}
        for key, row in rows.items():
            self._steps[key].append(rates(before.get(key), row, seconds))

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
        asked = ((name, version), window_s)
        if asked not in self._asked:
            self._asked[asked] = self._rates(*asked)
        return self._asked[asked]

    def _rates(self, key: Key, window_s: float) -> Rates:
        after = self._rows[-1].get(key) if self._rows else None
        if after is None:
            return Rates()
        now = self._pictures[-1].server.now
        first = next(place for place, one in enumerate(self._pictures) if now - one.server.now <= window_s)
        return rates(self._rows[first].get(key), after, now - self._pictures[first].server.now)

    def series(self, name: str, version: str, length: int = 60) -> tuple[Rates, ...]:
        """A version between each two of the last ``length`` + 1 pictures that had it, oldest first."""
        return tuple(self._steps.get((name, version), ()))[-length:]
