"""The dynamic batcher gives instances what is due, and answers what may not wait any longer."""

from __future__ import annotations

import asyncio
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

import pytest

from infer.backends.api.backend import InstanceState
from infer.backends.api.datatypes import Datatype
from infer.backends.api.errors import Code, FailureReason, QueueFull
from infer.backends.api.response import InferenceResponse
from infer.backends.api.tensor import Tensor
from infer.server.scheduling.ticket import Phase, WaitReason

if TYPE_CHECKING:
    from conftest import Bench, MakeBench

HOUR_US = 3_600_000_000
FREE_INPUT = [{"name": "IN", "data_type": "TYPE_UINT8", "dims": [-1]}]


def shaped(size: int) -> dict[str, Tensor]:
    return {"IN": Tensor(Datatype.UINT8, (1, size), bytes(size))}


@pytest.fixture
async def bench(make_bench: MakeBench) -> Bench:
    return make_bench(batching={})


async def test_a_free_instance_takes_a_request_at_once_where_nothing_is_to_wait_for(bench: Bench) -> None:
    bench.submit("a", 3)
    assert bench.executing() == ["a"]
    assert bench.statistics.pending == 0


async def test_what_waits_for_a_busy_instance_executes_together(bench: Bench) -> None:
    for name in "abcd":
        bench.submit(name)
    assert bench.statistics.pending == 3
    bench.instances[0].finish()
    assert bench.executing() == ["b", "c", "d"]
    bench.instances[0].finish()
    assert [name for name, _ in bench.answers] == ["a", "b", "c", "d"]
    assert bench.statistics.execution_count == 2
    assert (bench.statistics.pending, bench.scheduler.in_flight) == (0, 0)


async def test_a_batch_counts_once_and_its_rows_by_request(bench: Bench) -> None:
    for name, rows in (("a", 1), ("b", 2), ("c", 3)):
        bench.submit(name, rows)
    bench.instances[0].finish()
    bench.instances[0].finish()
    picture = bench.statistics.snapshot()
    assert [(batch.batch_size, batch.compute_infer.count) for batch in picture.batches] == [(1, 1), (5, 1)]
    assert (picture.inference_count, picture.success.count) == (6, 3)


async def test_several_instances_execute_at_once(make_bench: MakeBench) -> None:
    bench = make_bench(2, batching={}, max_batch_size=2)
    for name in "abcdef":
        bench.submit(name)
    assert [bench.executing(0), bench.executing(1)] == [["a"], ["b"]]
    bench.instances[1].finish()
    bench.instances[0].finish()
    assert [bench.executing(0), bench.executing(1)] == [["e", "f"], ["c", "d"]]


async def test_a_batch_grows_while_it_may_wait_and_goes_when_it_is_full(make_bench: MakeBench) -> None:
    bench = make_bench(batching={"max_queue_delay_microseconds": HOUR_US}, max_batch_size=3)
    first = bench.submit("a")
    assert (bench.executing(), first.wait_reason) == ([], WaitReason.BATCH_MAY_GROW)
    bench.submit("b")
    assert bench.executing() == []
    bench.submit("c")
    assert bench.executing() == ["a", "b", "c"]


async def test_a_batch_goes_when_its_delay_is_over(make_bench: MakeBench) -> None:
    bench = make_bench(batching={"max_queue_delay_microseconds": 2000})
    ticket = bench.submit("a")
    bench.submit("b")
    await bench.until(lambda: bool(bench.executing()))
    assert bench.executing() == ["a", "b"]
    assert ticket.execution_start - ticket.queue_start >= 2_000_000


async def test_a_preferred_size_goes_at_once(make_bench: MakeBench) -> None:
    batching = {"preferred_batch_size": [2, 6], "max_queue_delay_microseconds": HOUR_US}
    bench = make_bench(2, batching=batching)
    bench.submit("a")
    bench.submit("b")
    assert bench.executing(0) == ["a", "b"]
    bench.submit("c", 3)
    assert bench.executing(1) == []
    bench.submit("d", 7)
    assert bench.executing(1) == ["c"]


