"""A call that waits for itself is failed, one that only waits long is left alone: over schedulers with real queues."""

from __future__ import annotations

import asyncio
from time import monotonic_ns
from typing import TYPE_CHECKING

import pytest

from infer.backends.api.backend import InstanceState
from infer.backends.api.errors import Code
from infer.server.scheduling.wait_watch import DOUBT_S, WaitWatch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from conftest import Bench, FakeInstance, MakeBench

    from infer.backends.api.backend import Batch
    from infer.server.scheduling.ticket import Ticket


class Called:
    """A call as its instance knows it."""

    def __init__(self, call: Ticket, batch: Batch | None, *, blocking: bool) -> None:
        self.call = call
        self.batch = batch
        self.blocking = blocking
        self.answered = False


class Watch(WaitWatch):
    """A watch whose time the test makes pass."""

    def __init__(self) -> None:
        self._passed = 0
        super().__init__(asyncio.get_running_loop(), lambda: monotonic_ns() + self._passed)

    async def later(self) -> None:
        """The time after which it looks again is over."""
        await turn()
        self._passed += int(DOUBT_S * 1e9)
        self.look_again()


@pytest.fixture
async def watch() -> AsyncIterator[Watch]:
    watch = Watch()
    yield watch
    watch.close()


def call(
    watch: Watch,
    caller: FakeInstance,
    callee: Bench,
    name: str,
    *,
    blocking: bool = True,
    known: bool = True,
) -> Called:
    """What happens when an execution calls: the ticket, the watch, and only then the instance's own book."""
    ticket = callee.submit(name)
    watch.called(ticket)
    called = Called(ticket, caller.work[0][0] if known else None, blocking=blocking)
    caller.open.append(called)
    return called


async def turn() -> None:
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def test_a_model_that_calls_itself_with_its_only_instance_is_told_at_once(
    make_bench: MakeBench, watch: Watch
) -> None:
    bench = make_bench()
    bench.submit("outer")
    call(watch, bench.instances[0], bench, "inner")
    await turn()
    (error,) = [response.error for name, response in bench.answers if name == "inner"]
    assert error is not None
    assert "the call from model 'm' to itself would wait for itself: m_0_0 → m_0_0" in error.message
    assert bench.outcomes == {"inner": Code.UNAVAILABLE}
    assert (bench.statistics.pending, bench.scheduler.in_flight) == (0, 1)


async def test_a_call_that_a_lone_instance_was_handed_early_is_withdrawn_from_it(
    make_bench: MakeBench, watch: Watch
) -> None:
    bench = make_bench(depth=2)
    bench.submit("first")
    bench.instances[0].finish()
    bench.submit("outer")
    called = call(watch, bench.instances[0], bench, "inner")
    assert len(bench.instances[0].work) == 2
    await turn()
    assert bench.outcomes["inner"] is Code.UNAVAILABLE
    assert bench.instances[0].cancelled == [called.call]


async def test_a_circle_over_an_instance_that_leaves_its_model_is_seen(make_bench: MakeBench, watch: Watch) -> None:
    one, other = make_bench(), make_bench(2)
    one.submit("outer")
    call(watch, one.instances[0], other, "between")
    (leaving,) = [index for index, instance in enumerate(other.instances) if instance.work]
    pool = other.scheduler.instances
    other.scheduler.leaving.take(pool.regroup({}, [f"m_0_{leaving}"]))
    call(watch, other.instances[leaving], one, "inner")
    await turn()
    assert one.outcomes == {"inner": Code.UNAVAILABLE}


async def test_it_is_left_alone_while_an_instance_computes_and_told_when_that_calls_too(
    make_bench: MakeBench, watch: Watch
) -> None:
    bench = make_bench(2)
    bench.submit("one")
    bench.submit("two")
    call(watch, bench.instances[0], bench, "inner one")
    await turn()
    assert bench.outcomes == {}
    call(watch, bench.instances[1], bench, "inner two")
    await turn()
    assert bench.outcomes == {"inner two": Code.UNAVAILABLE}


