"""A histogram's buckets are narrow, follow each other without a gap, and take every duration."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer.backends.api.errors import FailureReason
from infer.server.observe import latency
from infer.server.observe.statistics import ModelStatistics


def record(statistics: ModelStatistics, total_ns: int) -> None:
    statistics.record_success(1, total_ns=total_ns, queue_ns=0, input_ns=0, infer_ns=0, output_ns=0)


@given(st.integers(min_value=1000, max_value=2**60))
def test_a_duration_lies_below_the_bound_of_its_bucket_and_not_below_that_of_the_one_before(duration: int) -> None:
    index = latency.bucket(duration)
    slack = 1 + 1e-6  # of the rounding of the bound, and of the nanosecond that keeps 0 out of the logarithm
    assert duration / 1000 <= latency.upper_bound_us(index) * slack
    assert (duration + 1) / 1000 * slack >= latency.upper_bound_us(index - 1)


def test_a_bucket_is_at_most_a_tenth_wider_than_the_one_before_and_eight_double() -> None:
    bounds = [latency.upper_bound_us(index) for index in range(80, 400)]
    assert all(1.08 < after / before < 1.0906 for before, after in itertools.pairwise(bounds))
    assert bounds[8] / bounds[0] == pytest.approx(2, abs=1e-6)


def test_no_time_at_all_and_hours_have_buckets() -> None:
    assert latency.bucket(0) == 0
    hours = 10 * 3600 * 10**9
    assert latency.upper_bound_us(latency.bucket(hours)) == pytest.approx(hours / 1000, rel=0.1)


def test_a_histogram_is_shown_sparse_and_ascending() -> None:
    shown = latency.sparse({200: 3, 80: 1})
    assert shown == ((latency.upper_bound_us(80), 1), (latency.upper_bound_us(200), 3))
    assert latency.sparse({}) == ()


def test_successes_are_counted_where_their_bucket_is_and_failures_nowhere() -> None:
    statistics = ModelStatistics("m", 1)
    durations = [1, 999, 50_000, 50_001, 7_000_000_000]
    for duration in durations:
        record(statistics, duration)
    statistics.record_failure(FailureReason.BACKEND, 50_000)
    expected: dict[float, int] = {}
    for duration in durations:
        bound = latency.upper_bound_us(latency.bucket(duration))
        expected[bound] = expected.get(bound, 0) + 1
    assert dict(statistics.totals().latency) == expected


def test_a_percentile_of_the_histogram_is_within_a_tenth_of_the_true_one() -> None:
    statistics = ModelStatistics("m", 1)
    source = random.Random(7)
    durations = sorted(int(source.lognormvariate(14, 1)) for _ in range(5000))
    for duration in durations:
        record(statistics, duration)
    for share in (0.5, 0.99):
        shown = statistics.totals().latency
        running = itertools.accumulate(count for _, count in shown)
        bound = next(bound for (bound, _), seen in zip(shown, running, strict=True) if seen >= share * len(durations))
        true = durations[int(share * len(durations)) - 1] / 1000
        assert true <= bound * 1.001
        assert bound <= true * 1.1
