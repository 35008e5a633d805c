"""Latency histograms: logarithmic buckets, eight a power of two, so that a percentile is off by less than 10 %.

A histogram is a plain list of counts. Bucket ``i`` takes durations from ``2**(i/8)`` up to ``2**((i+1)/8)``
nanoseconds; the last one takes everything longer than about five hours.
"""

from __future__ import annotations

from itertools import compress
from math import log2
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

BUCKETS_PER_DOUBLING: Final = 8
COUNT: Final = 44 * BUCKETS_PER_DOUBLING
"""Buckets of a histogram; 2**44 ns are 4.9 hours."""

SPARSE = tuple[tuple[float, int], ...]
"""The buckets that hold something: upper bound in µs and count, ascending."""


def bucket(duration_ns: int) -> int:
    """The bucket of a duration of 0 ns or more."""
    return min(int(log2(duration_ns + 1) * BUCKETS_PER_DOUBLING), COUNT - 1)


def upper_bound_us(index: int) -> float:
    """The upper bound of a bucket in microseconds, to four significant digits or better."""
    return round(2 ** ((index + 1) / BUCKETS_PER_DOUBLING) / 1000, 6)


BOUNDS_US: Final = tuple(upper_bound_us(index) for index in range(COUNT))


def new() -> list[int]:
    """A histogram of nothing."""
    return [0] * COUNT


def sparse(counts: Sequence[int]) -> SPARSE:
    """What a histogram holds. The caller gives a copy where another thread still counts."""
    return tuple(zip(compress(BOUNDS_US, counts), filter(None, counts), strict=True))
