"""A threaded instance blocks on its own thread, never loses a request, and leaves no thread behind."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from infer.backends.api.backend import Batch, ThreadInstance
from infer.backends.api.datatypes import Datatype
from infer.backends.api.errors import BackendFailure, Code, InvalidArgument
from infer.backends.api.request import InferenceRequest
from infer.backends.api.response import InferenceResponse
from infer.backends.api.tensor import Tensor
from infer.server.scheduling import instances
from infer.server.scheduling.instances import WINDOW, ThreadedInstance

if TYPE_CHECKING:
    from collections.abc import Callable


class Scripted(ThreadInstance):
    """An instance that does what the test tells it."""

    def __init__(self, execute: Callable[[Batch], None], *, load: Callable[[], None] = lambda: None) -> None:
        self._execute = execute
        self._load = load
        self.threads: list[str] = []
        self.closed = False

    def load(self) -> None:
        self.threads.append(threading.current_thread().name)
        self._load()

    def execute(self, batch: Batch) -> None:
        self.threads.append(threading.current_thread().name)
        self._execute(batch)

    def close(self) -> None:
        self.closed = True


class Execution:
    """A request that remembers its responses."""

    def __init__(self) -> None:
        self.request = InferenceRequest("m", {})
        self.cancelled = False
        self.paused = False
        self.responses: list[InferenceResponse] = []
        self.marks: list[int] = []

    def reschedule(self, mark: int) -> None:
        assert threading.current_thread() is threading.main_thread()
        self.marks.append(mark)

    def send(self, response: InferenceResponse) -> None:
        assert threading.current_thread() is threading.main_thread()
        self.responses.append(response)


async def run(instance: Scripted, *, decoupled: bool = False) -> list[InferenceResponse]:
    threaded = ThreadedInstance("m_0_0", instance, asyncio.get_running_loop(), decoupled=decoupled)
    execution = Execution()
    await threaded.load()
    done = asyncio.Event()
    threaded.execute(Batch((execution,), 1), done.set)
    await done.wait()
    await threaded.close()
    assert instance.closed
    assert "instance-m_0_0" not in {thread.name for thread in threading.enumerate()}
    return execution.responses


async def test_load_and_execute_share_a_named_thread_and_the_loop_sends() -> None:
    instance = Scripted(lambda batch: batch.executions[0].send(InferenceResponse(parameters={"a": 1})))
    responses = await run(instance)
    assert instance.threads == ["instance-m_0_0", "instance-m_0_0"]
    assert [response.parameters for response in responses] == [{"a": 1}]


async def test_an_exception_becomes_the_error_of_every_open_request() -> None:
    def fail(batch: Batch) -> None:
        raise ZeroDivisionError("division by zero")

    responses = await run(Scripted(fail))
    assert str(responses[0].error) == "ZeroDivisionError: division by zero"
    assert responses[0].error.code is Code.INTERNAL


async def test_an_error_of_our_vocabulary_keeps_its_code() -> None:
    def fail(batch: Batch) -> None:
        raise InvalidArgument("no such axis")

    responses = await run(Scripted(fail))
    assert responses[0].error.code is Code.INVALID_ARG


async def test_a_forgotten_request_is_answered_with_an_error() -> None:
    responses = await run(Scripted(lambda batch: None))
    assert "without a response" in str(responses[0].error)


async def test_decoupled_responses_arrive_in_order() -> None:
    def respond(batch: Batch) -> None:
        for index in range(5):
            batch.executions[0].send(InferenceResponse(parameters={"i": index}, final=index == 4))

    responses = await run(Scripted(respond), decoupled=True)
    assert [response.parameters["i"] for response in responses] == [0, 1, 2, 3, 4]


class SlowlyRead(Execution):
    """A request whose reader has no room after each response until it says so."""

    def send(self, response: InferenceResponse) -> None:
        super().send(response)
        self.paused = not self.cancelled


def pours(batch: Batch) -> None:
    for _ in range(10 * WINDOW):
        batch.executions[0].send(InferenceResponse(final=False))
    batch.executions[0].send(InferenceResponse())


async def until(true: Callable[[], bool]) -> None:
    for _ in range(20_000):
        if true():
            return
        await asyncio.sleep(0.001)
    pytest.fail("it does not happen")


async def test_a_thread_that_sends_faster_than_its_reader_reads_waits() -> None:
    threaded = ThreadedInstance("m_0_0", Scripted(pours), asyncio.get_running_loop(), decoupled=True)
    await threaded.load()
    slow, done = SlowlyRead(), asyncio.Event()
    threaded.execute(Batch((slow,), 1), done.set)
    for round_ in range(1, 4):
        await until(lambda round_=round_: len(slow.responses) == round_ * WINDOW)
        await asyncio.sleep(0.02)
        assert len(slow.responses) == round_ * WINDOW
        slow.paused = False
        threaded.resume(slow)
        threaded.resume(slow)
    slow.cancelled = True
    slow.paused = False
    threaded.resume(slow)
    await until(done.is_set)
    assert len(slow.responses) == 10 * WINDOW + 1
    await threaded.close()


@pytest.mark.parametrize("decoupled", [False, True])
async def test_a_request_may_come_again_unless_it_has_its_response_or_its_batch_fails(*, decoupled: bool) -> None:
    def give_back(batch: Batch) -> None:
        for execution in batch.executions:
            execution.reschedule(5)
        batch.executions[1].send(InferenceResponse())

    def fail(batch: Batch) -> None:
        give_back(batch)
        raise ZeroDivisionError("division by zero")

    for execute, marks, errors in ((give_back, [5], []), (fail, [], ["ZeroDivisionError: division by zero"])):
        threaded = ThreadedInstance("m_0_0", Scripted(execute), asyncio.get_running_loop(), decoupled=decoupled)
        again, answered = Execution(), Execution()
        await threaded.load()
        done = asyncio.Event()
        threaded.execute(Batch((again, answered), 2), done.set)
        await done.wait()
        await threaded.close()
        assert (again.marks, [str(response.error) for response in again.responses]) == (marks, errors)
        assert (answered.marks, len(answered.responses)) == ([], 1)


async def test_a_failed_load_raises_and_still_closes() -> None:
    def fail() -> None:
        raise RuntimeError("no such file")

    instance = Scripted(lambda batch: None, load=fail)
    threaded = ThreadedInstance("m_0_0", instance, asyncio.get_running_loop())
    with pytest.raises(BackendFailure, match="RuntimeError: no such file"):
        await threaded.load()
    await threaded.close()
    assert instance.closed


async def test_closing_what_was_never_loaded_does_nothing() -> None:
    instance = Scripted(lambda batch: None)
    await ThreadedInstance("m_0_0", instance, asyncio.get_running_loop()).close()
    assert not instance.closed


async def test_an_instance_reads_that_one_of_its_requests_was_cancelled() -> None:
    seen: list[bool] = []

    def execute(batch: Batch) -> None:
        for execution in batch.executions:
            seen.append(execution.cancelled)
            execution.send(InferenceResponse())

    threaded = ThreadedInstance("m_0_0", Scripted(execute), asyncio.get_running_loop())
    cancelled, wanted = Execution(), Execution()
    cancelled.cancelled = True
    threaded.cancel(cancelled)
    await threaded.load()
    done = asyncio.Event()
    threaded.execute(Batch((cancelled, wanted), 2), done.set)
    await done.wait()
    await threaded.close()
    assert seen == [True, False]


async def test_a_batch_that_nobody_waits_for_any_more_is_not_executed() -> None:
    executed: list[Batch] = []
    threaded = ThreadedInstance("m_0_0", Scripted(executed.append), asyncio.get_running_loop())
    execution = Execution()
    execution.cancelled = True
    await threaded.load()
    done = asyncio.Event()
    batch = Batch((execution,), 1)
    threaded.execute(batch, done.set)
    await done.wait()
    await threaded.close()
    assert executed == []
    assert [response.error.code if response.error else None for response in execution.responses] == [Code.CANCELLED]
    assert batch.compute_end == 0, "it does not count as an execution"


async def test_what_is_sent_after_the_final_response_is_given_back_and_not_delivered() -> None:
    released: list[str] = []
    late = Tensor(Datatype.UINT8, (1,), b"\0", release=lambda: released.append("late"))

    def respond_twice(batch: Batch) -> None:
        batch.executions[0].send(InferenceResponse(parameters={"first": True}))
        batch.executions[0].send(InferenceResponse({"OUT": late}))

    responses = await run(Scripted(respond_twice))
    assert [response.parameters for response in responses] == [{"first": True}]
    assert released == ["late"]


async def test_a_runtime_that_does_not_close_cleanly_is_logged_and_its_thread_still_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Stubborn(Scripted):
        def close(self) -> None:
            super().close()
            raise OSError("device busy")

    await run(Stubborn(lambda batch: batch.executions[0].send(InferenceResponse())))
    assert "instance 'm_0_0' did not close cleanly: OSError: device busy" in caplog.text


async def test_a_thread_that_is_stuck_in_its_runtime_is_left_behind_with_a_word(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(instances, "CLOSE_TIMEOUT_S", 0)
    reached, go_on = threading.Event(), threading.Event()

    def hang(batch: Batch) -> None:
        reached.set()
        go_on.wait()
        batch.executions[0].send(InferenceResponse())

    loop = asyncio.get_running_loop()
    instance = Scripted(hang)
    threaded = ThreadedInstance("m_0_0", instance, loop)
    await threaded.load()
    done = asyncio.Event()
    threaded.execute(Batch((Execution(),), 1), done.set)
    assert await loop.run_in_executor(None, reached.wait, 10)
    await threaded.close()
    assert "instance 'm_0_0' is stuck in its runtime and is left behind" in caplog.text
    assert not instance.closed
    go_on.set()
    await done.wait()
    await loop.run_in_executor(None, threaded._thread.join, 10)
    assert instance.closed


async def test_a_decoupled_instance_that_raises_half_way_ends_the_request_with_its_error() -> None:
    def fail_half_way(batch: Batch) -> None:
        batch.executions[0].send(InferenceResponse(parameters={"i": 0}, final=False))
        raise RuntimeError("out of words")

    responses = await run(Scripted(fail_half_way), decoupled=True)
    assert [response.final for response in responses] == [False, True]
    assert str(responses[1].error) == "RuntimeError: out of words"
