"""The rules of response senders in real workers: what a model may send, and what it is told where it may not."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from infer.backends.api.errors import Code
from infer.backends.python.worker import frames

if TYPE_CHECKING:
    from infer.backends.api.response import InferenceResponse

    Rig = Any

DECOUPLED = {"model_transaction_policy": {"decoupled": True}}
SCRIPTED = """
FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL

def out(*values, **more):
    return Response([T("OUT", np.array(values, np.int32))], **more)

class TritonPythonModel:
    said = []

    def execute(self, requests):
        request = requests[0]
        sender = request.get_response_sender()
        if not by_name(request, "IN").as_numpy()[0]:
            text = T("OUT", np.array(self.said, dtype=np.object_))
            sender.send(Response([text]), flags=FINAL)
            return None
        def attempt(call):
            try:
                call()
            except Exception as exc:
                self.said.append(f"{type(exc).__name__}: {exc}")
        returned = None
        try:
            SCRIPT
        except Exception as exc:
            self.said.append(f"not expected: {exc!r}")
        return returned
"""
"""Does what a test says; for 0 it answers with what it was told when it broke a rule."""
RAISED = "TritonModelException"
CANNOT = f"{RAISED}: Unable to send response"
CLOSED = f"{CANNOT}. Response sender has been closed."


def ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, dtype=np.int32)


def seen(responses: list[InferenceResponse]) -> list[Any]:
    """Values, error texts, None for nothing; a final response is in a tuple."""
    found: list[Any] = []
    for response in responses:
        if response.error is not None:
            content: Any = str(response.error)
        else:
            content = response.outputs["OUT"].as_numpy().tolist() if response.outputs else None
        found.append((content,) if response.final else content)
    return found


async def run(rig: Rig, script: str, **more: Any) -> tuple[list[Any], list[str]]:
    """What the client sees, and what the model was told."""
    instance = await rig.load("scripted", SCRIPTED.replace("SCRIPT", script.replace("\n", "\n            ")), **more)
    (execution,), done = rig.execute(instance, rig.request(IN=ints(1)))
    responses = await execution.end()
    await asyncio.wait_for(done, 20)
    (asking,), _ = rig.execute(instance, rig.request(IN=ints(0)))
    told = (await asking.end())[0].outputs["OUT"].as_numpy().tolist()
    return seen(responses), [text.decode() for text in told]


@pytest.mark.parametrize(
    ("script", "client", "model"),
    [
        ("sender.send(flags=FINAL)", [(None,)], []),
        ("sender.send(out(1), flags=FINAL)", [([1],)], []),
        ("sender.send(out(1))\nsender.send(out(2), FINAL)", [[1], ([2],)], []),
        ("sender.send(out(1))\nsender.send(flags=FINAL)", [[1], (None,)], []),
        (
            (
                "sender.send(out(1))\nsender.send(Response(error=pb_utils.TritonError('no')))\n"
                "sender.send(out(2))\nsender.send(flags=FINAL)"
            ),
            [[1], "no", [2], (None,)],
            [],
        ),
        ("sender.send(Response(error=pb_utils.TritonError('no')), FINAL)", [("no",)], []),
        (
            "sender.send(flags=FINAL)\nattempt(lambda: sender.send(out(1)))\nattempt(lambda: sender.send(flags=FINAL))",
            [(None,)],
            [CLOSED, CLOSED],
        ),
        (
            (
                "attempt(lambda: sender.send())\nattempt(lambda: sender.send(out(1), 2))\n"
                "attempt(lambda: sender.send([out(1)]))\nattempt(lambda: sender.send(out(1), None))\n"
                "attempt(lambda: sender.send(out(1), 1.0))\nsender.send(flags=FINAL)"
            ),
            [(None,)],
            [
                f"{RAISED}: Inference Response object must be provided when the response flags is set to zero.",
                f"{CANNOT}. Unsupported flag 2; use 0 or TRITONSERVER_RESPONSE_COMPLETE_FINAL.",
                "TypeError: send(): incompatible argument 'response': expected InferenceResponse, got list",
                "TypeError: send(): incompatible argument 'flags': expected int, got NoneType",
                "TypeError: send(): incompatible argument 'flags': expected int, got float",
            ],
        ),
        ("assert request.get_response_sender() is sender\nsender.send(flags=FINAL)", [(None,)], []),
    ],
    ids=["none", "one", "final with data", "final apart", "an error amid", "an error", "after final", "wrong", "same"],
)
async def test_what_a_decoupled_model_sends_and_what_it_is_told(
    rig: Rig, script: str, client: list[Any], model: list[str]
) -> None:
    assert await run(rig, script, **DECOUPLED) == (client, model)


@pytest.mark.parametrize(
    ("script", "client", "model"),
    [
        ("sender.send(out(1), FINAL)", [([1],)], []),
        ("sender.send(out(1))\nsender.send(flags=FINAL)", [([1],)], []),
        (
            "sender.send(out(1))\nsender.send(flags=FINAL)\nattempt(lambda: sender.send(flags=FINAL))",
            [([1],)],
            [CLOSED],
        ),
        ("sender.send(out(1), FINAL)\nattempt(lambda: sender.send(flags=FINAL))", [([1],)], [CLOSED]),
        ("sender.send(out(1))\nattempt(lambda: sender.send(out(2)))", [([1],)], [CLOSED]),
        (
            "attempt(lambda: sender.send(flags=FINAL))\nsender.send(out(1))",
            [([1],)],
            ["TritonModelException: Non-decoupled model cannot send complete final before sending a response"],
        ),
        ("sender.send(out(1))\nreturned = [out(2)]", [([1],)], []),
        ("sender.send(out(1))\nreturned = [None]", [([1],)], []),
        ("threading.Timer(0.02, lambda: sender.send(out(1))).start()\nreturned = [None]", [([1],)], []),
    ],
    ids=[
        "with final",
        "final apart",
        "final twice",
        "final again",
        "twice",
        "final first",
        "sent and returned",
        "sent, None",
        "later",
    ],
)
async def test_a_model_that_is_not_decoupled_answers_once_however_it_does(
    rig: Rig, script: str, client: list[Any], model: list[str]
) -> None:
    assert await run(rig, script) == (client, model)


async def test_a_surplus_answer_of_execute_is_an_error_in_the_log(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    await run(rig, "sender.send(out(1))\nreturned = [out(2)]")
    assert any("Expected a None object in the execute function return list" in each.message for each in caplog.records)


async def test_every_response_carries_its_own_parameters(rig: Rig) -> None:
    source = """