async def test_requests_of_mixed_shapes_execute_with_their_like(make_bench: MakeBench) -> None:
    bench = make_bench(batching={}, inputs=FREE_INPUT)
    bench.submit("busy", inputs=shaped(1))
    for name, size in (("a", 3), ("b", 5), ("c", 3), ("d", 5)):
        bench.submit(name, inputs=shaped(size))
    batches: list[list[str]] = []
    for _ in range(3):
        batches.append(bench.executing())
        bench.instances[0].finish()
    assert batches == [["busy"], ["a", "c"], ["b", "d"]]


def limits(bench: Bench) -> dict[str, int]:
    """What kept batches from being larger, as often as it did."""
    return {limit: count for limit, count in bench.statistics.snapshot().batch_limits.items() if count}


async def test_every_batch_is_counted_by_what_limits_it_also_one_that_skips_the_queue(make_bench: MakeBench) -> None:
    bench = make_bench(batching={}, inputs=FREE_INPUT, max_batch_size=2)
    for name, size in (("skips", 1), ("a", 3), ("b", 5), ("c", 3), ("d", 7)):
        bench.submit(name, inputs=shaped(size))
    batches: list[list[str]] = []
    for _ in range(4):
        batches.append(bench.executing())
        bench.instances[0].finish()
    assert batches == [["skips"], ["a", "c"], ["b"], ["d"]]
    assert limits(bench) == {"no others": 2, "full": 1, "shape differs": 1}
    bench.submit("whole", 2, inputs=shaped(1))
    assert limits(bench) == {"no others": 2, "full": 2, "shape differs": 1}


async def test_a_batch_that_waited_is_counted_with_the_delay_and_one_that_is_ended_with_its_end(
    make_bench: MakeBench,
) -> None:
    bench = make_bench(batching={"max_queue_delay_microseconds": 2000, "preserve_ordering": True}, inputs=FREE_INPUT)
    assert bench.statistics.snapshot().batch_limits["delay over"] == 0
    bench.submit("a", inputs=shaped(3))
    await bench.until(lambda: bool(bench.executing()))
    assert limits(bench) == {"delay over": 1}
    bench.submit("b", inputs=shaped(3))
    bench.submit("c", inputs=shaped(5))
    bench.instances[0].finish()
    assert limits(bench) == {"delay over": 1, "shape differs": 1}


async def test_a_batch_that_is_handed_over_early_is_counted_once(make_bench: MakeBench) -> None:
    bench = make_bench(batching={}, depth=2, max_batch_size=2)
    for name in "abc":
        bench.submit(name)
    assert limits(bench) == {"no others": 1, "full": 1}
    bench.instances[0].finish()
    bench.instances[0].finish()
    assert limits(bench) == {"no others": 1, "full": 1}


async def test_the_hold_keeps_everything_back_until_so_many_requests_wait_and_is_over_then(
    make_bench: MakeBench,
) -> None:
    bench = make_bench(batching={}, hold=3)
    bench.submit("a")
    bench.submit("b")
    assert bench.executing() == []
    bench.submit("c")
    assert bench.executing() == ["a", "b", "c"]
    bench.instances[0].finish()
    bench.submit("d")
    assert bench.executing() == ["d"]


# Limits


async def test_the_queue_is_bounded_to_the_unit(make_bench: MakeBench) -> None:
    bench = make_bench(batching={"default_queue_policy": {"max_queue_size": 2}}, max_batch_size=0)
    for name in "abc":
        bench.submit(name)
    for name in "def":
        with pytest.raises(QueueFull, match=rf"^\[request id: {name}\] Exceeds maximum queue size$"):
            bench.submit(name)
    assert bench.statistics.pending == 2
    for _ in range(3):
        bench.instances[0].finish()
    assert bench.outcomes == {"a": None, "b": None, "c": None}
    picture = bench.statistics.snapshot()
    assert (picture.failures["REJECTED"], picture.fail.count, picture.success.count) == (3, 3, 3)


async def test_a_request_whose_time_is_up_is_answered_while_every_instance_is_busy(make_bench: MakeBench) -> None:
    policy = {"default_timeout_microseconds": 1000}
    bench = make_bench(batching={"default_queue_policy": policy})
    bench.submit("busy")
    bench.submit("a")
    await bench.until(lambda: bool(bench.answers))
    name, response = bench.answers[0]
    assert (name, str(response.error)) == ("a", "Request timeout expired")
    assert bench.outcomes == {"a": Code.UNAVAILABLE}
    assert bench.statistics.snapshot().failures[FailureReason.REJECTED.value] == 1
    assert (bench.statistics.pending, bench.scheduler.in_flight) == (0, 1)


