"""Counters mean what Triton's mean, and a picture does not change any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from infer.backends.api.errors import FailureReason
from infer.server.observe.statistics import (
    MAX_RESPONSES,
    BatchLimit,
    Duration,
    ModelStatistics,
    Outcome,
    ResponseSnapshot,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def test_a_success_adds_its_batch_size_and_its_spans() -> None:
    statistics = ModelStatistics("m", 3, {"team": "a"})
    for rows in (1, 4):
        statistics.record_success(rows, total_ns=100, queue_ns=10, input_ns=20, infer_ns=30, output_ns=40)
    picture = statistics.snapshot()
    assert (picture.name, picture.version, picture.metric_tags) == ("m", "3", {"team": "a"})
    assert picture.inference_count == 5
    assert picture.success == Duration(2, 200)
    assert (picture.queue, picture.compute_input) == (Duration(2, 20), Duration(2, 40))
    assert (picture.compute_infer, picture.compute_output) == (Duration(2, 60), Duration(2, 80))


def test_a_failure_changes_nothing_but_the_failures() -> None:
    statistics = ModelStatistics("m", 1)
    statistics.record_failure(FailureReason.BACKEND, 50)
    picture = statistics.snapshot()
    assert picture.fail == Duration(1, 50)
    assert picture.failures == {"REJECTED": 0, "CANCELED": 0, "BACKEND": 1, "OTHER": 0}
    assert (picture.success, picture.inference_count, picture.execution_count) == (Duration(), 0, 0)


def test_executions_are_kept_apart_by_batch_size_in_order() -> None:
    statistics = ModelStatistics("m", 1)
    for rows in (8, 1, 8):
        statistics.record_batch(rows, input_ns=1, infer_ns=2, output_ns=3)
    picture = statistics.snapshot()
    assert picture.execution_count == 3
    assert [(batch.batch_size, batch.compute_infer) for batch in picture.batches] == [
        (1, Duration(1, 2)),
        (8, Duration(2, 4)),
    ]
    assert picture.last_inference > 1_600_000_000_000


def test_without_a_batcher_nothing_is_said_of_what_limits_batches() -> None:
    statistics = ModelStatistics("m", 1)
    assert (statistics.snapshot().batch_limits, statistics.totals().batch_limits) == ({}, {})


@pytest.mark.parametrize("limit", BatchLimit)
def test_each_limit_has_a_place_of_its_own_and_is_shown_by_its_words(limit: BatchLimit) -> None:
    statistics = ModelStatistics("m", 1)
    statistics.has_batcher()
    statistics.record_limit(limit)
    assert list(BatchLimit)[limit.place] is limit
    assert {words for words, count in statistics.totals().batch_limits.items() if count} == {limit.value}


def test_what_limits_the_batches_of_a_batcher_is_counted_from_nothing() -> None:
    statistics = ModelStatistics("m", 1)
    statistics.has_batcher()
    before = statistics.snapshot().batch_limits
    assert before == dict.fromkeys(
        ("full", "preferred size", "delay over", "no others", "next does not fit", "shape differs"), 0
    )
    for limit in (BatchLimit.SHAPE, BatchLimit.FULL, BatchLimit.SHAPE):
        statistics.record_limit(limit)
    assert statistics.totals().batch_limits == statistics.snapshot().batch_limits
    assert statistics.totals().batch_limits == {**before, "shape differs": 2, "full": 1}
    assert sum(before.values()) == 0


@pytest.mark.parametrize(
    ("outcome", "field"),
    [
        (Outcome.SUCCESS, "success"),
        (Outcome.FAIL, "fail"),
        (Outcome.EMPTY, "empty_response"),
        (Outcome.CANCEL, "cancel"),
    ],
)
def test_decoupled_responses_are_counted_by_their_index(outcome: Outcome, field: str) -> None:
    statistics = ModelStatistics("m", 1)
    statistics.record_response(1, 7, outcome)
    picture = statistics.snapshot()
    assert [index for index, _ in picture.responses] == ["0", "1"]
    assert picture.responses[0][1] == ResponseSnapshot()
    assert getattr(picture.responses[1][1], field) == Duration(1, 7)


@pytest.mark.parametrize(
    ("outcome", "infer", "output"),
    [
        (Outcome.SUCCESS, Duration(1, 5), Duration(1, 2)),
        (Outcome.FAIL, Duration(1, 5), Duration(1, 2)),
        (Outcome.EMPTY, Duration(1, 7), Duration()),
        (Outcome.CANCEL, Duration(), Duration()),
    ],
)
def test_what_a_response_took_is_divided_as_far_as_it_says_so(
    outcome: Outcome, infer: Duration, output: Duration
) -> None:
    statistics = ModelStatistics("m", 1)
    statistics.record_response(0, 7, outcome, output_ns=2)
    ((_, first),) = statistics.snapshot().responses
    assert (first.compute_infer, first.compute_output) == (infer, output)


def test_an_endless_answer_does_not_make_the_statistics_endless() -> None:
    statistics = ModelStatistics("m", 1)
    for index in (0, MAX_RESPONSES - 1, MAX_RESPONSES, MAX_RESPONSES * 1000):
        statistics.record_response(index, 1, Outcome.SUCCESS)
    responses = statistics.snapshot().responses
    assert len(responses) == MAX_RESPONSES
    assert responses[-1][1].success == Duration(3, 3)


def test_a_picture_is_frozen() -> None:
    statistics = ModelStatistics("m", 1)
    picture = statistics.snapshot()
    statistics.record_failure(FailureReason.OTHER, 1)
    statistics.record_success(1, total_ns=1, queue_ns=1, input_ns=1, infer_ns=1, output_ns=1)
    assert picture.failures["OTHER"] == 0
    assert picture.success.count == 0


def test_totals_are_those_of_the_picture() -> None:
    statistics = ModelStatistics("m", 1)
    statistics.load_duration_s = 1.5
    for rows in (8, 1, 8):
        statistics.record_batch(rows, input_ns=1, infer_ns=2, output_ns=3)
        statistics.record_success(rows, total_ns=9, queue_ns=1, input_ns=2, infer_ns=3, output_ns=4)
    statistics.record_failure(FailureReason.CANCELED, 5)
    statistics.pending = 2
    totals, picture = statistics.totals(), statistics.snapshot()
    assert (totals.success, totals.request_ns) == (picture.success.count, picture.success.ns)
    assert totals.failures == picture.failures
    assert (totals.inference_count, totals.execution_count, totals.pending) == (17, 3, 2)
    phases = (totals.queue_ns, totals.input_ns, totals.infer_ns, totals.output_ns)
    assert phases == (
        picture.queue.ns,
        picture.compute_input.ns,
        picture.compute_infer.ns,
        picture.compute_output.ns,
    )
    assert totals.batches == [(1, 1), (8, 2)]
    assert (totals.load_duration_s, totals.last_inference) == (1.5, picture.last_inference)


def test_totals_do_not_change_any_more() -> None:
    statistics = ModelStatistics("m", 1)
    totals = statistics.totals()
    statistics.record_failure(FailureReason.OTHER, 1)
    statistics.record_success(1, total_ns=1, queue_ns=1, input_ns=1, infer_ns=1, output_ns=1)
    assert totals.failures["OTHER"] == 0
    assert totals.latency == ()


def count_success(statistics: ModelStatistics) -> None:
    statistics.record_success(1, total_ns=1, queue_ns=0, input_ns=0, infer_ns=0, output_ns=0)


def count_failure(statistics: ModelStatistics) -> None:
    statistics.record_failure(FailureReason.REJECTED, 0)


def count_batch(statistics: ModelStatistics) -> None:
    statistics.record_batch(1, input_ns=0, infer_ns=0, output_ns=0)


def wait(statistics: ModelStatistics) -> None:
    statistics.pending += 1


@pytest.mark.parametrize("event", [count_success, count_failure, count_batch, wait])
def test_whatever_is_counted_changes_the_stamp(event: Callable[[ModelStatistics], None]) -> None:
    statistics = ModelStatistics("m", 1)
    before = statistics.stamp
    assert statistics.stamp == before
    event(statistics)
    assert statistics.stamp != before
