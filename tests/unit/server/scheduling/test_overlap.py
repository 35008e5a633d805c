"""Instances whose executions overlap: they take requests as long as they have places, and end them in any order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from infer.backends.api.backend import InstanceState
from infer.backends.api.errors import Code

if TYPE_CHECKING:
    from conftest import Bench, MakeBench


@pytest.fixture(params=[None, {}], ids=["default", "dynamic"])
async def bench(make_bench: MakeBench, request: pytest.FixtureRequest) -> Bench:
    """One instance with three places."""
    return make_bench(depth=3, overlaps=True, batching=request.param)


def executing(bench: Bench) -> list[list[Any]]:
    return [
        [execution.request.request_id for batch, _ in instance.work for execution in batch.executions]
        for instance in bench.instances
    ]


async def test_requests_execute_at_once_until_every_place_is_taken(bench: Bench) -> None:
    for name in "abcd":
        bench.submit(name)
    assert executing(bench) == [["a", "b", "c"]]
    assert (bench.statistics.pending, bench.scheduler.in_flight) == (1, 4)
    bench.instances[0].finish(1)
    assert bench.outcomes == {"b": None}
    assert executing(bench) == [["a", "c", "d"]]
    assert bench.statistics.pending == 0


async def test_executions_end_in_any_order_and_each_is_counted_with_its_own_times(bench: Bench) -> None:
    for name in "abc":
        bench.submit(name)
    for index, took_ns in ((2, 300), (0, 100), (0, 200)):
        bench.instances[0].finish(index, took_ns=took_ns)
    assert [name for name, _ in bench.answers] == ["c", "a", "b"]
    picture = bench.statistics.snapshot()
    assert (picture.execution_count, picture.inference_count) == (3, 3)
    assert bench.scheduler.in_flight == 0
    assert len(bench.scheduler.instances.idle) == 1


async def test_an_execution_without_a_response_fails_alone(bench: Bench) -> None:
    bench.submit("a")
    bench.submit("b")
    bench.instances[0].finish(1, respond=False)
    assert bench.outcomes == {"b": Code.INTERNAL}
    bench.instances[0].finish()
    assert bench.outcomes == {"b": Code.INTERNAL, "a": None}


async def test_several_instances_take_requests_in_turn(make_bench: MakeBench) -> None:
    bench = make_bench(2, depth=2, overlaps=True)
    for name in "abcde":
        bench.submit(name)
    assert executing(bench) == [["a", "c"], ["b", "d"]]
    bench.instances[1].finish()
    assert executing(bench) == [["a", "c"], ["d", "e"]]
    assert bench.statistics.pending == 0


async def test_a_cancelled_request_is_told_to_the_instance_wherever_it_stands(bench: Bench) -> None:
    tickets = [bench.submit(name) for name in "abcd"]
    tickets[1].cancel()
    tickets[3].cancel()
    assert bench.instances[0].cancelled == [tickets[1]]
    assert bench.outcomes == {"d": Code.CANCELLED}
    assert bench.statistics.pending == 0


async def test_a_dying_worker_fails_all_of_its_executions(bench: Bench) -> None:
    for name in "abcd":
        bench.submit(name)
    bench.instances[0].die("was killed")
    assert bench.outcomes == {"a": Code.INTERNAL, "b": Code.INTERNAL, "c": Code.INTERNAL, "d": Code.UNAVAILABLE}
    bench.instances[0].observer(InstanceState.READY, "")
    for name in "efgh":
        bench.submit(name)
    assert executing(bench) == [["e", "f", "g"]]


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
