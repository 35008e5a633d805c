"""Whatever the scheduler: no request is lost when instances or clients go, and the end is clean."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import pytest

from infer.backends.api.backend import Batch, InstanceState
from infer.backends.api.errors import Code, Unavailable, Unsupported
from infer.backends.api.request import InferenceRequest
from infer.backends.api.response import InferenceResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Bench, MakeBench


SEQUENCES = {"iterative_sequence": True, "oldest": {"max_candidate_sequences": 4000}}


@pytest.fixture(params=["default", "dynamic", "sequence"])
def make_bench(request: pytest.FixtureRequest, make_bench: MakeBench) -> MakeBench:
    """Make a scheduler of each kind; the batchers give every request a batch (and a sequence) of its own."""
    if request.param == "default":
        return make_bench
    if request.param == "sequence":
        return partial(make_bench, sequences=SEQUENCES, max_batch_size=0)
    return partial(make_bench, batching={}, max_batch_size=0)


@pytest.fixture
async def bench(make_bench: MakeBench) -> Bench:
    return make_bench()


async def test_a_cancelled_request_leaves_the_queue_with_a_response(bench: Bench) -> None:
    bench.submit("a")
    waiting = bench.submit("b")
    waiting.cancel()
    assert bench.outcomes == {"b": Code.CANCELLED}
    bench.instances[0].finish()
    assert len(bench.instances[0].work) == 0
    assert bench.statistics.pending == 0
    assert bench.scheduler.in_flight == 0


async def test_the_instance_hears_of_the_cancel_of_what_it_executes(bench: Bench) -> None:
    ticket = bench.submit("a")
    ticket.cancel()
    assert bench.instances[0].cancelled == [ticket]
    assert bench.answers == []
    bench.instances[0].finish()
    assert len(bench.answers) == 1


async def test_an_instance_that_returns_without_a_response_fails_its_request(bench: Bench) -> None:
    bench.submit("a")
    bench.instances[0].finish(respond=False)
    assert bench.outcomes == {"a": Code.INTERNAL}


async def test_requests_of_a_dead_worker_and_those_behind_it_fail_at_once(bench: Bench) -> None:
    for name in "abc":
        bench.submit(name)
    bench.instances[0].die("was killed by signal 9")
    assert bench.outcomes == {"a": Code.INTERNAL, "b": Code.UNAVAILABLE, "c": Code.UNAVAILABLE}
    assert "was killed by signal 9" in str(bench.answers[1][1].error)
    assert not bench.scheduler.instances.any_ready
    assert bench.health == 1


async def test_a_restarted_worker_takes_requests_again(bench: Bench) -> None:
    bench.instances[0].die("was killed")
    with pytest.raises(Unavailable, match="was killed"):
        bench.submit("a")
    bench.instances[0].observer(InstanceState.READY, "")
    bench.submit("b")
    bench.instances[0].finish()
    assert bench.outcomes == {"b": None}
    assert bench.scheduler.instances.all_ready


async def test_the_others_go_on_when_one_of_two_workers_dies(make_bench: MakeBench) -> None:
    bench = make_bench(2)
    for name in "abc":
        bench.submit(name)
    dead, alive = (bench.instances[0], bench.instances[1])
    dead.die("was killed")
    assert bench.scheduler.instances.any_ready
    assert not bench.scheduler.instances.all_ready
    alive.finish()
    alive.finish()
    assert sorted(bench.outcomes.values(), key=str) == [Code.INTERNAL, None, None]


async def test_drain_waits_for_the_last_answer_and_takes_nothing_more(bench: Bench) -> None:
    bench.submit("a")
    bench.submit("b")
    bench.scheduler.accepting = False
    drained = asyncio.ensure_future(bench.scheduler.wait_idle())
    await asyncio.sleep(0)
    with pytest.raises(Unavailable, match="stopped accepting"):
        bench.submit("c")
    bench.instances[0].finish()
    await asyncio.sleep(0)
    assert not drained.done()
    bench.instances[0].finish()
    await drained


async def test_close_answers_what_is_still_in_flight(bench: Bench) -> None:
    bench.submit("a")
    bench.submit("b")
    await bench.scheduler.close()
    assert bench.outcomes == {"a": Code.UNAVAILABLE, "b": Code.UNAVAILABLE}
    assert bench.instances[0].closed
    assert bench.scheduler.in_flight == 0


async def test_an_execution_beyond_the_time_out_fails_and_shows_until_it_comes_back(make_bench: MakeBench) -> None:
    bench = make_bench(execute_timeout_s=0.01)
    bench.submit("a")
    bench.submit("b")
    await bench.ended
    assert bench.outcomes == {"a": Code.UNAVAILABLE, "b": Code.UNAVAILABLE}
    assert "--execute-timeout" in bench.scheduler.instances.reason
    assert bench.instances[0].interrupted
    bench.instances[0].finish()
    assert bench.scheduler.instances.all_ready
    bench.submit("c")
    bench.instances[0].finish()
    assert bench.outcomes["c"] is None


async def test_a_decoupled_request_may_outlive_its_batch(make_bench: MakeBench) -> None:
    bench = make_bench(decoupled=True)
    ticket = bench.submit("a")
    batch, done = bench.instances[0].work.pop()
    done()
    bench.submit("b")
    assert len(bench.instances[0].work) == 1
    ticket.cancel()
    assert bench.instances[0].cancelled == [ticket]
    batch.executions[0].send(InferenceResponse())
    assert bench.outcomes == {"a": None}


async def test_requests_that_an_instance_refuses_fail_however_many_wait(bench: Bench) -> None:
    instance = bench.instances[0]
    for number in range(3000):
        bench.submit(str(number))

    def refuse(batch: Batch, done: Callable[[], None]) -> None:
        raise Unsupported("this tensor is on another device")

    instance.execute = refuse
    instance.finish()
    assert len(bench.answers) == 3000
    assert bench.outcomes["0"] is None
    assert {code for name, code in bench.outcomes.items() if name != "0"} == {Code.UNSUPPORTED}
    assert (bench.statistics.pending, bench.scheduler.in_flight) == (0, 0)


async def test_an_instance_that_refused_a_request_takes_the_next_one(bench: Bench) -> None:
    instance = bench.instances[0]
    take, refusals = instance.execute, [Unsupported("not this one")]

    def refuse_once(batch: Batch, done: Callable[[], None]) -> None:
        if refusals:
            raise refusals.pop()
        take(batch, done)

    instance.execute = refuse_once
    bench.submit("a")
    bench.submit("b")
    instance.finish()
    assert bench.outcomes == {"a": Code.UNSUPPORTED, "b": None}


async def test_a_request_that_is_sent_again_when_it_is_refused_does_not_wait_for_ever(bench: Bench) -> None:
    instance = bench.instances[0]
    take, refusals = instance.execute, [Unsupported("not this one")]

    def refuse_once(batch: Batch, done: Callable[[], None]) -> None:
        if refusals:
            raise refusals.pop()
        take(batch, done)

    instance.execute = refuse_once
    bench.scheduler.submit(InferenceRequest("m", {}), lambda response: bench.submit("again") and None)
    instance.finish()
    assert bench.outcomes == {"again": None}


async def test_a_cancel_of_what_has_its_answer_does_nothing(bench: Bench) -> None:
    ticket = bench.submit("a")
    bench.instances[0].finish()
    ticket.cancel()
    assert bench.instances[0].cancelled == []


async def test_an_instance_that_does_not_close_cleanly_is_logged_and_the_others_are_closed(
    caplog: pytest.LogCaptureFixture,
    make_bench: MakeBench,
) -> None:
    bench = make_bench(2)

    async def fail() -> None:
        raise OSError("device busy")

    bench.instances[0].close = fail
    await bench.scheduler.close()
    assert bench.instances[1].closed
    assert "instance 'm_0_0' did not close cleanly" in caplog.text


async def test_a_time_out_that_is_running_ends_with_the_scheduler(make_bench: MakeBench) -> None:
    bench = make_bench(execute_timeout_s=1000)
    bench.submit("a")
    (slot,) = bench.scheduler.instances.slots
    (timer,) = slot.timers.values()
    await bench.scheduler.close()
    assert timer.cancelled()
    assert bench.outcomes == {"a": Code.UNAVAILABLE}