async def test_an_instance_that_is_being_restarted_will_take_the_call(make_bench: MakeBench, watch: Watch) -> None:
    bench = make_bench(2)
    bench.submit("outer")
    one, other = bench.instances if bench.instances[0].work else bench.instances[::-1]
    other.observer(InstanceState.RESTARTING, "was killed")
    call(watch, one, bench, "inner")
    await turn()
    assert bench.outcomes == {}
    other.observer(InstanceState.FAILED, "was given up")
    await watch.later()
    assert bench.outcomes == {"inner": Code.UNAVAILABLE}


async def test_a_circle_over_two_models_is_found_where_it_closes(make_bench: MakeBench, watch: Watch) -> None:
    one, other = make_bench(), make_bench()
    one.submit("outer")
    call(watch, one.instances[0], other, "there")
    await turn()
    assert other.executing() == ["there"]
    call(watch, other.instances[0], one, "back")
    await turn()
    assert (one.outcomes, other.outcomes) == ({"back": Code.UNAVAILABLE}, {})


async def test_a_call_of_a_decoupled_model_that_has_an_answer_holds_nothing_up(
    make_bench: MakeBench, watch: Watch
) -> None:
    bench = make_bench()
    bench.submit("outer")
    call(watch, bench.instances[0], bench, "inner").answered = True
    await watch.later()
    assert bench.outcomes == {}


async def test_a_call_beside_the_execution_is_told_after_a_while_and_only_where_its_execution_is_known(
    make_bench: MakeBench, watch: Watch
) -> None:
    known, unknown = make_bench(), make_bench()
    for bench in (known, unknown):
        bench.submit("outer")
        call(watch, bench.instances[0], bench, "inner", blocking=False, known=bench is known)
    await turn()
    assert known.outcomes == {}
    await watch.later()
    assert known.outcomes == {"inner": Code.UNAVAILABLE}
    assert unknown.outcomes == {}


async def test_a_call_of_which_its_instance_says_later_that_it_waits_is_told_then(
    make_bench: MakeBench, watch: Watch
) -> None:
    bench = make_bench()
    bench.submit("outer")
    called = call(watch, bench.instances[0], bench, "inner", blocking=False, known=False)
    await watch.later()
    assert bench.outcomes == {}
    called.blocking = True
    await watch.later()
    assert bench.outcomes == {"inner": Code.UNAVAILABLE}


async def test_executions_that_overlap_wait_for_themselves_when_all_of_them_do(
    make_bench: MakeBench, watch: Watch
) -> None:
    bench = make_bench(depth=2, overlaps=True)
    instance = bench.instances[0]
    bench.submit("one")
    bench.submit("two")
    call(watch, instance, bench, "inner", blocking=False)
    await watch.later()
    assert bench.outcomes == {}
    other = bench.submit("inner two")
    watch.called(other)
    instance.open.append(Called(other, instance.work[1][0], blocking=False))
    await watch.later()
    await watch.later()
    assert bench.outcomes == {"inner two": Code.UNAVAILABLE}


async def test_a_call_that_executes_on_the_very_instance_that_it_holds_up_is_told(
    make_bench: MakeBench, watch: Watch
) -> None:
    for decoupled in (False, True):
        bench = make_bench(depth=2, overlaps=True, decoupled=decoupled)
        bench.submit("outer")
        called = call(watch, bench.instances[0], bench, "inner")
        await turn()
        assert bench.outcomes == {"inner": Code.UNAVAILABLE}
        assert bench.instances[0].cancelled == [called.call]


async def test_nothing_is_kept_of_calls_that_are_over(make_bench: MakeBench, watch: Watch) -> None:
    bench = make_bench()
    bench.submit("outer")
    call(watch, bench.instances[0], bench, "inner", blocking=False, known=False)
    await turn()
    assert len(watch._waiting) == 1
    bench.instances[0].open.clear()
    bench.instances[0].finish()
    bench.instances[0].finish()
    assert len(watch._waiting) == 0
