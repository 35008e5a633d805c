"""A connection's deadlines move without a timer each, and pass only for a client that does nothing: a clock by hand."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

import pytest

from infer.server.http.deadlines import PROGRESS_STEP, Deadlines
from infer.server.http.limits import Limits, Phase

if TYPE_CHECKING:
    from collections.abc import Callable

LIMITS = Limits(
    keep_alive_timeout_s=300, header_timeout_s=20, body_timeout_s=40, write_timeout_s=60, linger_s=2, max_pipelined=1
)


class Timer:
    def __init__(self, due: float, call: Callable[[], None]) -> None:
        self._due = due
        self.call = call
        self.cancelled = False

    def when(self) -> float:
        return self._due

    def cancel(self) -> None:
        self.cancelled = True


class Clock:
    """A loop whose time passes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.timers: list[Timer] = []

    def time(self) -> float:
        return self.now

    def call_at(self, due: float, call: Callable[[], None]) -> Timer:
        self.timers.append(Timer(due, call))
        return self.timers[-1]

    @property
    def armed(self) -> list[float]:
        """When the timers that wait are due, after the start of the test."""
        return [timer.when() - 1000 for timer in self.timers if not timer.cancelled]

    def pass_to(self, second: float) -> None:
        """Let time pass to that second of the test, firing what is due on the way."""
        while True:
            due = [timer for timer in self.timers if not timer.cancelled and timer.when() <= 1000 + second]
            if not due:
                break
            timer = min(due, key=Timer.when)
            self.timers.remove(timer)
            self.now = timer.when()
            timer.call()
        self.now = 1000 + second


class Owner:
    """A connection, and its transport too: what it has not written yet, and what happened to it."""

    def __init__(self) -> None:
        self.transport: Any = self
        self.client = None
        self.left = 0
        self.late: list[tuple[Phase, float]] = []
        self.aborted: list[float] = []
        self.closing = False
        self.clock = Clock()
        self.deadlines = Deadlines(self, LIMITS, self.clock)  # type: ignore[arg-type]

    def read_is_late(self, phase: Phase) -> None:
        self.late.append((phase, self.clock.now - 1000))

    def get_write_buffer_size(self) -> int:
        return self.left

    def is_closing(self) -> bool:
        return self.closing

    def abort(self) -> None:
        self.aborted.append(self.clock.now - 1000)
        self.closing = True


@pytest.fixture
def owner() -> Owner:
    return Owner()


@pytest.mark.parametrize(
    ("phase", "seconds"), [(Phase.IDLE, 300), (Phase.HEADERS, 20), (Phase.BODY, 40), (Phase.REFUSED, 2)]
)
def test_each_phase_has_its_own_time_and_is_late_once(owner: Owner, phase: Phase, seconds: float) -> None:
    owner.deadlines.wait_for(phase)
    owner.clock.pass_to(seconds - 0.1)
    assert owner.late == []
    owner.clock.pass_to(1000)
    assert owner.late == [(phase, seconds)]
    assert owner.clock.armed == []


def test_a_deadline_that_moves_away_keeps_its_timer(owner: Owner) -> None:
    owner.deadlines.wait_for(Phase.IDLE)
    for second in (1, 2, 3):
        owner.clock.pass_to(second)
        owner.deadlines.wait_for(Phase.IDLE)
        assert owner.clock.armed == [300]
    owner.clock.pass_to(300)
    assert owner.late == []
    assert owner.clock.armed == [303]
    owner.clock.pass_to(303)
    assert owner.late == [(Phase.IDLE, 303)]


def test_a_deadline_that_comes_nearer_takes_the_timer_with_it(owner: Owner) -> None:
    owner.deadlines.wait_for(Phase.IDLE)
    owner.deadlines.wait_for(Phase.REFUSED)
    assert owner.clock.armed == [2]


def test_where_nothing_need_arrive_the_timer_runs_out(owner: Owner) -> None:
    owner.deadlines.wait_for(Phase.HEADERS)
    owner.deadlines.read_due = inf
    owner.clock.pass_to(1000)
    assert owner.late == []
    assert owner.clock.armed == []


def test_what_the_connection_waits_for_when_it_is_late_has_its_own_time(owner: Owner) -> None:
    owner.read_is_late = lambda phase: owner.deadlines.wait_for(Phase.REFUSED)  # type: ignore[method-assign]
    owner.deadlines.wait_for(Phase.HEADERS)
    owner.clock.pass_to(20)
    assert owner.clock.armed == [22]


