"""The channel between server and worker: many responses, calls, cancels, forks, deaths, and peers that misbehave."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pytest

from infer.backends.api.backend import InstanceState
from infer.backends.api.errors import Code, InstanceDied, InvalidArgument
from infer.backends.api.response import InferenceResponse
from infer.backends.api.tensor import Tensor
from infer.backends.python.worker import frames

if TYPE_CHECKING:
    from collections.abc import Callable

    from infer.backends.api.request import InferenceRequest

    Rig = Any

IN_BOTH_MODES = True
DECOUPLED = {"model_transaction_policy": {"decoupled": True}}
REPEAT = """
class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for value in by_name(request, "IN").as_numpy():
                sender.send(Response([T("OUT", np.full(SIZE, value, np.int32))]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
ADD = """
class TritonPythonModel:
    def execute(self, requests):
        return [Response([T("OUT", by_name(request, "IN").as_numpy() + 1)]) for request in requests]
"""
SLOW = """
class TritonPythonModel:
    def execute(self, requests):
        print("executing")
        threading.Event().wait()
"""


def ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, dtype=np.int32)


def value(response: InferenceResponse) -> list[int]:
    assert response.error is None, response.error
    return response.outputs["OUT"].as_numpy().tolist()


def double(request: InferenceRequest, respond: Callable[[InferenceResponse], None]) -> None:
    """A model to call: twice its input."""
    respond(InferenceResponse({"OUT": Tensor.from_numpy(request.inputs["IN"].as_numpy() * 2)}))


# -- decoupled ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "size"), [(0, 1), (1, 1), (7, 1), (200, 1), (40, 50_000)])
async def test_a_decoupled_model_sends_any_number_of_responses_in_order_and_an_empty_final_one(
    rig: Rig, count: int, size: int
) -> None:
    instance = await rig.load("repeat", f"SIZE = {size}\n{REPEAT}", **DECOUPLED)
    (execution,), done = rig.execute(instance, rig.request(IN=np.arange(count, dtype=np.int32)))
    responses = await execution.end()
    await asyncio.wait_for(done, 20)
    assert [response.outputs["OUT"].as_numpy()[0] for response in responses[:-1]] == list(range(count))
    assert all(not response.final for response in responses[:-1])
    assert responses[-1].final
    assert responses[-1].is_empty


async def test_the_next_batch_starts_while_responses_of_the_last_one_still_come(rig: Rig) -> None:
    source = """
class TritonPythonModel:
    go, senders = threading.Event(), []
    def execute(self, requests):
        self.senders.append(requests[0].get_response_sender())
        if len(self.senders) == 2:
            def answer():
                for number, sender in enumerate(reversed(self.senders)):
                    sender.send(Response([T("OUT", np.array([number], np.int32))]), flags=1)
            threading.Thread(target=answer).start()
"""
    instance = await rig.load("later", source, **DECOUPLED)
    (first,), done = rig.execute(instance, rig.request(IN=ints(1)))
    await asyncio.wait_for(done, 20)
    assert not first.responses
    (second,), done = rig.execute(instance, rig.request(IN=ints(2)))
    assert [value(each) for each in await second.end()] == [[0]]
    assert [value(each) for each in await first.end()] == [[1]]


async def test_a_decoupled_execute_must_return_none_and_its_exception_ends_what_is_open(rig: Rig) -> None:
    source = """
class TritonPythonModel:
    def execute(self, requests):
        requests[0].get_response_sender().send(flags=1)
        if len(requests) == 2:
            raise ValueError("half way")
        return []
"""
    instance = await rig.load("wrong", source, **DECOUPLED)
    (first, second), done = rig.execute(instance, rig.request(IN=ints(1)), rig.request(IN=ints(2)))
    await asyncio.wait_for(done, 20)
    assert (await first.end())[0].is_empty
    assert "ValueError: half way" in str((await second.end())[0].error)


async def test_a_decoupled_model_that_returns_a_list_is_told_not_to(rig: Rig) -> None:
    source = """
class TritonPythonModel:
    def execute(self, requests):
        return []
"""
    instance = await rig.load("lister", source, **DECOUPLED)
    (execution,), _ = rig.execute(instance, rig.request(IN=ints(1)))
    (response,) = await execution.end()
    assert "'lister_0_0' is using the decoupled mode and the execute function must return None" in str(response.error)


async def test_a_sender_that_is_dropped_open_ends_its_request(rig: Rig) -> None:
    source = """
class TritonPythonModel:
    def execute(self, requests):
        requests[0].get_response_sender().send(Response([T("OUT", np.array([1], np.int32))]))
"""
    instance = await rig.load("forgetful", source, **DECOUPLED)
    (execution,), _ = rig.execute(instance, rig.request(IN=ints(1)))
    first, last = await execution.end()
    assert value(first) == [1]
    assert "without sending its final response" in str(last.error)


# -- cancel -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [DECOUPLED, {}])
async def test_a_model_sees_that_its_request_was_cancelled(rig: Rig, policy: dict[str, Any]) -> None:
    source = """
class TritonPythonModel:
    def execute(self, requests):
        (request,) = requests
        sender = request.get_response_sender()
        while not (request.is_cancelled() and sender.is_cancelled()):
            time.sleep(0.001)
        error = pb_utils.TritonError("stopped", pb_utils.TritonError.CANCELLED)
        sender.send(Response(error=error), flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
    instance = await rig.load("patient", source, **policy)
    (execution,), done = rig.execute(instance, rig.request(IN=ints(1)))
    instance.cancel(execution)
    (response,) = await execution.end()
    await asyncio.wait_for(done, 20)
    assert response.error is not None
    assert response.error.code is Code.CANCELLED


# -- calls to other models ----------------------------------------------------------------------------------------

BLS = """
def call(array, name="double", **more):
    return pb_utils.InferenceRequest(
        model_name=name, inputs=[T("IN", array)], requested_output_names=["OUT"], **more)

def out(response):
    if response.has_error():
        raise pb_utils.TritonModelException(response.error().message())
    return pb_utils.get_output_tensor_by_name(response, "OUT").as_numpy()
"""


@pytest.mark.parametrize("size", [1, 100_000])
async def test_a_model_calls_another_model_from_inside_execute(rig: Rig, size: int) -> None:
    source = """
class TritonPythonModel:
    def execute(self, requests):
        request = call(by_name(requests[0], "IN").as_numpy(), request_id="r", correlation_id=7, flags=1, timeout=9,
                       parameters={"p": 1})
        return [Response([T("OUT", out(request.exec()) + out(request.exec()))])]
"""
    rig.caller.models["double"] = double
    instance = await rig.load("caller", BLS + source)
    response = await rig.infer(instance, IN=np.full(size, 3, dtype=np.int32))
    assert set(value(response)) == {12}
    seen = rig.caller.requests[0]
    assert (seen.model_name, seen.model_version, seen.request_id, seen.requested_outputs) == (
        "double",
        None,
        "r",
        ("OUT",),
    )
    assert (seen.correlation_id, seen.flags, seen.timeout_us, seen.parameters) == (7, 1, 9, {"p": 1})


async def test_a_call_that_fails_is_an_error_response_with_the_code_of_its_cause(rig: Rig) -> None:
    source = """
class TritonPythonModel:
    def execute(self, requests):
        texts = []
        for name in ("nobody", "refuses"):
            response = call(np.zeros(1, np.int32), name).exec()
            error = response.error()
            texts.append(f"{response.has_error()} {error.code().name} {error.message()} {response.output_tensors()}")
        return [Response([T("OUT", np.array(texts, dtype=np.object_))])]
"""
    rig.caller.models["refuses"] = lambda _, respond: respond(InferenceResponse(error=InvalidArgument("no")))
    instance = await rig.load("caller", BLS + source)
    texts = (await rig.infer(instance, IN=ints(1))).outputs["OUT"].as_numpy().tolist()
    assert texts == [
        (
            b"True NOT_FOUND Model nobody - Error when running inference: "
            b"Request for unknown model: 'nobody' is not found []"
        ),
        b"True INVALID_ARG no []",
    ]


async def test_many_calls_may_be_under_way_at_once_from_coroutines_and_threads(rig: Rig) -> None:
    source = """
import asyncio
from concurrent.futures import ThreadPoolExecutor
class TritonPythonModel:
    async def execute(self, requests):
        some = await asyncio.gather(*[call(np.array([n], np.int32)).async_exec() for n in range(20)])
        with ThreadPoolExecutor(8) as pool:
            more = list(pool.map(lambda n: call(np.array([n], np.int32)).exec(), range(20, 40)))
        return [Response([T("OUT", np.concatenate([out(each) for each in some + more]))])]
"""
    held: list[tuple[InferenceRequest, Callable[[InferenceResponse], None]]] = []

    def hold(request: InferenceRequest, respond: Callable[[InferenceResponse], None]) -> None:
        # Answers arrive in another order than the calls.
        held.append((request, respond))
        if len(held) == 2:
            for each in reversed(held):
                double(*each)
            held.clear()

    rig.caller.models["double"] = hold
    instance = await rig.load("caller", BLS + source)
    assert value(await rig.infer(instance, IN=ints(1))) == [2 * n for n in range(40)]


@pytest.mark.parametrize("count", [0, 3, 100])
async def test_the_responses_of_a_decoupled_call_are_iterated_and_kept(rig: Rig, count: int) -> None:
    source = """
class TritonPythonModel:
    def execute(self, requests):
        responses = call(np.zeros(1, np.int32), "many").exec(decoupled=True)
        first = [r for r in responses]
        again = [r for r in responses]
        values = [int(out(r)[0]) for r in first if r.output_tensors()]
        assert [id(r) for r in first] == [id(r) for r in again]
        responses.cancel()
        return [Response([T("OUT", np.array(values + [len(first)], np.int32))])]
"""

    def many(_: InferenceRequest, respond: Callable[[InferenceResponse], None]) -> None:
        for number in range(count):
            respond(InferenceResponse({"OUT": Tensor.from_numpy(ints(number))}, final=False))
        respond(InferenceResponse())

    rig.caller.models["many"] = many
    instance = await rig.load("caller", BLS + source)
    assert value(await rig.infer(instance, IN=ints(1))) == [*range(count), count + 1]


async def test_responses_that_a_model_does_not_want_pass_by_and_the_call_ends(rig: Rig) -> None:
    source = """
class TritonPythonModel:
    def execute(self, requests):
        responses = call(np.zeros(1, np.int32), "many").exec(decoupled=True)
        first = next(iter(responses))
        del responses
        return [Response([T("OUT", out(first))])]
"""
    respond_later: list[Callable[[InferenceResponse], None]] = []

    def many(_: InferenceRequest, respond: Callable[[InferenceResponse], None]) -> None:
        for number in range(60):
            respond(InferenceResponse({"OUT": Tensor.from_numpy(np.full(20_000, number, np.int32))}, final=False))
        respond_later.append(respond)

    rig.caller.models["many"] = many
    instance = await rig.load("caller", BLS + source)
    assert value(await rig.infer(instance, IN=ints(1)))[0] == 0
    (book,) = instance._books
    assert len(book) == 1
    respond_later[0](InferenceResponse())
    rig.caller.models["double"] = double
    for _ in range(100):
        if not len(book):
            break
        await asyncio.sleep(0.01)
    assert not len(book)


async def test_the_server_is_told_whether_a_call_takes_more_than_one_response(rig: Rig) -> None:
    source = """
import asyncio
async def both():
    return await call(np.zeros(1, np.int32)).async_exec(), await call(np.zeros(1, np.int32)).async_exec(decoupled=True)
class TritonPythonModel:
    def execute(self, requests):
        call(np.zeros(1, np.int32)).exec()
        call(np.zeros(1, np.int32)).exec(decoupled=True)
        asyncio.run(both())
        return [Response([T("OUT", np.zeros(1, np.int32))])]
"""
    rig.caller.models["double"] = double
    instance = await rig.load("caller", BLS + source)
    await rig.infer(instance, IN=ints(1))
    assert rig.caller.single == [True, False, True, False]


async def test_the_coroutines_of_a_decoupled_model_overlap_and_one_that_raises_is_logged_and_ends_its_request(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    source = """
import asyncio
class TritonPythonModel:
    other = None
    async def execute(self, requests):
        sender = requests[0].get_response_sender()
        if by_name(requests[0], "IN").as_numpy()[0] == 0:
            self.other = asyncio.get_running_loop().create_future()
            await self.other
            sender.send(Response([T("OUT", np.array([7], np.int32))]), flags=1)
        else:
            self.other.set_result(None)
            raise ValueError("no good")
"""
    instance = await rig.load("background", source, **DECOUPLED)
    (waits,), done = rig.execute(instance, rig.request(IN=ints(0)))
    await asyncio.wait_for(done, 20)
    assert not waits.responses
    (fails,), _ = rig.execute(instance, rig.request(IN=ints(1)))
    assert [value(each) for each in await waits.end()] == [[7]]
    (response,) = await fails.end()
    assert "the model let go of the request without sending its final response" in str(response.error)
    (line,) = [record.getMessage() for record in caplog.records if "no good" in record.getMessage()]
    assert line.startswith("Error encountered in 'background_0_0' while executing: ValueError: no good\n\nAt:\n")
    assert "model.py" in line


async def test_a_call_that_the_model_cancels_is_cancelled(rig: Rig) -> None:
    source = """
class TritonPythonModel:
    def execute(self, requests):
        responses = call(np.zeros(1, np.int32), "endless").exec(decoupled=True)
        responses.cancel()
        (_, last) = list(responses)
        return [Response([T("OUT", np.array([last.error().code()], np.int32))])]
"""
    answers: list[Callable[[InferenceResponse], None]] = []

    def endless(_: InferenceRequest, respond: Callable[[InferenceResponse], None]) -> None:
        respond(InferenceResponse({"OUT": Tensor.from_numpy(ints(1))}, final=False))
        answers.append(respond)

    class Handle:
        def cancel(self) -> None:
            from infer.backends.api.errors import Cancelled

            answers[0](InferenceResponse(error=Cancelled("stopped")))

    class CancellingCaller:
        def call(
            self, request: InferenceRequest, on_response: Callable[[InferenceResponse], None], **_: bool
        ) -> Handle:
            endless(request, on_response)
            return Handle()

    object.__setattr__(rig.backend.context, "caller", CancellingCaller())
    instance = await rig.load("caller", BLS + source)
    assert value(await rig.infer(instance, IN=ints(1))) == [Code.CANCELLED]


async def test_calls_are_refused_outside_of_execute(rig: Rig) -> None:
    source = """
class TritonPythonModel:
    def initialize(self, args):
        try:
            call(np.zeros(1, np.int32)).exec()
        except pb_utils.TritonModelException as exc:
            self.text = str(exc)
    def execute(self, requests):
        return [Response([T("OUT", np.array([self.text], dtype=np.object_))])]
"""
    instance = await rig.load("early", BLS + source)
    text = (await rig.infer(instance, IN=ints(1))).outputs["OUT"].as_numpy()[0]
    assert text == b"BLS is only supported during the 'execute' function."


@pytest.mark.own_process
async def test_forked_children_of_a_model_call_over_channels_of_their_own(rig: Rig) -> None:
    source = """
import multiprocessing
def work(numbers):
    results = [int(out(call(np.array([n], np.int32)).exec())[0]) for n in numbers]
    pb_utils.Logger.log_info(f"child {os.getpid()}")
    return results
class TritonPythonModel:
    def execute(self, requests):
        assert int(out(call(np.array([1], np.int32)).exec())[0]) == 2
        with multiprocessing.get_context("fork").Pool(4) as pool:
            parts = pool.map(work, [list(range(n, 200, 4)) for n in range(4)], chunksize=1)
        return [Response([T("OUT", np.array(sorted(sum(parts, [])), np.int32))])]
"""
    rig.caller.models["double"] = double
    instance = await rig.load("forker", BLS + source)
    for _ in range(2):
        assert value(await rig.infer(instance, IN=ints(1))) == [2 * n for n in range(200)]


# -- bad days -----------------------------------------------------------------------------------------------------


@pytest.mark.own_process
async def test_the_requests_of_a_killed_worker_fail_at_once_and_it_comes_back(rig: Rig) -> None:
    instance = await rig.load("slow", SLOW)
    (one, two), done = rig.execute(instance, rig.request(IN=ints(1)), rig.request(IN=ints(2)))
    started = rig.loop.time()
    os.kill(instance.pid, signal.SIGKILL)
    for execution in (one, two):
        (response,) = await execution.end()
        assert isinstance(response.error, InstanceDied)
        assert response.error.message.startswith("Stub process 'slow_0_0' is not healthy.")
    await asyncio.wait_for(done, 20)
    assert rig.loop.time() - started < 1
    assert rig.states[0][0] is InstanceState.RESTARTING
    await rig.until_state(InstanceState.READY)
    assert instance.pid
    assert instance._batches.open_count == 0


@pytest.mark.own_process
async def test_a_model_that_ends_its_process_is_quoted_and_what_it_forked_goes_with_it(rig: Rig) -> None:
    source = """
import subprocess
class TritonPythonModel:
    def execute(self, requests):
        if by_name(requests[0], "IN").as_numpy()[0] == 0:
            self.child = subprocess.Popen(["sleep", "1000"])
            return [Response([T("OUT", np.array([self.child.pid], np.int32))])]
        print("out of luck", file=sys.stderr)
        os._exit(7)
"""
    instance = await rig.load("quitter", source)
    (child,) = value(await rig.infer(instance, IN=ints(0)))
    sleeper = psutil.Process(child)
    error = await rig.error(instance, IN=ints(1))
    assert isinstance(error, InstanceDied)
    assert "out of luck" in error.message
    await rig.until_state(InstanceState.READY)
    assert not sleeper.is_running() or sleeper.status() == psutil.STATUS_ZOMBIE


@pytest.mark.own_process
async def test_a_worker_that_cannot_come_back_is_given_up_with_its_reason(rig: Rig) -> None:
    source = f"""
if os.path.exists("{rig.folder}/flag"):
    raise RuntimeError("the weights are gone")
{SLOW}
"""
    instance = await rig.load("doomed", source)
    (rig.folder / "flag").touch()
    os.kill(instance.pid, signal.SIGKILL)
    assert "the weights are gone" in await rig.until_state(InstanceState.FAILED)
    assert isinstance(await rig.error(instance, IN=ints(1)), InstanceDied)


@pytest.mark.own_process
async def test_a_killed_zygote_takes_its_workers_and_a_new_one_brings_them_back(rig: Rig) -> None:
    instance = await rig.load("slow", SLOW)
    (execution,), _ = rig.execute(instance, rig.request(IN=ints(1)))
    zygote = rig.backend.zygote.pid
    os.kill(zygote, signal.SIGKILL)
    (response,) = await execution.end()
    assert isinstance(response.error, InstanceDied)
    await rig.until_state(InstanceState.READY)
    assert rig.backend.zygote.pid not in (0, zygote)
    other = await rig.load("add", ADD)
    assert value(await rig.infer(other, IN=ints(1))) == [2]


@pytest.mark.own_process
async def test_signals_of_a_terminal_do_not_reach_zygote_and_workers(rig: Rig) -> None:
    instance = await rig.load("add", ADD)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(rig.backend.zygote.pid, number)
        os.kill(instance.pid, number)
    assert value(await rig.infer(instance, IN=ints(1))) == [2]


@pytest.mark.own_process
async def test_an_execute_that_is_interrupted_ends_with_the_reason_and_its_worker_comes_back(rig: Rig) -> None:
    instance = await rig.load("slow", SLOW)
    (execution,), _ = rig.execute(instance, rig.request(IN=ints(1)))
    instance.interrupt("did not come back within 5 s")
    (response,) = await execution.end()
    assert "It did not come back within 5 s." in str(response.error)
    await rig.until_state(InstanceState.READY)


@pytest.mark.own_process
async def test_a_worker_that_still_executes_is_ended_at_once_when_it_is_closed(rig: Rig) -> None:
    instance = await rig.load("slow", SLOW)
    (execution,), _ = rig.execute(instance, rig.request(IN=ints(1)))
    await asyncio.wait_for(instance.close(), 5)
    (response,) = await execution.end()
    assert "It was stopped" in str(response.error)


async def test_a_second_batch_may_wait_in_the_channel_and_be_cancelled_there(rig: Rig) -> None:
    source = f"""
class TritonPythonModel:
    def execute(self, requests):
        (request,) = requests
        open("{rig.folder}/begun", "w").close()
        while by_name(request, "IN").as_numpy()[0] == 0 and not request.is_cancelled():
            time.sleep(0.001)
        return [Response([T("OUT", np.array([request.is_cancelled()], np.int32))])]
"""
    instance = await rig.load("patient", source)
    (first,), _ = rig.execute(instance, rig.request(IN=ints(0)))
    (second,), _ = rig.execute(instance, rig.request(IN=ints(1)))
    for _ in range(2000):
        if (rig.folder / "begun").exists():
            break
        await asyncio.sleep(0.01)
    instance.cancel(second)
    instance.cancel(first)
    assert value((await first.end())[0]) == [1]
    (response,) = await second.end()
    assert response.error is not None
    assert response.error.code is Code.CANCELLED


async def test_a_small_batch_never_overtakes_a_large_one_that_is_still_being_copied(rig: Rig) -> None:
    source = """
class TritonPythonModel:
    def execute(self, requests):
        return [Response([T("OUT", np.array([by_name(r, "IN").as_numpy().size]))]) for r in requests]
"""
    instance = await rig.load("size", source)
    order: list[int] = []
    sizes = (3_000_000, 1, 2_000_000, 2)
    runs = [rig.execute(instance, rig.request(IN=np.zeros(size, np.uint8))) for size in sizes]
    for number, (_, done) in enumerate(runs):
        done.add_done_callback(lambda _, number=number: order.append(number))
    for size, (executions, done) in zip(sizes, runs, strict=True):
        await asyncio.wait_for(done, 20)
        (response,) = await executions[0].end()
        assert response.outputs["OUT"].as_numpy().tolist() == [size]
    await asyncio.sleep(0)  # callbacks run a turn later, which waiting for what is done does not take in every Python
    assert order == [0, 1, 2, 3]


@pytest.mark.own_process
async def test_a_stopped_worker_holds_up_neither_the_loop_nor_other_models(rig: Rig) -> None:
    stopped = await rig.load("stopped", f"SIZE = 1\n{REPEAT}", **DECOUPLED)
    other = await rig.load("add", ADD)
    os.kill(stopped.pid, signal.SIGSTOP)
    channel = stopped._worker.channel
    for _ in range(100):
        channel.send(frames.pack(frames.Kind.CANCEL, 1, bytes(60_000)))
    (execution,), _ = rig.execute(stopped, rig.request(IN=np.zeros(200_000, dtype=np.int32)[:5]))
    assert channel.queued > 50
    assert value(await rig.infer(other, IN=ints(1))) == [2]
    os.kill(stopped.pid, signal.SIGCONT)
    assert len(await execution.end()) == 6
    assert channel.queued == 0


@pytest.mark.own_process
async def test_a_worker_that_breaks_the_format_is_ended_with_a_reason(rig: Rig) -> None:
    source = """
import socket
class TritonPythonModel:
    def execute(self, requests):
        runtime = sys.modules[type(requests[0]).__module__.rpartition(".")[0] + ".runtime"]
        runtime.RUNTIME.channel().sock.send(b"nonsense, and long enough to hold a header")
        threading.Event().wait()
"""
    instance = await rig.load("liar", source)
    error = await rig.error(instance, IN=ints(1))
    assert isinstance(error, InstanceDied)
    assert "the channel broke" in error.message


@pytest.mark.own_process
@pytest.mark.parametrize(
    ("make", "reason"),
    [
        ("os.memfd_create('x', os.MFD_ALLOW_SEALING)", "is not sealed against shrinking and growing"),
        ("slabs.create(4096)", "holds 4096 bytes and should hold 80000"),
        ("os.open('/dev/null', os.O_RDWR)", "is not a memfd"),
    ],
)
async def test_a_slab_that_could_kill_its_reader_is_refused(rig: Rig, make: str, reason: str) -> None:
    source = f"""
class TritonPythonModel:
    def execute(self, requests):
        package = type(requests[0]).__module__.rpartition(".")[0]
        frames, parcels, slabs = (sys.modules[f"{{package}}.{{name}}"] for name in ("frames", "parcels", "slabs"))
        channel = sys.modules[package + ".runtime"].RUNTIME.channel()
        layout = parcels.Layout((), (("OUT", "INT32", (20000,), 80000),))
        entry = parcels.Entry(requests[0]._answer.id, layout, [b""], parcels.ENTRY_FINAL)
        descriptor = {make}
        channel.send(parcels.pack(frames.Kind.RESPONSE, 0, [entry], slab=9, descriptors=1), [descriptor])
        threading.Event().wait()
"""
    instance = await rig.load("liar", source)
    error = await rig.error(instance, IN=ints(1))
    assert isinstance(error, InstanceDied)
    assert reason in error.message


@pytest.mark.own_process
async def test_slabs_are_used_again_once_nobody_looks_at_them(rig: Rig) -> None:
    instance = await rig.load("add", ADD)
    for number in range(20):
        assert value(await rig.infer(instance, IN=np.full(50_000, number, dtype=np.int32)))[0] == number + 1
    used, idle = instance._worker.channel.pool.counts
    assert used + idle <= 2
    assert len(instance._worker.channel.slabs._maps) <= 2


@pytest.mark.own_process
async def test_loading_and_unloading_200_times_leaves_nothing_behind(rig: Rig) -> None:
    files = rig.write("add", ADD)
    model = await rig.backend.load(rig.config("add"), files)
    process = psutil.Process()
    await rig.come_and_go(model, 1)
    before = psutil.Process().num_fds()
    zygote = psutil.Process(rig.backend.zygote.pid)
    zygote_before = zygote.num_fds()
    await rig.come_and_go(model, 200, at_once=8)
    assert psutil.Process().num_fds() == before
    # The zygote reaps when it gets to it: one more spawn comes after all reaping.
    await rig.come_and_go(model, 1)
    assert len(process.children(recursive=True)) <= 2
    assert zygote.num_fds() <= zygote_before + 1


@pytest.mark.own_process
async def test_a_child_that_is_told_to_end_as_soon_as_it_is_forked_ends(rig: Rig) -> None:
    source = """
import multiprocessing
class TritonPythonModel:
    def execute(self, requests):
        left = 0
        for _ in range(60):
            child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
            child.start()
            child.terminate()
            child.join(5)
            if child.is_alive():
                left += 1
                child.kill()
                child.join()
        return [Response([T("OUT", np.array([left], np.int32))])]
"""
    instance = await rig.load("forks", source)
    assert value(await rig.infer(instance, IN=ints(1))) == [0]
