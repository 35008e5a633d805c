"""A call to a model that has a say in its readiness: asked first, sent on or refused, and ended exactly once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from infer.backends.api.errors import Code, InvalidArgument
from infer.backends.api.request import InferenceRequest
from infer.server.lifecycle.probed_call import ProbedCall

if TYPE_CHECKING:
    from infer.backends.api.response import InferenceResponse


class Rig:
    """A target that is asked, and an engine that takes the request; ``answers`` is what the caller got."""

    name, version = "m", 3

    def __init__(self) -> None:
        self.word: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.answers: list[InferenceResponse] = []
        self.submitted: list[InferenceRequest] = []
        self.cancelled = 0
        self.refuses = False
        request = InferenceRequest("m", {})
        target: Any = self
        self.call = ProbedCall(target, request, self.answers.append, self.submit, asyncio.get_running_loop())

    async def probe_ready(self) -> bool:
        return await self.word

    def submit(self, request: InferenceRequest, on_response: Any) -> Rig:
        if self.refuses:
            msg = "wrong shape"
            raise InvalidArgument(msg)
        self.submitted.append(request)
        return self

    def cancel(self) -> None:
        self.cancelled += 1

    async def say(self, ready: bool) -> None:
        self.word.set_result(ready)
        await asyncio.wait_for(self.call._task, 5)


@pytest.fixture
async def rig() -> Rig:
    return Rig()


async def test_a_target_that_says_yes_gets_the_request_and_a_cancel_is_handed_on(rig: Rig) -> None:
    assert not rig.submitted
    await rig.say(True)
    assert len(rig.submitted) == 1
    rig.call.cancel()
    assert rig.cancelled == 1
    assert not rig.answers


async def test_a_target_that_says_no_is_an_error_that_names_it(rig: Rig) -> None:
    await rig.say(False)
    (answer,) = rig.answers
    assert answer.final
    assert answer.error is not None
    assert (answer.error.code, str(answer.error)) == (Code.UNAVAILABLE, "Model 'm' version 3 is not ready")
    assert not rig.submitted


async def test_a_call_that_is_cancelled_while_its_target_is_asked_is_not_sent(rig: Rig) -> None:
    rig.call.cancel()
    await rig.say(True)
    (answer,) = rig.answers
    assert answer.error is not None
    assert answer.error.code is Code.CANCELLED
    assert not rig.submitted


async def test_a_request_that_is_refused_is_answered_with_the_refusal(rig: Rig) -> None:
    rig.refuses = True
    await rig.say(True)
    (answer,) = rig.answers
    assert str(answer.error) == "wrong shape"