async def test_a_request_whose_time_is_up_never_executes_though_nobody_woke_up_in_time(make_bench: MakeBench) -> None:
    bench = make_bench(batching={"default_queue_policy": {"default_timeout_microseconds": HOUR_US}})
    bench.submit("busy")
    bench.submit("a")
    bench.scheduler._clock = lambda: monotonic_ns() + 2 * HOUR_US * 1000
    bench.instances[0].finish()
    assert bench.outcomes == {"busy": None, "a": Code.UNAVAILABLE}
    assert bench.executing() == []


async def test_a_request_may_shorten_its_time_where_that_is_allowed(make_bench: MakeBench) -> None:
    policy = {"default_timeout_microseconds": HOUR_US, "allow_timeout_override": True}
    bench = make_bench(batching={"default_queue_policy": policy})
    bench.submit("busy")
    bench.submit("patient", timeout_us=HOUR_US * 2)
    bench.submit("hasty", timeout_us=500)
    await bench.until(lambda: bool(bench.answers))
    assert bench.outcomes == {"hasty": Code.UNAVAILABLE}


async def test_a_request_whose_time_is_up_may_be_served_last(make_bench: MakeBench) -> None:
    policy = {"default_timeout_microseconds": HOUR_US, "timeout_action": "DELAY"}
    bench = make_bench(batching={"default_queue_policy": policy}, max_batch_size=0)
    bench.submit("busy")
    bench.submit("late")
    bench.scheduler._clock = lambda: monotonic_ns() + 2 * HOUR_US * 1000
    bench.scheduler._advance()
    bench.scheduler._clock = monotonic_ns
    bench.submit("fresh")
    bench.instances[0].finish()
    assert bench.executing() == ["fresh"]
    bench.instances[0].finish()
    assert bench.executing() == ["late"]


# Priorities


async def test_urgent_requests_overtake_and_equals_keep_their_order(make_bench: MakeBench) -> None:
    bench = make_bench(batching={"priority_levels": 2, "default_priority_level": 2}, max_batch_size=0)
    bench.submit("busy")
    for name, priority in (("v", 2), ("w", 0), ("x", 2), ("a", 1), ("b", 1)):
        bench.submit(name, priority=priority)
    served: list[str] = []
    for _ in range(6):
        served += bench.executing()
        bench.instances[0].finish()
    assert served == ["busy", "a", "b", "v", "w", "x"]


async def test_an_urgent_request_joins_the_batch_that_is_being_formed(make_bench: MakeBench) -> None:
    batching = {
        "priority_levels": 2,
        "default_priority_level": 2,
        "preferred_batch_size": [2],
        "max_queue_delay_microseconds": HOUR_US,
    }
    bench = make_bench(batching=batching)
    bench.submit("low", priority=2)
    bench.submit("high", priority=1)
    assert bench.executing() == ["high", "low"]


# Cancels, deaths


async def test_a_cancelled_request_leaves_and_the_rest_executes(bench: Bench) -> None:
    bench.submit("a")
    ticket = bench.submit("b")
    bench.submit("c")
    ticket.cancel()
    assert bench.outcomes == {"b": Code.CANCELLED}
    bench.instances[0].finish()
    assert bench.executing() == ["c"]


async def test_a_cancel_lets_go_what_waited_for_it(make_bench: MakeBench) -> None:
    batching = {"preferred_batch_size": [4], "max_queue_delay_microseconds": HOUR_US}
    bench = make_bench(batching=batching)
    odd = bench.submit("odd", 1)
    bench.submit("b", 2)
    assert bench.executing() == []
    odd.cancel()
    bench.submit("c", 2)
    assert bench.executing() == ["b", "c"]
    assert bench.scheduler.in_flight == 2


async def test_a_cancel_frees_a_place_in_the_queue(make_bench: MakeBench) -> None:
    bench = make_bench(batching={"default_queue_policy": {"max_queue_size": 1}}, max_batch_size=0)
    bench.submit("a")
    bench.submit("b").cancel()
    bench.submit("c")
    bench.instances[0].finish()
    assert bench.executing() == ["c"]


