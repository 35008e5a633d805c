"""Which sequences of an instance execute together, as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from infer.server.observe.statistics import BatchLimit
from infer.server.scheduling.batch_policy import BatchPolicy
from infer.server.scheduling.sequence_rounds import direct_round, oldest_round
from infer.server.scheduling.sequence_settings import SequenceSettings
from infer.server.scheduling.sequence_slots import SequenceState, Slot

if TYPE_CHECKING:
    from collections.abc import Hashable

    Ready = list[SequenceState[str]]


def sequence(row: int, item: str = "x", since: int = 0) -> SequenceState[str]:
    made: SequenceState[str] = SequenceState(f"{row}")
    made.slot, made.since = Slot(0, row), since
    made.waiting.append(item)
    return made


def kind(ready: SequenceState[str]) -> Hashable:
    """What may share a batch: requests of one letter."""
    return ready.waiting[0]


def limit(ready: Ready, settings: SequenceSettings, now: int = 0) -> BatchLimit:
    return direct_round(ready, kind, settings, now).limit


def rows(ready: Ready, settings: SequenceSettings, now: int = 0) -> list[int | None]:
    verdict = direct_round(ready, kind, settings, now)
    return [each.slot.row if each is not None and each.slot is not None else None for each in verdict.batch]


@pytest.mark.parametrize(
    ("ready", "expected"),
    [
        ([(0, "x")], [0]),
        ([(2, "x")], [None, None, 2]),
        ([(2, "x"), (0, "x")], [0, None, 2]),
        ([(3, "x"), (1, "x"), (0, "x")], [0, 1, None, 3]),
        # Another kind than that of the lowest row is left for the next round, as if it were not there.
        ([(0, "y"), (1, "x"), (2, "y")], [0, None, 2]),
        ([(0, "y"), (1, "x"), (2, "x")], [0]),
    ],
)
def test_directly_every_sequence_is_in_its_row_and_nothing_comes_after_the_last(
    ready: list[tuple[int, str]], expected: list[int | None]
) -> None:
    assert rows([sequence(row, item) for row, item in ready], SequenceSettings(slots=4)) == expected


@pytest.mark.parametrize(
    ("utilization", "ready", "now", "wake_at"),
    [
        (0.0, 1, 10, None),
        (0.5, 1, 10, 105),
        (0.5, 2, 10, None),
        (1.0, 3, 10, 105),
        (1.0, 4, 10, None),
        (1.0, 1, 104, 105),
        (1.0, 1, 105, None),
    ],
)
def test_a_batch_waits_for_enough_rows_or_for_the_delay(
    utilization: float, ready: int, now: int, wake_at: int | None
) -> None:
    settings = SequenceSettings(slots=4, delay_ns=100, utilization=utilization)
    found = direct_round([sequence(row, since=8 - row) for row in range(3, 3 - ready, -1)], kind, settings, now)
    assert (bool(found.batch), found.wake_at) == (wake_at is None, wake_at)


def test_without_a_delay_no_batch_waits() -> None:
    assert rows([sequence(0)], SequenceSettings(slots=4, utilization=1.0)) == [0]


@pytest.mark.parametrize(
    ("ready", "expected"),
    [
        ([(0, "x"), (1, "x")], BatchLimit.NO_OTHERS),
        ([(0, "x"), (1, "x"), (2, "x"), (3, "x")], BatchLimit.FULL),
        ([(0, "x"), (1, "y"), (2, "x"), (3, "x")], BatchLimit.SHAPE),
    ],
)
def test_a_direct_batch_says_why_it_is_no_larger(ready: list[tuple[int, str]], expected: BatchLimit) -> None:
    assert limit([sequence(row, item) for row, item in ready], SequenceSettings(slots=4)) is expected


def test_a_direct_batch_that_waited_says_what_for() -> None:
    settings = SequenceSettings(slots=4, delay_ns=100, utilization=0.5)
    assert limit([sequence(0), sequence(1)], settings) is BatchLimit.PREFERRED
    assert limit([sequence(0)], settings, 100) is BatchLimit.DELAY
    assert limit([sequence(0), sequence(1, "y")], settings, 100) is BatchLimit.SHAPE
    assert limit([sequence(row) for row in range(4)], settings, 100) is BatchLimit.FULL


def oldest(ready: Ready, policy: BatchPolicy, now: int = 0) -> tuple[list[Hashable], int | None]:
    verdict = oldest_round(ready, kind, policy, now)
    return [each.key for each in verdict.batch if each is not None], verdict.wake_at


def test_the_oldest_requests_go_first_whatever_their_rows() -> None:
    ready = [sequence(3, since=1), sequence(0, since=2), sequence(1, since=3)]
    assert oldest(ready, BatchPolicy(max_rows=2)) == (["3", "0"], None)


def test_the_oldest_requests_wait_for_a_preferred_size_or_for_the_delay() -> None:
    policy = BatchPolicy(max_rows=4, preferred=frozenset([4]), delay_ns=100)
    ready = [sequence(row, since=row) for row in range(3)]
    assert oldest(ready, policy, 50) == ([], 100)
    assert oldest(ready, policy, 100) == (["0", "1", "2"], None)
    assert oldest([*ready, sequence(3)], policy, 50) == (["0", "1", "2", "3"], None)


def test_the_oldest_requests_go_with_their_like() -> None:
    ready = [sequence(0, "x"), sequence(1, "y"), sequence(2, "x")]
    assert oldest(ready, BatchPolicy(max_rows=4)) == (["0", "2"], None)


def test_the_reason_for_a_batch_of_the_oldest_is_that_of_the_dynamic_batcher() -> None:
    ready = [sequence(0, "x"), sequence(1, "y"), sequence(2, "x")]
    assert oldest_round(ready, kind, BatchPolicy(max_rows=4), 0).limit is BatchLimit.SHAPE
    assert oldest_round(ready[1:2], kind, BatchPolicy(max_rows=4), 0).limit is BatchLimit.NO_OTHERS
    assert oldest_round([sequence(0), sequence(1)], kind, BatchPolicy(max_rows=2), 0).limit is BatchLimit.FULL