class TestProgress:
    """A request that comes slowly has the time of a step for each step of it, not for each byte."""

    def test_a_header_in_pieces_has_one_deadline(self, owner: Owner) -> None:
        for second in (0, 5, 10, 15):
            owner.clock.pass_to(second)
            owner.deadlines.follow(Phase.HEADERS, 0)
        owner.clock.pass_to(1000)
        assert owner.late == [(Phase.HEADERS, 20)]

    def test_the_body_has_its_time_from_the_end_of_the_headers_on(self, owner: Owner) -> None:
        owner.deadlines.follow(Phase.HEADERS, 0)
        owner.clock.pass_to(15)
        owner.deadlines.follow(Phase.BODY, 100)
        owner.clock.pass_to(1000)
        assert owner.late == [(Phase.BODY, 55)]

    @pytest.mark.parametrize(("more", "late_at"), [(PROGRESS_STEP - 1, 40), (PROGRESS_STEP, 70)])
    def test_a_body_is_given_more_time_for_a_whole_step(self, owner: Owner, more: int, late_at: float) -> None:
        owner.deadlines.follow(Phase.BODY, 100)
        owner.clock.pass_to(30)
        owner.deadlines.follow(Phase.BODY, 100 + more)
        owner.clock.pass_to(1000)
        assert owner.late == [(Phase.BODY, late_at)]

    def test_the_next_request_counts_from_its_own_start(self, owner: Owner) -> None:
        owner.deadlines.follow(Phase.BODY, 5 * PROGRESS_STEP)
        owner.deadlines.phase = Phase.IDLE
        owner.clock.pass_to(10)
        owner.deadlines.follow(Phase.BODY, 0)
        owner.clock.pass_to(20)
        owner.deadlines.follow(Phase.BODY, PROGRESS_STEP)
        owner.clock.pass_to(1000)
        assert owner.late == [(Phase.BODY, 60)]

    def test_a_connection_that_idles_is_left_with_the_deadline_it_has(self, owner: Owner) -> None:
        owner.deadlines.follow(Phase.IDLE, 0)
        assert owner.deadlines.read_due == inf
        assert owner.clock.armed == []


class TestWriting:
    """A client has to take what it is sent."""

    def test_one_that_takes_nothing_is_cut_off_and_not_called_late_as_well(self, owner: Owner) -> None:
        owner.left = 1 << 20
        owner.deadlines.start_write()
        owner.clock.pass_to(40)
        owner.deadlines.wait_for(Phase.HEADERS)
        owner.clock.pass_to(1000)
        assert owner.aborted == [60]
        assert owner.late == []
        assert owner.clock.armed == []

    def test_one_that_takes_a_step_each_time_is_not(self, owner: Owner) -> None:
        owner.left = 1 << 20
        owner.deadlines.start_write()
        for second in (60, 120, 180):
            owner.left -= PROGRESS_STEP
            owner.clock.pass_to(second)
            assert owner.clock.armed == [second + 60]
        owner.left -= PROGRESS_STEP - 1
        owner.clock.pass_to(1000)
        assert owner.aborted == [240]

    def test_one_that_has_taken_everything_owes_nothing(self, owner: Owner) -> None:
        owner.left = 1 << 20
        owner.deadlines.start_write()
        owner.deadlines.end_write()
        owner.clock.pass_to(1000)
        assert owner.aborted == []

    def test_both_deadlines_share_the_timer(self, owner: Owner) -> None:
        owner.left = 2 * PROGRESS_STEP
        owner.deadlines.wait_for(Phase.IDLE)
        owner.deadlines.start_write()
        assert owner.clock.armed == [60]
        owner.deadlines.end_write()
        owner.clock.pass_to(60)
        assert owner.clock.armed == [300]


def test_a_connection_that_closes_sets_no_timer_again(owner: Owner) -> None:
    owner.deadlines.wait_for(Phase.HEADERS)
    owner.deadlines.wait_for(Phase.BODY)
    owner.closing = True
    owner.clock.pass_to(20)
    assert owner.clock.armed == []


def test_nothing_is_left_of_a_connection_that_is_gone(owner: Owner) -> None:
    owner.left = 1 << 20
    owner.deadlines.wait_for(Phase.IDLE)
    owner.deadlines.start_write()
    owner.deadlines.stop()
    owner.deadlines.stop()
    owner.clock.pass_to(1000)
    assert (owner.late, owner.aborted) == ([], [])
