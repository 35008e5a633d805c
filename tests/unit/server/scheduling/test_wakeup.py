"""A wake-up comes at its moment, once, and can be moved."""

from __future__ import annotations

import asyncio
from time import monotonic_ns

import pytest

from infer.server.scheduling.wakeup import Wakeup

MS = 1_000_000


class Bench:
    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.came: list[int] = []
        self.first: asyncio.Future[None] = loop.create_future()
        self.wakeup = Wakeup(loop, monotonic_ns, self._wake)

    def _wake(self) -> None:
        self.came.append(monotonic_ns())
        if not self.first.done():
            self.first.set_result(None)


@pytest.mark.parametrize("nanoseconds", [-5, 0, 100_000, 3 * MS])
async def test_it_comes_at_its_moment_and_not_before(nanoseconds: int) -> None:
    bench = Bench()
    moment = monotonic_ns() + nanoseconds
    bench.wakeup.at(moment)
    await asyncio.wait_for(bench.first, 5)
    assert bench.came[0] >= moment


async def test_it_comes_once() -> None:
    bench = Bench()
    bench.wakeup.at(0)
    await bench.first
    await asyncio.sleep(0)
    assert len(bench.came) == 1


async def test_a_later_word_replaces_an_earlier_one() -> None:
    bench = Bench()
    bench.wakeup.at(monotonic_ns())
    later = monotonic_ns() + 2 * MS
    bench.wakeup.at(later)
    await asyncio.wait_for(bench.first, 5)
    assert bench.came[0] >= later


async def test_it_can_be_called_off() -> None:
    bench = Bench()
    bench.wakeup.at(monotonic_ns())
    bench.wakeup.at(None)
    bench.wakeup.at(monotonic_ns())
    bench.wakeup.cancel()
    for _ in range(3):
        await asyncio.sleep(0)
    assert bench.came == []


async def test_closed_it_never_comes_again() -> None:
    bench = Bench()
    bench.wakeup.at(0)
    bench.wakeup.close()
    bench.wakeup.at(0)
    for _ in range(5):
        await asyncio.sleep(0)
    assert bench.came == []


async def test_the_same_moment_again_changes_nothing() -> None:
    bench = Bench()
    moment = monotonic_ns() + 3600_000 * MS
    bench.wakeup.at(moment)
    handle = bench.wakeup._handle
    bench.wakeup.at(moment)
    assert bench.wakeup._handle is handle
    bench.wakeup.cancel()


async def test_it_can_be_set_again_from_its_own_call() -> None:
    loop = asyncio.get_running_loop()
    twice: asyncio.Future[None] = loop.create_future()
    moments: list[int] = []

    def wake() -> None:
        moments.append(monotonic_ns())
        if len(moments) == 1:
            wakeup.at(monotonic_ns() + MS)
        else:
            twice.set_result(None)

    wakeup = Wakeup(loop, monotonic_ns, wake)
    wakeup.at(monotonic_ns())
    await asyncio.wait_for(twice, 5)
    assert moments[1] >= moments[0] + MS


async def test_it_comes_by_the_earliest_of_the_moments_it_was_told() -> None:
    bench = Bench()
    now = monotonic_ns()
    bench.wakeup.by(now + 5000 * MS)
    bench.wakeup.by(now + 2 * MS)
    bench.wakeup.by(now + 9000 * MS)
    await asyncio.wait_for(bench.first, 5)
    assert now + 2 * MS <= bench.came[0] < now + 5000 * MS
    bench.wakeup.by(0)
    await asyncio.sleep(0)
    assert len(bench.came) == 2