async def test_a_request_of_a_batch_is_cancelled_without_the_others(bench: Bench) -> None:
    bench.submit("a")
    ticket = bench.submit("b")
    bench.submit("c")
    bench.instances[0].finish()
    ticket.cancel()
    assert bench.instances[0].cancelled == [ticket]
    bench.instances[0].finish()
    assert bench.outcomes == {"a": None, "b": None, "c": None}


async def test_the_error_of_a_batch_reaches_every_request_of_it(bench: Bench) -> None:
    for name in "abc":
        bench.submit(name)
    bench.instances[0].finish()
    bench.instances[0].finish(respond=False)
    assert bench.outcomes == {"a": None, "b": Code.INTERNAL, "c": Code.INTERNAL}


async def test_a_batch_that_dies_fails_and_the_restarted_worker_gets_the_next_one(make_bench: MakeBench) -> None:
    bench = make_bench(2, batching={})
    bench.submit("a")
    bench.submit("b")
    bench.submit("c")
    bench.submit("d")
    bench.instances[0].die("was killed")
    assert bench.outcomes == {"a": Code.INTERNAL}
    bench.instances[0].observer(InstanceState.READY, "")
    assert bench.executing(0) == ["c", "d"]


async def test_closing_leaves_no_timer_behind(make_bench: MakeBench) -> None:
    bench = make_bench(batching={"max_queue_delay_microseconds": HOUR_US})
    bench.submit("a")
    await bench.scheduler.close()
    assert bench.outcomes == {"a": Code.UNAVAILABLE}
    assert bench.scheduler._wakeup._handle is None


# Batches handed over early


async def test_a_lone_instance_gets_its_next_batch_early_when_that_is_complete(make_bench: MakeBench) -> None:
    bench = make_bench(depth=2, batching={}, max_batch_size=2)
    tickets = [bench.submit(name) for name in "abcd"]
    work = bench.instances[0].work
    assert [[each.request.request_id for each in batch.executions] for batch, _ in work] == [["a"], ["b", "c"]]
    assert bench.statistics.pending == 3, "to the world they still wait"
    bench.instances[0].finish()
    assert bench.statistics.pending == 1
    assert tickets[1].phase is Phase.EXECUTING
    bench.instances[0].finish()
    bench.instances[0].finish()
    assert [name for name, _ in bench.answers] == ["a", "b", "c", "d"]
    assert (bench.statistics.pending, bench.scheduler.in_flight) == (0, 0)


async def test_no_more_than_the_next_batch_is_handed_over_early(make_bench: MakeBench) -> None:
    bench = make_bench(depth=8, batching={}, max_batch_size=2)
    for name in "abcdefg":
        bench.submit(name)
    instance = bench.instances[0]
    assert [len(batch.executions) for batch, _ in instance.work] == [1, 2]
    instance.finish()
    assert [len(batch.executions) for batch, _ in instance.work] == [2, 2]


async def test_a_batch_that_may_grow_stays_in_the_queue(make_bench: MakeBench) -> None:
    bench = make_bench(depth=2, batching={}, max_batch_size=3)
    for name in "abc":
        bench.submit(name)
    assert len(bench.instances[0].work) == 1
    bench.submit("d")
    assert len(bench.instances[0].work) == 2


async def test_a_request_handed_over_early_is_cancelled_as_any_other_that_waits(make_bench: MakeBench) -> None:
    bench = make_bench(depth=2, batching={}, max_batch_size=2)
    bench.submit("a")
    ticket = bench.submit("b")
    bench.submit("c")
    ticket.cancel()
    assert bench.outcomes == {"b": Code.CANCELLED}
    assert bench.instances[0].cancelled == [ticket]
    assert bench.statistics.pending == 1
    bench.instances[0].finish()
    bench.instances[0].finish()
    assert bench.outcomes == {"a": None, "b": Code.CANCELLED, "c": None}
    assert (bench.statistics.pending, bench.scheduler.in_flight) == (0, 0)


