"""Rates and percentiles speak of the span between two pictures, whatever happened to the server meanwhile."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer.tui.rates import History, Rates, cpu_cores, difference, percentile, rates
from infer.tui.snapshot import Duration, ModelSnapshot, Overview, Server

ROW = ModelSnapshot(
    "m",
    "1",
    "READY",
    success=100,
    failures={"TIMEOUT": 2},
    inference_count=200,
    execution_count=50,
    durations={"request": Duration(100, 1_000_000), "queue": Duration(100, 200_000)},
    latency=((10.0, 60), (20.0, 40)),
)
BUCKETS = st.dictionaries(st.integers(1, 1000).map(float), st.integers(0, 50), max_size=12).map(
    lambda counts: tuple(sorted(counts.items()))
)


def later(**changes: Any) -> ModelSnapshot:
    """The row after ten more requests of 50 µs."""
    grown: dict[str, Any] = {
        "success": 110,
        "inference_count": 230,
        "execution_count": 55,
        "durations": {"request": Duration(110, 1_500_000), "queue": Duration(110, 300_000)},
        "latency": ((10.0, 60), (20.0, 41), (50.0, 9)),
    }
    return replace(ROW, **(grown | changes))


def picture(now: float, *rows: ModelSnapshot, pid: int | None = 1, cpu_s: float | None = None) -> Overview:
    return Overview(Server(pid=pid, now=now, cpu_s=cpu_s), rows)


def test_what_happened_between_two_pictures() -> None:
    found = rates(ROW, later(failures={"TIMEOUT": 2, "REJECTED": 4}), 2.0)
    assert (found.requests_s, found.failures_s, found.inferences_s) == (5.0, 2.0, 15.0)
    assert (found.p50_us, found.p90_us, found.p99_us) == (50.0, 50.0, 50.0)
    assert found.mean_us == 50.0
    assert found.batch_size == 6.0
    assert found.phases_us == {"queue": 10.0}


def test_nothing_happened() -> None:
    found = rates(ROW, ROW, 1.0)
    assert found == Rates()


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_pictures_of_one_moment_have_no_rates(seconds: float) -> None:
    assert rates(ROW, later(), seconds) == Rates()


def test_a_model_that_was_not_there_before_has_no_rates_yet() -> None:
    assert rates(None, ROW, 1.0) == Rates()


@pytest.mark.parametrize(
    "reset",
    [{"success": 5}, {"success": 150, "execution_count": 5}, {"success": 150, "failures": {}}],
    ids=["fewer successes", "fewer executions", "fewer failures"],
)
def test_counters_that_went_back_are_counted_from_their_reset(reset: dict[str, Any]) -> None:
    after = replace(ROW, inference_count=5, latency=((10.0, 5),), **({"execution_count": 5} | reset))
    found = rates(ROW, after, 1.0)
    assert found.requests_s == after.success
    assert found.p99_us == 10.0


def test_a_reset_that_only_shows_in_durations_does_not_make_times_negative() -> None:
    after = later(durations={"request": Duration(3, 900)})
    assert rates(ROW, after, 1.0).mean_us is None


def test_a_server_without_counts_by_latency_has_means_and_the_quantiles_that_it_tells() -> None:
    before = replace(ROW, latency=None)
    found = rates(before, later(latency=None), 1.0)
    assert (found.p50_us, found.p99_us, found.mean_us) == (None, None, 50.0)
    told = later(latency=None, quantiles=((0.5, 12.0), (0.99, 80.0)))
    assert (rates(before, told, 1.0).p50_us, rates(before, told, 1.0).p99_us) == (12.0, 80.0)
    assert rates(told, told, 1.0).p50_us is None


@pytest.mark.parametrize(
    ("buckets", "share", "expected"),
    [
        (None, 0.5, None),
        ((), 0.5, None),
        (((10.0, 1),), 0.01, 10.0),
        (((10.0, 99), (20.0, 1)), 0.99, 10.0),
        (((10.0, 98), (20.0, 2)), 0.99, 20.0),
        (((10.0, 1), (20.0, 1)), 0.5, 10.0),
        (((10.0, 1), (20.0, 1)), 1.0, 20.0),
        (((10.0, 0),), 0.5, None),
    ],
)
def test_a_percentile_is_the_upper_bound_of_its_bucket(buckets: Any, share: float, expected: float | None) -> None:
    assert percentile(buckets, share) == expected


@given(BUCKETS, st.floats(0.01, 1), st.floats(0, 1))
def test_percentiles_are_bounds_of_filled_buckets_and_grow_with_the_share(
    buckets: tuple[tuple[float, int], ...], share: float, part: float
) -> None:
    found, less = percentile(buckets, share), percentile(buckets, share * part)
    filled = [bound for bound, count in buckets if count]
    assert (found in filled) if filled else found is None
    assert found is None or less is None or less <= found


@given(BUCKETS, BUCKETS)
def test_what_was_added_to_a_histogram_is_what_its_difference_has(
    before: tuple[tuple[float, int], ...], added: tuple[tuple[float, int], ...]
) -> None:
    bounds = sorted({bound for bound, _ in before + added})
    after = tuple((bound, dict(before).get(bound, 0) + dict(added).get(bound, 0)) for bound in bounds)
    assert difference(before, after) == tuple((bound, count) for bound, count in added if count)


COUNTERS = st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))


@given(st.lists(COUNTERS, min_size=2, max_size=2), st.floats(0.001, 100))
def test_no_rate_is_ever_negative_whatever_the_counters_do(counters: list[Any], seconds: float) -> None:
    before, after = (
        ModelSnapshot(
            "m",
            success=success,
            failures={"OTHER": failed},
            execution_count=executions,
            inference_count=inferences,
            durations={"request": Duration(success, inferences * 1000)},
            latency=((10.0, success),),
        )
        for success, failed, executions, inferences in counters
    )
    found = rates(before, after, seconds)
    # A reset may hide behind counters that grew past it; what is told then is small, never negative.
    assert min(found.requests_s, found.failures_s, found.inferences_s) >= 0
    assert found.batch_size is None or found.batch_size >= 0
    assert found.mean_us is None or found.mean_us >= 0


def test_an_empty_history_has_nothing() -> None:
    history = History()
    assert history.latest is None
    assert history.rates("m", "1") == Rates()
    assert history.series("m", "1") == ()


def test_a_single_picture_has_no_rates() -> None:
    history = History()
    history.add(picture(1, ROW))
    assert history.rates("m", "1") == Rates()
    assert history.series("m", "1") == ()


def test_rates_span_the_window_and_series_single_steps() -> None:
    history = History()
    for second in range(30):
        history.add(picture(second, replace(ROW, success=100 + 10 * second)))
    assert history.rates("m", "1").requests_s == 10.0
    assert history.rates("m", "1", window_s=1).requests_s == 10.0
    assert [step.requests_s for step in history.series("m", "1", 5)] == [10.0] * 5
    assert len(history.series("m", "1")) == 29


def test_a_history_forgets_what_is_too_old() -> None:
    history = History(3)
    for second in range(5):
        history.add(picture(second))
    assert [one.server.now for one in history.pictures] == [2, 3, 4]


def test_a_server_with_another_pid_begins_a_new_history() -> None:
    history = History()
    history.add(picture(1, ROW))
    history.add(picture(2, replace(ROW, success=3), pid=2))
    assert len(history.pictures) == 1
    assert history.rates("m", "1") == Rates()


@pytest.mark.parametrize("now", [2.0, 1.0])
def test_a_clock_that_stands_still_or_goes_back_replaces_the_last_picture(now: float) -> None:
    history = History()
    history.add(picture(0.5, ROW))
    history.add(picture(2.0, ROW))
    history.add(picture(now, later()))
    assert len(history.pictures) == 2
    assert history.latest == picture(now, later())


def test_a_clock_that_was_set_back_by_far_takes_its_pictures_along() -> None:
    history = History()
    for now in (100.0, 101.0, 102.0, 50.0):
        history.add(picture(now, ROW))
    moments = [one.server.now for one in history.pictures]
    assert moments == [50.0]


def test_a_model_that_vanished_has_no_rates() -> None:
    history = History()
    history.add(picture(1, ROW))
    history.add(picture(2))
    assert history.rates("m", "1") == Rates()
    assert history.series("m", "1") == ()


@pytest.mark.parametrize(
    ("before", "after", "cores"),
    [
        (None, picture(1, cpu_s=1.0), None),
        (picture(1), picture(2, cpu_s=1.0), None),
        (picture(1, cpu_s=1.0), picture(2), None),
        (picture(1, cpu_s=1.0), picture(3, cpu_s=2.0), 0.5),
        (picture(1, cpu_s=1.0), picture(1, cpu_s=2.0), None),
        (picture(1, cpu_s=5.0), picture(2, cpu_s=1.0), None),
    ],
)
def test_busy_cores_are_known_where_both_pictures_tell_them(
    before: Overview | None, after: Overview, cores: float | None
) -> None:
    assert cpu_cores(before, after) == cores
