"""When a worker is started again, what observers are told of it, and when it is given up."""

from __future__ import annotations

import asyncio
import math

import pytest

from infer.backends.api.backend import InstanceState
from infer.backends.api.errors import LoadFailed
from infer.backends.python.restart import Restarter, RestartPolicy

LIMIT_S = 10
READY, RESTARTING, FAILED = InstanceState.READY, InstanceState.RESTARTING, InstanceState.FAILED


class Starts:
    """Starts of a worker that fail for these reasons, one after another, and then no more; what is told of them."""

    def __init__(self, policy: RestartPolicy, *failures: str) -> None:
        self.failures = list(failures)
        self.count = 0
        self.told: asyncio.Queue[tuple[InstanceState, str]] = asyncio.Queue()
        self.restarter = Restarter(policy, self.start, "m_0_0", {})
        self.restarter.observe(lambda state, reason: self.told.put_nowait((state, reason)))

    async def start(self) -> None:
        """Start the worker."""
        self.count += 1
        if self.failures:
            raise LoadFailed(self.failures.pop(0))
        self.restarter.up()

    async def next(self) -> tuple[InstanceState, str]:
        """What is told next."""
        return await asyncio.wait_for(self.told.get(), LIMIT_S)


def test_restarts_come_later_and_later_up_to_a_limit_and_then_no_more() -> None:
    policy = RestartPolicy(first=1, factor=2, longest=5, attempts=5)
    assert [policy.delay(failures) for failures in range(1, 8)] == [1, 2, 4, 5, 5, None, None]


async def test_a_worker_that_has_died_is_started_again_and_said_to_be_ready() -> None:
    starts = Starts(RestartPolicy(first=0))
    starts.restarter.died("it fell over")
    assert await starts.next() == (READY, "")
    assert starts.count == 1


async def test_a_start_that_fails_is_told_with_its_reason_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    starts = Starts(RestartPolicy(first=0), "no weights", "still no weights")
    starts.restarter.died("it fell over")
    assert [await starts.next() for _ in range(3)] == [
        (RESTARTING, "no weights"),
        (RESTARTING, "still no weights"),
        (READY, ""),
    ]
    assert "'m_0_0' could not be started again: still no weights" in caplog.text


async def test_after_the_last_attempt_it_is_given_up_with_the_last_reason() -> None:
    starts = Starts(RestartPolicy(first=0, attempts=2), "one", "two", "three")
    starts.restarter.died("it fell over")
    told = [await starts.next() for _ in range(3)]
    assert told == [(RESTARTING, "one"), (RESTARTING, "two"), (FAILED, "two")]
    assert starts.count == 2


@pytest.mark.parametrize(("settled", "last"), [(-1, (READY, "")), (math.inf, (FAILED, "again"))])
async def test_only_a_worker_that_was_up_for_long_enough_starts_the_count_anew(
    settled: float, last: tuple[InstanceState, str]
) -> None:
    starts = Starts(RestartPolicy(first=0, attempts=1, settled=settled))
    starts.restarter.up()
    starts.restarter.died("it fell over")
    assert await starts.next() == (READY, "")
    starts.restarter.died("again")
    assert await starts.next() == last


async def test_a_close_before_the_next_start_is_its_end() -> None:
    starts = Starts(RestartPolicy(first=0))
    starts.restarter.died("it fell over")
    await starts.restarter.close()
    again = Starts(RestartPolicy(first=0))
    again.restarter.died("the timer of the other one would be over by now")
    await again.next()
    assert (starts.count, starts.told.empty()) == (0, True)


async def test_a_close_during_a_start_breaks_it_off_and_waits_for_its_end() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def start() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    told: list[InstanceState] = []
    restarter = Restarter(RestartPolicy(first=0), start, "m_0_0", {})
    restarter.observe(lambda state, _: told.append(state))
    restarter.died("it fell over")
    await asyncio.wait_for(begun.wait(), LIMIT_S)
    await restarter.close()
    assert ended.is_set()
    assert told == []


async def test_every_observer_is_told() -> None:
    starts = Starts(RestartPolicy())
    other: list[tuple[InstanceState, str]] = []
    starts.restarter.observe(lambda state, reason: other.append((state, reason)))
    starts.restarter.tell(RESTARTING, "it fell over")
    assert [await starts.next()] == other == [(RESTARTING, "it fell over")]
