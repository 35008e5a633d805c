"""The default scheduler gives one request to one free instance, early where that saves time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from infer.backends.api.backend import InstanceState
from infer.backends.api.errors import Code
from infer.server.scheduling.default import room_after
from infer.server.scheduling.ticket import WaitReason

if TYPE_CHECKING:
    from conftest import Bench, MakeBench


@pytest.fixture
async def bench(make_bench: MakeBench) -> Bench:
    return make_bench()


async def test_a_free_instance_takes_a_request_at_once(bench: Bench) -> None:
    bench.submit("a")
    assert len(bench.instances[0].work) == 1
    bench.instances[0].finish()
    assert bench.outcomes == {"a": None}


async def test_requests_wait_for_a_busy_instance_in_their_order(bench: Bench) -> None:
    for name in "abc":
        bench.submit(name)
    assert bench.statistics.pending == 2
    for _ in range(3):
        bench.instances[0].finish()
    assert [name for name, _ in bench.answers] == ["a", "b", "c"]
    assert bench.statistics.pending == 0
    assert bench.statistics.execution_count == 3


async def test_a_waiting_request_knows_why(make_bench: MakeBench) -> None:
    bench = make_bench(2)
    executing = bench.submit("a")
    bench.submit("b")
    assert executing.wait_reason is WaitReason.NONE
    assert bench.submit("c").wait_reason is WaitReason.ALL_INSTANCES_BUSY
    bench.instances[0].die("was killed")
    assert bench.submit("d").wait_reason is WaitReason.SOME_RESTARTING


async def test_two_instances_execute_two_requests_at_once(make_bench: MakeBench) -> None:
    bench = make_bench(2)
    bench.submit("a")
    bench.submit("b")
    assert [len(instance.work) for instance in bench.instances] == [1, 1]


async def test_a_lone_instance_gets_its_next_request_early_while_executions_are_short(make_bench: MakeBench) -> None:
    bench = make_bench(depth=2)
    instance = bench.instances[0]
    for name in "abcde":
        bench.submit(name)
    assert len(instance.work) == 1
    assert bench.statistics.pending == 4
    instance.finish()
    assert len(instance.work) == 2
    # To the world the second still waits: its turn has not come.
    assert bench.statistics.pending == 3
    for _ in range(4):
        instance.finish()
    assert [name for name, _ in bench.answers] == list("abcde")
    assert bench.scheduler.in_flight == 0
    bench.submit("f")
    bench.submit("g")
    assert len(instance.work) == 2


@pytest.mark.parametrize(
    ("took_ns", "depth", "room"),
    [
        (0, 8, 1),
        (1, 8, 8),
        (100_000, 8, 8),
        (250_000, 8, 4),
        (250_000, 3, 3),
        (600_000, 8, 2),
        (999_999, 8, 2),
        (999_999, 1, 1),
        (1_000_000, 8, 1),
        (-5, 8, 1),
    ],
)
def test_an_instance_may_have_what_it_executes_within_a_millisecond(took_ns: int, depth: int, room: int) -> None:
    assert room_after(took_ns, depth) == room


async def test_a_lone_instance_gets_several_requests_early_as_far_as_they_are_short(make_bench: MakeBench) -> None:
    bench = make_bench(depth=8)
    instance = bench.instances[0]
    names = "abcdefghijkl"
    for name in names:
        bench.submit(name)
    instance.finish(took_ns=300_000)
    assert len(instance.work) == 3
    instance.finish(took_ns=100_000)
    assert len(instance.work) == 8
    assert bench.statistics.pending == 9, "but one they all still wait"
    instance.finish(took_ns=2_000_000)
    assert len(instance.work) == 7, "what is with the instance stays there, and nothing follows"
    while instance.work:
        instance.finish(took_ns=100_000)
    assert [name for name, _ in bench.answers] == list(names)
    assert (bench.statistics.pending, bench.scheduler.in_flight) == (0, 0)


async def test_a_request_handed_over_early_waits_and_is_cancelled_as_any_other_that_waits(
    make_bench: MakeBench,
) -> None:
    bench = make_bench(depth=2)
    instance = bench.instances[0]
    for name in "abcd":
        ticket = bench.submit(name)
        if name == "c":
            early = ticket
    instance.finish()
    assert len(instance.work) == 2
    assert bench.statistics.pending == 2
    early.cancel()
    assert bench.outcomes == {"a": None, "c": Code.CANCELLED}
    assert instance.cancelled == [early]
    assert bench.statistics.pending == 1
    instance.finish()
    instance.finish()
    instance.finish()
    assert bench.outcomes == {"a": None, "b": None, "c": Code.CANCELLED, "d": None}
    assert (bench.statistics.pending, bench.scheduler.in_flight) == (0, 0)
    assert bench.statistics.snapshot().failures["CANCELED"] == 1


async def test_a_long_execution_keeps_what_follows_in_the_queue(make_bench: MakeBench) -> None:
    bench = make_bench(depth=2)
    instance = bench.instances[0]
    for name in "abc":
        bench.submit(name)
    instance.finish(took_ns=2_000_000)
    assert len(instance.work) == 1
    waiting = bench.submit("d")
    waiting.cancel()
    assert bench.outcomes["d"] is Code.CANCELLED


async def test_several_instances_are_never_handed_requests_early(make_bench: MakeBench) -> None:
    bench = make_bench(2, depth=2)
    for name in "abcd":
        bench.submit(name)
    for instance in bench.instances:
        instance.finish()
        assert len(instance.work) == 1


async def test_both_requests_that_a_dying_worker_holds_fail(make_bench: MakeBench) -> None:
    bench = make_bench(depth=2)
    for name in "abcd":
        bench.submit(name)
    bench.instances[0].finish()
    assert len(bench.instances[0].work) == 2
    bench.instances[0].die("was killed")
    assert bench.outcomes == {"a": None, "b": Code.INTERNAL, "c": Code.INTERNAL, "d": Code.UNAVAILABLE}
    bench.instances[0].observer(InstanceState.READY, "")
    bench.submit("e")
    bench.instances[0].finish()
    assert bench.outcomes["e"] is None


async def test_the_time_out_of_a_request_handed_over_early_begins_when_it_is_its_turn(make_bench: MakeBench) -> None:
    bench = make_bench(depth=2, execute_timeout_s=0.01)
    for name in "ab":
        bench.submit(name)
    bench.instances[0].finish()
    bench.submit("c")
    assert len(bench.instances[0].work) == 2
    await bench.ended
    assert bench.outcomes == {"a": None, "b": Code.UNAVAILABLE, "c": Code.UNAVAILABLE}
