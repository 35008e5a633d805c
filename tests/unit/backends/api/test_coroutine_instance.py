"""An instance whose executions are coroutines answers everything, whatever its coroutines do."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from infer.backends.api.backend import Batch
from infer.backends.api.coroutine_instance import CoroutineInstance
from infer.backends.api.errors import Internal, Unavailable
from infer.backends.api.response import InferenceResponse

if TYPE_CHECKING:
    from infer.backends.api.backend import Execution


class Scripted(CoroutineInstance):
    """Does what the request is: raises an exception, waits for an event, or answers at once."""

    async def respond(self, execution: Execution) -> None:
        script: Any = execution.request
        if isinstance(script, Exception):
            raise script
        if isinstance(script, asyncio.Event):
            await script.wait()
        execution.send(InferenceResponse())


def execution(script: object) -> Any:
    responses: list[InferenceResponse] = []
    return SimpleNamespace(request=script, cancelled=False, paused=False, responses=responses, send=responses.append)


class Paced(CoroutineInstance):
    """Sends three responses as far as there is room for them, and says that it did."""

    async def respond(self, execution: Execution) -> None:
        for index in range(3):
            if not await self.pace(execution, index, 0):
                break
            execution.send(InferenceResponse(final=False))
        execution.send(InferenceResponse())


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_paused_request_waits_until_there_is_room_and_no_other_does() -> None:
    instance = Paced(decoupled=True)
    paused, other = execution(None), execution(None)
    paused.paused = True
    instance.execute(Batch([paused, other], 2), lambda: None)
    await turns()
    assert (len(paused.responses), len(other.responses)) == (0, 4)
    instance.resume(other)
    instance.resume(paused)
    await turns()
    assert paused.responses == []
    paused.paused = False
    instance.resume(paused)
    await turns()
    assert len(paused.responses) == 4
    await instance.close()


async def test_a_paused_request_that_is_cancelled_goes_on_to_its_end() -> None:
    instance = Paced(decoupled=True)
    paused = execution(None)
    paused.paused = True
    instance.execute(Batch([paused], 1), lambda: None)
    await turns()
    paused.cancelled, paused.paused = True, False
    instance.resume(paused)
    await turns()
    assert [response.final for response in paused.responses] == [True]
    await instance.close()


async def test_closing_does_not_wait_for_room() -> None:
    instance = Paced(decoupled=True)
    paused = execution(None)
    paused.paused = True
    instance.execute(Batch([paused], 1), lambda: None)
    await turns()
    await asyncio.wait_for(instance.close(), 10)
    assert [response.final for response in paused.responses] == [True]


async def test_what_is_spent_on_computing_is_not_cut_short_by_a_cancel_but_by_closing() -> None:
    class Spending(CoroutineInstance):
        async def respond(self, execution: Execution) -> None:
            await self.spend(0)
            await self.spend(60)
            execution.send(InferenceResponse())

    instance = Spending(decoupled=True)
    computing = execution(None)
    instance.execute(Batch([computing], 1), lambda: None)
    await turns()
    instance.cancel(computing)
    await turns()
    assert computing.responses == []
    await asyncio.wait_for(instance.close(), 10)
    assert len(computing.responses) == 1


async def test_an_error_is_the_final_response_and_the_others_of_the_batch_are_answered() -> None:
    instance = Scripted(decoupled=False)
    await instance.load()
    refused, broken, fine = execution(Unavailable("not now")), execution(KeyError("x")), execution(None)
    done = asyncio.Event()
    instance.execute(Batch([refused, broken, fine], 3), done.set)
    await done.wait()
    (response,) = refused.responses
    assert isinstance(response.error, Unavailable)
    (response,) = broken.responses
    assert isinstance(response.error, Internal)
    assert "KeyError: 'x'" in str(response.error)
    (response,) = fine.responses
    assert response.error is None


@pytest.mark.parametrize("decoupled", [True, False])
async def test_a_decoupled_instance_is_free_before_its_requests_are_answered(*, decoupled: bool) -> None:
    instance = Scripted(decoupled=decoupled)
    answer = asyncio.Event()
    waiting = execution(answer)
    answered_when_free: list[bool] = []
    instance.execute(Batch([waiting], 1), lambda: answered_when_free.append(bool(waiting.responses)))
    for _ in range(5):
        await asyncio.sleep(0)
    assert answered_when_free == ([False] if decoupled else [])
    answer.set()
    await instance.close()
    assert answered_when_free == [not decoupled]
    assert len(waiting.responses) == 1


async def test_closing_waits_for_what_is_under_way_and_can_be_repeated() -> None:
    instance = Scripted(decoupled=True)
    await instance.close()
    answer = asyncio.Event()
    waiting = execution(answer)
    instance.execute(Batch([waiting], 1), lambda: None)
    closing = asyncio.ensure_future(instance.close())
    await asyncio.sleep(0)
    assert not closing.done()
    answer.set()
    await closing
    assert waiting.responses[0].final
    await instance.close()
