"""The default scheduler gives one request to one free instance, and loses none when instances or clients go."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from infer.backends.api.backend import Batch, InstanceState, LoopInstance
from infer.backends.api.errors import Code, InstanceDied, Unavailable, Unsupported
from infer.backends.api.request import InferenceRequest
from infer.backends.api.response import InferenceResponse
from infer.server.observe.statistics import ModelStatistics
from infer.server.scheduling.default import DefaultScheduler
from infer.server.scheduling.ticket import WaitReason

if TYPE_CHECKING:
    from collections.abc import Callable

    from infer.server.scheduling.ticket import Ticket


class FakeInstance(LoopInstance):
    """An instance whose work ends when the test says so."""

    def __init__(self, depth: int = 1) -> None:
        self.depth = depth
        self.work: list[tuple[Batch, Callable[[], None]]] = []
        self.cancelled: list[object] = []
        self.interrupted: list[str] = []
        self.closed = False
        self.observer: Callable[[InstanceState, str], None] = lambda state, reason: None

    async def load(self) -> None:
        return

    def execute(self, batch: Batch, done: Callable[[], None]) -> None:
        self.work.append((batch, done))

    def cancel(self, execution: object) -> None:
        self.cancelled.append(execution)

    def interrupt(self, reason: str) -> None:
        self.interrupted.append(reason)

    async def close(self) -> None:
        self.closed = True

    def observe_state(self, observer: Callable[[InstanceState, str], None]) -> None:
        self.observer = observer

    def finish(self, *, respond: bool = True, took_ns: int = 1) -> None:
        batch, done = self.work.pop(0)
        batch.compute_start, batch.compute_end = 1, 1 + took_ns
        if respond:
            for execution in batch.executions:
                execution.send(InferenceResponse())
        done()

    def die(self, reason: str) -> None:
        work, self.work = self.work, []
        for batch, _ in work:
            for execution in batch.executions:
                execution.send(InferenceResponse(error=InstanceDied(reason)))
        self.observer(InstanceState.RESTARTING, reason)
        for _, done in work:
            done()


class Bench:
    """A scheduler over some fake instances."""

    def __init__(self, instances: int = 1, *, depth: int = 1, **options: object) -> None:
        self.instances = [FakeInstance(depth) for _ in range(instances)]
        self.statistics = ModelStatistics("m", 1)
        self.health = 0
        named = {f"m_0_{index}": instance for index, instance in enumerate(self.instances)}
        loop = asyncio.get_running_loop()
        self.scheduler = DefaultScheduler(named, self.statistics, loop, on_health=self._changed, **options)
        self.answers: list[tuple[str, InferenceResponse]] = []
        self.ended: asyncio.Future[None] = loop.create_future()

    def _changed(self) -> None:
        self.health += 1
        if not self.ended.done():
            self.ended.set_result(None)

    def submit(self, request_id: str) -> Ticket:
        request = InferenceRequest("m", {}, request_id=request_id)
        return self.scheduler.submit(request, lambda response: self.answers.append((request_id, response)))

    @property
    def outcomes(self) -> dict[str, Code | None]:
        return {name: response.error.code if response.error else None for name, response in self.answers}


@pytest.fixture
async def bench() -> Bench:
    return Bench()


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


async def test_a_waiting_request_knows_why() -> None:
    bench = Bench(2)
    executing = bench.submit("a")
    bench.submit("b")
    assert executing.wait_reason is WaitReason.NONE
    assert bench.submit("c").wait_reason is WaitReason.ALL_INSTANCES_BUSY
    bench.instances[0].die("was killed")
    assert bench.submit("d").wait_reason is WaitReason.SOME_RESTARTING


async def test_two_instances_execute_two_requests_at_once() -> None:
    bench = Bench(2)
    bench.submit("a")
    bench.submit("b")
    assert [len(instance.work) for instance in bench.instances] == [1, 1]


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
    assert not bench.scheduler.any_ready
    assert bench.health == 1


async def test_a_restarted_worker_takes_requests_again(bench: Bench) -> None:
    bench.instances[0].die("was killed")
    with pytest.raises(Unavailable, match="was killed"):
        bench.submit("a")
    bench.instances[0].observer(InstanceState.READY, "")
    bench.submit("b")
    bench.instances[0].finish()
    assert bench.outcomes == {"b": None}
    assert bench.scheduler.all_ready


async def test_the_others_go_on_when_one_of_two_workers_dies() -> None:
    bench = Bench(2)
    for name in "abc":
        bench.submit(name)
    dead, alive = (bench.instances[0], bench.instances[1])
    dead.die("was killed")
    assert bench.scheduler.any_ready
    assert not bench.scheduler.all_ready
    alive.finish()
    alive.finish()
    assert sorted(bench.outcomes.values(), key=str) == [Code.INTERNAL, None, None]


async def test_drain_waits_for_the_last_answer_and_takes_nothing_more(bench: Bench) -> None:
    bench.submit("a")
    bench.submit("b")
    drained = asyncio.ensure_future(bench.scheduler.drain())
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


async def test_an_execution_beyond_the_time_out_fails_and_shows_until_it_comes_back() -> None:
    bench = Bench(execute_timeout_s=0.01)
    bench.submit("a")
    bench.submit("b")
    await bench.ended
    assert bench.outcomes == {"a": Code.UNAVAILABLE, "b": Code.UNAVAILABLE}
    assert "--execute-timeout" in bench.scheduler.reason
    assert bench.instances[0].interrupted
    bench.instances[0].finish()
    assert bench.scheduler.all_ready
    bench.submit("c")
    bench.instances[0].finish()
    assert bench.outcomes["c"] is None


async def test_a_decoupled_request_may_outlive_its_batch() -> None:
    bench = Bench(decoupled=True)
    ticket = bench.submit("a")
    batch, done = bench.instances[0].work.pop()
    done()
    bench.submit("b")
    assert len(bench.instances[0].work) == 1
    ticket.cancel()
    assert bench.instances[0].cancelled == [ticket]
    batch.executions[0].send(InferenceResponse())
    assert bench.outcomes == {"a": None}


async def test_a_lone_instance_gets_its_next_request_early_while_executions_are_short() -> None:
    bench = Bench(depth=2)
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


async def test_a_request_handed_over_early_waits_and_is_cancelled_as_any_other_that_waits() -> None:
    bench = Bench(depth=2)
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


async def test_a_long_execution_keeps_what_follows_in_the_queue() -> None:
    bench = Bench(depth=2)
    instance = bench.instances[0]
    for name in "abc":
        bench.submit(name)
    instance.finish(took_ns=2_000_000)
    assert len(instance.work) == 1
    waiting = bench.submit("d")
    waiting.cancel()
    assert bench.outcomes["d"] is Code.CANCELLED


async def test_several_instances_are_never_handed_requests_early() -> None:
    bench = Bench(2, depth=2)
    for name in "abcd":
        bench.submit(name)
    for instance in bench.instances:
        instance.finish()
        assert len(instance.work) == 1


async def test_both_requests_that_a_dying_worker_holds_fail() -> None:
    bench = Bench(depth=2)
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


async def test_the_time_out_of_a_request_handed_over_early_begins_when_it_is_its_turn() -> None:
    bench = Bench(depth=2, execute_timeout_s=0.01)
    for name in "ab":
        bench.submit(name)
    bench.instances[0].finish()
    bench.submit("c")
    assert len(bench.instances[0].work) == 2
    await bench.ended
    assert bench.outcomes == {"a": None, "b": Code.UNAVAILABLE, "c": Code.UNAVAILABLE}


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
) -> None:
    bench = Bench(2)

    async def fail() -> None:
        raise OSError("device busy")

    bench.instances[0].close = fail
    await bench.scheduler.close()
    assert bench.instances[1].closed
    assert "instance 'm_0_0' did not close cleanly" in caplog.text


async def test_a_time_out_that_is_running_ends_with_the_scheduler() -> None:
    bench = Bench(execute_timeout_s=1000)
    bench.submit("a")
    (slot,) = bench.scheduler.slots
    timer = slot.timer
    await bench.scheduler.close()
    assert timer.cancelled()
    assert bench.outcomes == {"a": Code.UNAVAILABLE}