class TritonPythonModel:
    def execute(self, requests):
        sender = requests[0].get_response_sender()
        for number in range(3):
            sender.send(Response([T("OUT", np.array([number], np.int32))], parameters={"number": number, "odd": True}))
        sender.send(flags=1)
"""
    instance = await rig.load("parameters", source, **DECOUPLED)
    (execution,), _ = rig.execute(instance, rig.request(IN=ints(1)))
    responses = await execution.end()
    assert [each.parameters for each in responses] == [{"number": n, "odd": True} for n in range(3)] + [{}]


async def test_an_exception_ends_only_the_requests_that_are_open(rig: Rig) -> None:
    source = """
class TritonPythonModel:
    def execute(self, requests):
        first, second, third = [request.get_response_sender() for request in requests]
        first.send(Response([T("OUT", np.array([1], np.int32))]))
        second.send(Response([T("OUT", np.array([2], np.int32))]), flags=1)
        raise ValueError("half way")
"""
    instance = await rig.load("raises", source, **DECOUPLED)
    executions, done = rig.execute(instance, *[rig.request(IN=ints(n)) for n in range(3)])
    await asyncio.wait_for(done, 20)
    first, second, third = [seen(await each.end()) for each in executions]
    assert first[0] == [1]
    assert second == [([2],)]
    for (error,) in (first[1], third[0]):
        assert error.startswith(
            "Failed to process the request(s) for model 'raises_0_0', message: ValueError: half way"
        )


async def test_a_sender_knows_of_a_cancel_after_execute_has_returned(rig: Rig) -> None:
    source = """
class TritonPythonModel:
    def execute(self, requests):
        threading.Thread(target=self.work, args=(requests[0], requests[0].get_response_sender())).start()

    def work(self, request, sender):
        sender.send(Response([T("OUT", np.array([int(sender.is_cancelled())], np.int32))]))
        while not (sender.is_cancelled() and request.is_cancelled()):
            time.sleep(0.001)
        sender.send(Response(error=pb_utils.TritonError("stopped", pb_utils.TritonError.CANCELLED)), flags=1)
