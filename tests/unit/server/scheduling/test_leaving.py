"""Instances join and leave under requests: each request has one answer, and no instance goes before its work ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from infer.backends.api.backend import InstanceState
from infer.backends.api.response import InferenceResponse

if TYPE_CHECKING:
    from conftest import Bench, MakeBench

DYNAMIC: dict[str, Any] = {}


def regroup(bench: Bench, added: int, *surplus: int, depth: int = 1) -> None:
    """Have so many instances join and those with these numbers leave."""
    make = type(bench.instances[0])
    joining = {f"m_0_{len(bench.instances) + number}": make(depth) for number in range(added)}
    for instance in joining.values():
        instance.changed = bench.changed
    bench.instances += joining.values()
    scheduler = bench.scheduler
    scheduler.leaving.take(scheduler.instances.regroup(joining, [f"m_0_{index}" for index in surplus]))


async def closed(bench: Bench) -> list[int]:
    """The instances that have been closed, when all are that had nothing left to do."""
    left, bench.scheduler.leaving.slots = bench.scheduler.leaving.slots, []
    await bench.scheduler.leaving.finish()
    bench.scheduler.leaving.slots = left
    return [index for index, instance in enumerate(bench.instances) if instance.closed]


def names(bench: Bench) -> list[str]:
    return [picture.name for picture in bench.scheduler.instances.pictures()]


@pytest.mark.parametrize("batching", [None, DYNAMIC], ids=["default", "dynamic"])
async def test_what_waits_finds_a_new_instance_at_once(make_bench: MakeBench, batching: dict[str, Any] | None) -> None:
    bench = make_bench(1, batching=batching, max_batch_size=1)
    for name in "abcd":
        bench.submit(name)
    assert bench.executing(0) == ["a"]
    regroup(bench, 2)
    assert [bench.executing(index) for index in range(3)] == [["a"], ["b"], ["c"]]
    assert names(bench) == ["m_0_0", "m_0_1", "m_0_2"]
    bench.instances[2].finish()
    assert bench.executing(2) == ["d"]
    for index in range(3):
        bench.instances[index].finish()
    assert bench.outcomes == dict.fromkeys("abcd")
    assert bench.scheduler.in_flight == bench.statistics.pending == 0


@pytest.mark.parametrize("batching", [None, DYNAMIC], ids=["default", "dynamic"])
async def test_an_instance_that_leaves_ends_its_batch_and_gets_no_other(
    make_bench: MakeBench, batching: dict[str, Any] | None
) -> None:
    bench = make_bench(2, batching=batching, max_batch_size=1)
    for name in "abc":
        bench.submit(name)
    assert (bench.executing(0), bench.executing(1)) == (["a"], ["b"])
    regroup(bench, 0, 1)
    assert names(bench) == ["m_0_0"]
    assert await closed(bench) == []
    bench.instances[1].finish()
    assert bench.executing(1) == []
    assert await closed(bench) == [1]
    bench.instances[0].finish()
    assert bench.executing(0) == ["c"]
    bench.instances[0].finish()
    assert [name for name, _ in bench.answers] == ["b", "a", "c"]
    assert await closed(bench) == [1]


async def test_an_idle_instance_leaves_at_once(make_bench: MakeBench) -> None:
    bench = make_bench(3)
    regroup(bench, 1, 0, 2)
    assert await closed(bench) == [0, 2]
    assert names(bench) == ["m_0_1", "m_0_3"]
    bench.submit("a")
    bench.submit("b")
    assert bench.executing(1)
    assert bench.executing(3)
    assert bench.scheduler.instances.all_ready


async def test_one_may_join_under_the_name_of_one_that_leaves(make_bench: MakeBench) -> None:
    bench = make_bench(1)
    bench.submit("a")
    joining = type(bench.instances[0])()
    scheduler = bench.scheduler
    scheduler.leaving.take(scheduler.instances.regroup({"m_0_0": joining}, ["m_0_0"]))
    bench.submit("b")
    assert [each.request.request_id for each in joining.work[0][0].executions] == ["b"]
    bench.instances[0].finish()
    assert await closed(bench) == [0]
    assert not joining.closed
    joining.finish()
    assert bench.outcomes == dict.fromkeys("ab")


@pytest.mark.parametrize("batching", [None, DYNAMIC], ids=["default", "dynamic"])
async def test_what_a_lone_instance_was_handed_early_stays_with_it_and_with_several_nothing_is(
    make_bench: MakeBench, batching: dict[str, Any] | None
) -> None:
    bench = make_bench(1, depth=4, batching=batching, max_batch_size=1)
    bench.submit("first")
    bench.instances[0].finish()
    for name in "abc":
        bench.submit(name)
    early = len(bench.instances[0].work)
    assert early > 1
    regroup(bench, 1, depth=4)
    for name in "de":
        bench.submit(name)
    assert len(bench.instances[0].work) == early
    assert len(bench.instances[1].work) == 1
    for _ in range(early):
        bench.instances[0].finish()
    assert len(bench.instances[0].work) <= 1, "one at a time"
    while bench.scheduler.in_flight:
        for instance in bench.instances:
            if instance.work:
                instance.finish()
    assert bench.outcomes == dict.fromkeys(["first", *"abcde"])
    assert bench.statistics.pending == 0


async def test_one_that_was_left_alone_is_handed_requests_early(make_bench: MakeBench) -> None:
    bench = make_bench(2, depth=4)
    regroup(bench, 0, 1)
    bench.submit("first")
    bench.instances[0].finish()
    for name in "abc":
        bench.submit(name)
    assert len(bench.instances[0].work) == 3


async def test_an_instance_that_leaves_ends_also_what_it_was_handed_early(make_bench: MakeBench) -> None:
    bench = make_bench(1, depth=4)
    bench.submit("first")
    bench.instances[0].finish()
    for name in "abc":
        bench.submit(name)
    assert len(bench.instances[0].work) == 3
    regroup(bench, 1, 0)
    assert bench.statistics.pending == 2, "two of them wait for their turn"
    for left in (2, 1, 0):
        assert await closed(bench) == []
        bench.instances[0].finish()
        assert len(bench.instances[0].work) == left
    assert await closed(bench) == [0]
    assert bench.outcomes == dict.fromkeys(["first", *"abc"])
    assert bench.statistics.pending == 0


async def test_a_decoupled_model_leaves_when_its_last_response_is_sent(make_bench: MakeBench) -> None:
    bench = make_bench(2, decoupled=True)
    ticket = bench.submit("a")
    leaving = next(index for index, instance in enumerate(bench.instances) if instance.work)
    bench.instances[leaving].finish(respond=False)
    regroup(bench, 0, leaving)
    assert await closed(bench) == [], "it still answers"
    ticket.send(InferenceResponse(final=False))
    assert await closed(bench) == []
    ticket.send(InferenceResponse())
    assert await closed(bench) == [leaving]


async def test_an_instance_that_dies_while_it_leaves_fails_its_requests_and_is_closed(make_bench: MakeBench) -> None:
    bench = make_bench(2)
    bench.submit("a")
    leaving = next(index for index, instance in enumerate(bench.instances) if instance.work)
    regroup(bench, 0, leaving)
    bench.instances[leaving].die("was killed")
    assert "was killed" in str(bench.answers[0][1].error)
    assert await closed(bench) == [leaving]
    bench.instances[leaving].observer(InstanceState.READY, "")
    assert bench.scheduler.instances.all_ready
    assert bench.submit("b").instance is bench.instances[1 - leaving]


async def test_the_end_closes_what_leaves_and_answers_what_it_had(make_bench: MakeBench) -> None:
    bench = make_bench(2)
    bench.submit("a")
    bench.submit("b")
    regroup(bench, 0, 0)
    await bench.scheduler.close()
    assert [instance.closed for instance in bench.instances] == [True, True]
    assert all(code is not None for code in bench.outcomes.values())


async def test_health_is_told_anew_when_instances_have_joined(make_bench: MakeBench) -> None:
    bench = make_bench(1)
    bench.instances[0].observer(InstanceState.FAILED, "was killed too often")
    before = bench.health
    assert not bench.scheduler.instances.any_ready
    regroup(bench, 1)
    assert bench.health > before
    assert bench.scheduler.instances.any_ready
    assert not bench.scheduler.instances.all_ready
    regroup(bench, 0, 0)
    assert bench.scheduler.instances.all_ready
