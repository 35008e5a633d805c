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
