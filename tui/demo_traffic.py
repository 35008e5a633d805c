"""The traffic of a made-up server: counters as functions of time. Pure.

Everything follows from the seconds since a model was loaded, so two pictures at the same moment are the same, counters
never go back, and a test can ask for any moment without living through those before it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from .snapshot import Duration

_BUCKETS_PER_DOUBLING = 8
_TAU = 2 * math.pi
_SLOW_FACTOR = 4.0
_MIXED_PART = 8
_SHARES = {"queue": 0.2, "compute_input": 0.04, "compute_infer": 0.7, "compute_output": 0.06}


@dataclass(frozen=True, slots=True)
class Traffic:
    """What one model version is asked. ``period_s`` is that of its ebb and flow, ``phase`` 0..1 where it begins."""

    requests_s: float = 0.0
    median_us: float = 1000.0
    spread: float = 0.25
    period_s: float = 45.0
    phase: float = 0.0
    largest_batch: int = 1
    waiting: float = 0.0
    failures: tuple[tuple[str, float], ...] = ()

    def level(self, seconds: float) -> float:
        """How busy it is at a moment: 0.4 .. 1.6, 1 on average."""
        return 1 + 0.6 * math.sin(_TAU * (seconds / self.period_s + self.phase))

    def requests(self, seconds: float) -> int:
        """Successes since the load."""
        return int(self.requests_s * self._flow(seconds, 0.6, self.phase))

    def failed(self, seconds: float) -> dict[str, int]:
        """Failures since the load, by reason; ``failures`` are a second."""
        return {reason: int(rate * self._flow(seconds, 0.6, self.phase)) for reason, rate in self.failures}

    def slow_requests(self, seconds: float) -> int:
        """Those of the requests that met a queue: few, and at other times than the most."""
        return int(0.03 * self.requests_s * self._flow(seconds, 0.9, self.phase + 0.2))

    def _flow(self, seconds: float, swing: float, phase: float) -> float:
        """The integral of ``1 + swing * sin`` from the load until now: it never falls where swing is below 1."""
        angle = _TAU * (seconds / self.period_s + phase)
        return seconds + swing * self.period_s / _TAU * (math.cos(_TAU * phase) - math.cos(angle))

    def durations(self, seconds: float) -> dict[str, Duration]:
        """Counts and nanoseconds of the whole request and its phases."""
        count, slow = self.requests(seconds), self.slow_requests(seconds)
        whole = (count - slow + slow * _SLOW_FACTOR) * self.median_us * 1000
        parts = {phase: Duration(count, int(whole * share)) for phase, share in _SHARES.items()}
        return {"request": Duration(count, int(whole)), **parts}

    def latency(self, seconds: float) -> tuple[tuple[float, int], ...]:
        """Counts by upper bound in microseconds."""
        count, slow = self.requests(seconds), self.slow_requests(seconds)
        fast = _spread(self.median_us, self.spread, count - slow)
        late = dict(_spread(self.median_us * _SLOW_FACTOR, self.spread, slow))
        bounds = sorted({bound for bound, _ in fast} | set(late))
        known = dict(fast)
        return tuple((bound, known.get(bound, 0) + late.get(bound, 0)) for bound in bounds)

    def batches(self, seconds: float) -> tuple[tuple[int, int], ...]:
        """Executions by batch size: the sizes are the powers of two up to ``largest_batch``, each with its share."""
        sizes = [2**power for power in range(self.largest_batch.bit_length())]
        rows = self.requests(seconds) // len(sizes)
        return tuple((size, rows // size) for size in sizes if rows // size)

    def batch_limits(self, seconds: float) -> dict[str, int]:
        """Why batches were no larger: those of the largest size had it, most others the delay, some another shape."""
        if self.largest_batch == 1:
            return {}
        counts = dict(self.batches(seconds))
        largest = counts.pop(self.largest_batch, 0)
        others = sum(counts.values())
        mixed = others // _MIXED_PART
        return {"preferred size": largest, "delay over": others - mixed, "shape differs": mixed}


def _spread(median_us: float, spread: float, count: int) -> tuple[tuple[float, int], ...]:
    """``count`` events, log-normally around a median, by bucket."""
    return tuple((bound, int(count * share)) for bound, share in _shares(median_us, spread) if int(count * share))


@lru_cache(maxsize=64)
def _shares(median_us: float, spread: float) -> tuple[tuple[float, float], ...]:
    middle = math.log2(median_us) * _BUCKETS_PER_DOUBLING
    reach = math.ceil(4 * spread * _BUCKETS_PER_DOUBLING / math.log(2))
    bounds = [2 ** (step / _BUCKETS_PER_DOUBLING) for step in range(int(middle) - reach, int(middle) + reach + 1)]
    below = [0.5 * (1 + math.erf(math.log(bound / median_us) / (spread * math.sqrt(2)))) for bound in bounds]
    return tuple(
        (round(bound, 3), upper - lower)
        for bound, upper, lower in zip(bounds, below, [0.0, *below[:-1]], strict=True)
        if upper - lower > 0
    )
