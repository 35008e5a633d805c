"""When the next picture is asked for, and what is said of the link."""

from __future__ import annotations

import pytest

from infer.tui.cadence import INTERVALS_S, LONGEST_WAIT_S, PATIENCE_S, Link, State, next_interval
from infer.tui.failure import ClientError

AWAY = ClientError("cannot reach a server", "connection refused")


def test_waits_double_and_stay_below_a_limit() -> None:
    link, waits = Link(interval_s=1.0), []
    for _ in range(7):
        link = link.failed(AWAY)
        waits.append(link.retry_in_s)
    assert waits[:4] == [1.0, 2.0, 4.0, 8.0]
    assert waits[-1] == LONGEST_WAIT_S
    assert link.state is State.LOST
    assert link.failures == 7


def test_a_server_that_is_away_for_days_makes_no_number_too_large() -> None:
    link = Link(failures=100_000).failed(AWAY)
    assert link.retry_in_s == LONGEST_WAIT_S


def test_an_answer_forgets_all_failures() -> None:
    link = Link().failed(AWAY).failed(AWAY).answered()
    assert (link.state, link.failures, link.error, link.retry_in_s) == (State.LIVE, 0, None, 0.0)
    assert link.failed(AWAY).retry_in_s == 1.0


def test_short_intervals_do_not_make_a_lost_server_busy() -> None:
    assert Link(interval_s=0.25).failed(AWAY).retry_in_s == 1.0


def test_a_countdown_ends_at_zero() -> None:
    assert Link(retry_in_s=0.5).counted_down(1.0).retry_in_s == 0.0


def test_a_slow_answer_is_told_only_after_some_patience() -> None:
    live = Link().answered()
    assert live.waiting(PATIENCE_S - 0.5).state is State.LIVE
    assert live.waiting(PATIENCE_S).state is State.SLOW
    assert live.waiting(9).waited_s == 9


def test_a_lost_server_that_is_tried_again_is_still_lost() -> None:
    assert Link().failed(AWAY).waiting(60).state is State.LOST


@pytest.mark.parametrize(
    ("state", "stale"), [(State.LIVE, False), (State.PAUSED, False), (State.LOST, True), (State.SLOW, True)]
)
def test_a_picture_is_stale_where_the_server_does_not_answer(state: State, stale: bool) -> None:
    assert Link(state=state).stale is stale


def test_a_pause_ends_with_a_new_try() -> None:
    paused = Link().answered().paused(paused=True)
    assert paused.state is State.PAUSED
    assert paused.paused(paused=False).state is State.CONNECTING


@pytest.mark.parametrize(
    ("interval", "step", "expected"), [(1.0, 1, 2.0), (1.0, -1, 0.5), (60.0, 1, 60.0), (0.25, -1, 0.25), (0.7, 1, 1.0)]
)
def test_intervals_move_on_a_scale_and_stay_on_it(interval: float, step: int, expected: float) -> None:
    assert next_interval(interval, step) == expected
    assert expected in INTERVALS_S
