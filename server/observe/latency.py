"""Latency histograms: logarithmic buckets, eight a power of two, so that a percentile is off by less than 10 %.

A histogram maps a bucket's number to a count and holds only the buckets that were met: bucket ``i`` takes durations
from ``2**(i/8)`` up to ``2**((i+1)/8)`` nanoseconds.
"""

from __future__ import annotations

from math import log2
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

BUCKETS_PER_DOUBLING: Final = 8

Sparse = tuple[tuple[float, int], ...]
"""Upper bound in µs and count of each bucket that was met, ascending."""


def bucket(duration_ns: int) -> int:
    """The bucket of a duration of 0 ns or more."""
    return int(log2(duration_ns + 1) * BUCKETS_PER_DOUBLING)


def upper_bound_us(index: int) -> float:
    """The upper bound of a bucket in microseconds, to the nearest picosecond."""
    return round(2 ** ((index + 1) / BUCKETS_PER_DOUBLING) / 1000, 6)


_BOUNDS_US: Final = tuple(upper_bound_us(index) for index in range(64 * BUCKETS_PER_DOUBLING))
"""Of every bucket that a clock of 64 bits can meet."""


def sparse(counts: Mapping[int, int]) -> Sparse:
    """A histogram as it is shown. The caller gives a copy where another thread still counts."""
    return tuple([(_BOUNDS_US[index], count) for index, count in sorted(counts.items())])