@pytest.mark.parametrize(
    ("instances", "policy"),
    [(2, {}), (1, {"max_queue_size": 9}), (1, {"default_timeout_microseconds": HOUR_US})],
    ids=["several instances", "a bounded queue", "a time-out"],
)
async def test_nothing_is_handed_over_early_where_waiting_means_something(
    make_bench: MakeBench, instances: int, policy: dict[str, Any]
) -> None:
    bench = make_bench(instances, depth=2, batching={"default_queue_policy": policy}, max_batch_size=2)
    for number in range(instances + 4):
        bench.submit(str(number))
    assert [len(each.work) for each in bench.instances] == [1] * instances
    assert bench.statistics.pending == 4


async def test_a_dying_worker_fails_the_batch_that_it_was_handed_early_too(make_bench: MakeBench) -> None:
    bench = make_bench(depth=2, batching={}, max_batch_size=2)
    for name in "abcd":
        bench.submit(name)
    bench.instances[0].die("was killed")
    assert bench.outcomes == dict.fromkeys("abc", Code.INTERNAL) | {"d": Code.UNAVAILABLE}
    assert (bench.statistics.pending, bench.scheduler.in_flight) == (0, 0)


# Order


async def test_responses_leave_in_the_order_of_their_requests(make_bench: MakeBench) -> None:
    bench = make_bench(2, batching={"preserve_ordering": True}, max_batch_size=0)
    for name in "abc":
        bench.submit(name)
    bench.instances[1].finish()
    bench.instances[1].finish()
    assert bench.answers == []
    bench.instances[0].finish()
    assert [name for name, _ in bench.answers] == ["a", "b", "c"]


async def test_a_stream_holds_back_the_answers_of_later_requests(make_bench: MakeBench) -> None:
    bench = make_bench(2, batching={"preserve_ordering": True}, max_batch_size=0, decoupled=True)
    first, second = bench.submit("a"), bench.submit("b")
    second.send(InferenceResponse(final=False))
    first.send(InferenceResponse(final=False))
    second.send(InferenceResponse())
    assert [name for name, _ in bench.answers] == ["a"]
    first.send(InferenceResponse())
    assert [name for name, _ in bench.answers] == ["a", "a", "b", "b"]


async def test_a_request_that_leaves_the_queue_unserved_does_not_wait_for_its_turn(make_bench: MakeBench) -> None:
    bench = make_bench(batching={"preserve_ordering": True}, max_batch_size=0)
    bench.submit("a")
    bench.submit("b").cancel()
    assert bench.outcomes == {"b": Code.CANCELLED}


async def test_in_order_another_shape_ends_a_batch(make_bench: MakeBench) -> None:
    bench = make_bench(batching={"preserve_ordering": True}, inputs=FREE_INPUT)
    for name, size in (("busy", 1), ("a", 3), ("b", 3), ("c", 5), ("d", 3)):
        bench.submit(name, inputs=shaped(size))
    bench.instances[0].finish()
    assert bench.executing() == ["a", "b"]


@pytest.mark.parametrize("batching", [{}, {"max_queue_delay_microseconds": 300}, {"preferred_batch_size": [3]}])
async def test_two_thousand_requests_with_random_cancels_leave_nothing_behind(
    make_bench: MakeBench, batching: dict[str, Any]
) -> None:
    bench = make_bench(3, batching=batching, inputs=FREE_INPUT)
    tickets = []
    for number in range(2_000):
        tickets.append(bench.submit(str(number), 1 + number % 3, inputs=shaped(1 + number % 2)))
        if number % 5 == 0:
            tickets[number // 2].cancel()
        if number % 2:
            instance = bench.instances[number % 3]
            if instance.work:
                instance.finish()
        if number % 97 == 0:
            await asyncio.sleep(0)
    async with asyncio.timeout(20):
        while bench.scheduler.in_flight:
            await asyncio.sleep(0)
            for instance in bench.instances:
                if instance.work:
                    instance.finish()
    assert len(bench.answers) == 2_000
    picture = bench.statistics.snapshot()
    assert picture.success.count + picture.fail.count == 2_000
    assert picture.fail.count == picture.failures["CANCELED"]
    assert (picture.pending, len(bench.scheduler._queue)) == (0, 0)
    assert sum(batch.batch_size * batch.compute_infer.count for batch in picture.batches) >= picture.inference_count