"""
    instance = await rig.load("works", source, **DECOUPLED)
    (execution,), done = rig.execute(instance, rig.request(IN=ints(1)))
    await asyncio.wait_for(done, 20)
    await execution.until(1)
    execution.cancelled = True
    instance.cancel(execution)
    responses = await execution.end()
    assert seen(responses) == [[0], ("stopped",)]
    assert responses[-1].error is not None
    assert responses[-1].error.code is Code.CANCELLED


POUR = """
class TritonPythonModel:
    def execute(self, requests):
        (request,) = requests
        sender = request.get_response_sender()
        if by_name(request, "IN").as_numpy()[0]:
            self.pour(sender)
        else:
            threading.Thread(target=self.pour, args=(sender,)).start()

    def pour(self, sender):
        for number in range(100):
            sender.send(Response([T("OUT", np.array([number], np.int32))]))
        sender.send(flags=1)
"""


async def quiet(execution: Any) -> int:
    """How many responses have come, once no more come."""
    count = -1
    while count != len(execution.responses):
        count = len(execution.responses)
        await asyncio.sleep(0.1)
    return count


@pytest.mark.parametrize("within_execute", [0, 1])
async def test_a_paused_request_keeps_its_sender_waiting_until_there_is_room(rig: Rig, within_execute: int) -> None:
    instance = await rig.load("pour", POUR, **DECOUPLED)
    (execution,), done = rig.execute(instance, rig.request(IN=ints(within_execute)))
    execution.paused = True
    assert await quiet(execution) == frames.WINDOW
    assert done.done() is not bool(within_execute)
    if not within_execute:
        (other,), _ = rig.execute(instance, rig.request(IN=ints(0)))
        assert len(await other.end()) == 101
    execution.paused = False
    instance.resume(execution)
    assert seen(await execution.end()) == [*[[number] for number in range(100)], (None,)]
    await asyncio.wait_for(done, 20)


@pytest.mark.parametrize("within_execute", [0, 1])
async def test_a_cancel_releases_a_sender_that_waits_and_what_it_sends_then_goes_nowhere(
    rig: Rig, within_execute: int
) -> None:
    instance = await rig.load("pour", POUR, **DECOUPLED)
    (execution,), done = rig.execute(instance, rig.request(IN=ints(within_execute)))
    execution.paused = True
    await quiet(execution)
    execution.cancelled, execution.paused = True, False
    instance.cancel(execution)
    responses = await execution.end()
    assert len(responses) == frames.WINDOW + 1
    await asyncio.wait_for(done, 20)


async def test_a_sender_that_waits_when_another_thread_ends_the_request_is_told_that_it_is_closed(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    source = """
class TritonPythonModel:
    def execute(self, requests):
        sender = requests[0].get_response_sender()
        told = []
        def pour():
            try:
                for number in range(100):
                    sender.send(Response([T("OUT", np.array([number], np.int32))]))
            except pb_utils.TritonModelException as exc:
                told.append(str(exc))
        thread = threading.Thread(target=pour)
        thread.start()
        thread.join(1)
        sender.send(Response([T("OUT", np.array([-1], np.int32))]), flags=1)
        thread.join()
        assert told == ["Unable to send response. Response sender has been closed."], told
"""
    instance = await rig.load("ends", source, **DECOUPLED)
    (execution,), done = rig.execute(instance, rig.request(IN=ints(1)))
    execution.paused = True
    responses = await execution.end()
    await asyncio.wait_for(done, 20)
    assert seen(responses) == [*[[number] for number in range(frames.WINDOW)], ([-1],)]
    assert [each.message for each in caplog.records if each.levelno >= logging.ERROR] == []


async def test_eight_threads_may_send_for_one_request(rig: Rig) -> None:
    source = """
class TritonPythonModel:
    def execute(self, requests):
        threading.Thread(target=self.answer, args=(requests[0].get_response_sender(),)).start()

    def answer(self, sender):
        def send(thread):
            for number in range(100):
                sender.send(Response([T("OUT", np.array([thread, number], np.int32))]))
        threads = [threading.Thread(target=send, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        sender.send(flags=1)
"""
    instance = await rig.load("threads", source, **DECOUPLED)
    (execution,), _ = rig.execute(instance, rig.request(IN=ints(1)))
    *found, last = seen(await execution.end())
    assert last == (None,)
    assert len(found) == 800
    for thread in range(8):
        assert [number for sender, number in found if sender == thread] == list(range(100))
