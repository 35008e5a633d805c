"""Instances: what a picture says of each, whose turn it is, and executions that overlap and end in any order."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from infer.backends.api.backend import InstanceState
from infer.backends.api.errors import Code

if TYPE_CHECKING:
    from conftest import Bench, MakeBench

    from infer.server.scheduling.pool import InstancePicture


@pytest.fixture
async def bench(make_bench: MakeBench) -> Bench:
    return make_bench(2)


def states(bench: Bench) -> list[str]:
    return [picture.state for picture in bench.scheduler.instances.pictures()]


def first(bench: Bench) -> InstancePicture:
    return bench.scheduler.instances.pictures()[0]


async def test_instances_are_idle_until_they_have_a_batch_and_again_afterwards(bench: Bench) -> None:
    assert states(bench) == ["idle", "idle"]
    bench.submit("a")
    assert sorted(states(bench)) == ["busy", "idle"]
    bench.submit("b")
    assert states(bench) == ["busy", "busy"]
    for instance in bench.instances:
        instance.finish()
    assert states(bench) == ["idle", "idle"]


async def test_an_instance_has_its_name_and_the_pid_of_its_worker_if_it_has_one(bench: Bench) -> None:
    assert [(each.name, each.pid) for each in bench.scheduler.instances.pictures()] == [("m_0_0", 0), ("m_0_1", 0)]


async def test_a_worker_that_died_restarts_and_that_is_counted_when_it_is_back(bench: Bench) -> None:
    observer = bench.instances[0].observer
    for restarts in (1, 2):
        observer(InstanceState.RESTARTING, "was killed")
        observer(InstanceState.RESTARTING, "was killed by signal 9")
        assert (first(bench).state, first(bench).restarts) == ("restarting", restarts - 1)
        observer(InstanceState.READY, "")
        assert (first(bench).state, first(bench).restarts) == ("idle", restarts)


async def test_a_worker_that_was_given_up_is_dead(bench: Bench) -> None:
    bench.instances[0].observer(InstanceState.RESTARTING, "was killed")
    bench.instances[0].observer(InstanceState.FAILED, "was killed too often")
    assert states(bench) == ["dead", "idle"]
    assert first(bench).restarts == 0


async def test_an_instance_that_is_late_is_dead_until_it_comes_back_which_is_no_restart(make_bench: MakeBench) -> None:
    bench = make_bench(1, execute_timeout_s=0.001)
    bench.submit("a")
    await bench.ended
    assert states(bench) == ["dead"]
    bench.instances[0].finish(respond=False)
    assert (first(bench).state, first(bench).restarts) == ("idle", 0)


async def test_a_batch_that_is_done_before_its_turn_leaves_the_one_before_it_alone(make_bench: MakeBench) -> None:
    bench = make_bench(1, depth=2)
    bench.submit("a")
    bench.instances[0].finish()
    for name in "bcd":
        bench.submit(name)
    bench.instances[0].finish(1)
    assert bench.outcomes == {"a": None, "c": None}
    assert bench.executing() == ["b"]
    assert bench.statistics.pending == 1
    for _ in "bd":
        bench.instances[0].finish()
    assert bench.outcomes == {"a": None, "c": None, "b": None, "d": None}
    assert (bench.statistics.pending, bench.scheduler.in_flight) == (0, 0)


async def test_a_line_about_an_instance_names_its_model(
    make_bench: MakeBench, caplog: pytest.LogCaptureFixture
) -> None:
    bench = make_bench(1, execute_timeout_s=0.001)
    with caplog.at_level(logging.ERROR, "infer.scheduling"):
        bench.submit("a")
        await bench.ended
    (record,) = caplog.records
    facts = vars(record)
    assert (facts["model"], facts["version"], facts["instance"]) == ("m", 1, "m_0_0")
    bench.instances[0].finish(respond=False)


# -- executions that overlap --------------------------------------------------------------------------------------


@pytest.fixture(params=[None, {}], ids=["default", "dynamic"])
async def overlapping(make_bench: MakeBench, request: pytest.FixtureRequest) -> Bench:
    """One instance with three places."""
    return make_bench(depth=3, overlaps=True, batching=request.param)


def executing(bench: Bench) -> list[list[Any]]:
    return [
        [execution.request.request_id for batch, _ in instance.work for execution in batch.executions]
        for instance in bench.instances
    ]


async def test_requests_execute_at_once_until_every_place_is_taken(overlapping: Bench) -> None:
    for name in "abcd":
        overlapping.submit(name)
    assert executing(overlapping) == [["a", "b", "c"]]
    assert (overlapping.statistics.pending, overlapping.scheduler.in_flight) == (1, 4)
    overlapping.instances[0].finish(1)
    assert overlapping.outcomes == {"b": None}
    assert executing(overlapping) == [["a", "c", "d"]]
    assert overlapping.statistics.pending == 0


async def test_executions_end_in_any_order_and_each_is_counted_with_its_own_times(overlapping: Bench) -> None:
    for name in "abc":
        overlapping.submit(name)
    for index, took_ns in ((2, 300), (0, 100), (0, 200)):
        overlapping.instances[0].finish(index, took_ns=took_ns)
    assert [name for name, _ in overlapping.answers] == ["c", "a", "b"]
    picture = overlapping.statistics.snapshot()
    assert (picture.execution_count, picture.inference_count) == (3, 3)
    assert overlapping.scheduler.in_flight == 0
    assert len(overlapping.scheduler.instances.idle) == 1


async def test_an_execution_without_a_response_fails_alone(overlapping: Bench) -> None:
    overlapping.submit("a")
    overlapping.submit("b")
    overlapping.instances[0].finish(1, respond=False)
    assert overlapping.outcomes == {"b": Code.INTERNAL}
    overlapping.instances[0].finish()
    assert overlapping.outcomes == {"b": Code.INTERNAL, "a": None}


async def test_several_instances_take_requests_in_turn(make_bench: MakeBench) -> None:
    bench = make_bench(2, depth=2, overlaps=True)
    for name in "abcde":
        bench.submit(name)
    assert executing(bench) == [["a", "c"], ["b", "d"]]
    bench.instances[1].finish()
    assert executing(bench) == [["a", "c"], ["d", "e"]]
    assert bench.statistics.pending == 0


async def test_a_cancelled_request_is_told_to_the_instance_wherever_it_stands(overlapping: Bench) -> None:
    tickets = [overlapping.submit(name) for name in "abcd"]
    tickets[1].cancel()
    tickets[3].cancel()
    assert overlapping.instances[0].cancelled == [tickets[1]]
    assert overlapping.outcomes == {"d": Code.CANCELLED}
    assert overlapping.statistics.pending == 0


async def test_a_dying_worker_fails_all_of_its_executions(overlapping: Bench) -> None:
    for name in "abcd":
        overlapping.submit(name)
    overlapping.instances[0].die("was killed")
    assert overlapping.outcomes == {"a": Code.INTERNAL, "b": Code.INTERNAL, "c": Code.INTERNAL, "d": Code.UNAVAILABLE}
    overlapping.instances[0].observer(InstanceState.READY, "")
    for name in "efgh":
        overlapping.submit(name)
    assert executing(overlapping) == [["e", "f", "g"]]


async def test_each_execution_has_a_time_out_of_its_own_and_one_that_is_late_takes_the_others_with_it(
    make_bench: MakeBench,
) -> None:
    bench = make_bench(depth=3, overlaps=True, execute_timeout_s=0.02)
    bench.submit("a")
    bench.submit("b")
    bench.instances[0].finish(1)
    (slot,) = bench.scheduler.instances.slots
    assert len(slot.timers) == 1
    bench.submit("c")
    await bench.ended
    assert bench.outcomes == {"b": None, "a": Code.UNAVAILABLE, "c": Code.UNAVAILABLE}
    assert len(bench.instances[0].interrupted) == 1
    assert slot.timers == {}


async def test_places_of_a_decoupled_model_are_free_when_its_execute_is_over(make_bench: MakeBench) -> None:
    bench = make_bench(depth=2, overlaps=True, decoupled=True)
    for name in "abc":
        bench.submit(name)
    bench.instances[0].finish(respond=False)
    assert executing(bench) == [["b", "c"]]
    assert (bench.outcomes, bench.scheduler.in_flight) == ({}, 3)
