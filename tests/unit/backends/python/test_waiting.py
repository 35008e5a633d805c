"""Waiting for a worker: notices that come rarer and rarer, and the end with a reason."""

from __future__ import annotations

import asyncio
import logging

import pytest

from infer.backends.api.errors import LoadFailed
from infer.backends.python import waiting
from infer.backends.python.waiting import Waiting

LABELS = {"model": "m"}


@pytest.fixture(autouse=True)
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    return caplog


async def test_what_is_done_in_time_is_neither_told_nor_ended(log: pytest.LogCaptureFixture) -> None:
    async with Waiting("it", 60, LABELS, "busy"):
        await asyncio.sleep(0)
    assert log.text == ""


async def test_without_a_limit_it_may_take_as_long_as_it_likes() -> None:
    async with Waiting("it", 0, LABELS) as one:
        assert one._scope.when() is None


async def test_what_takes_too_long_is_ended_with_the_phase_and_the_last_words() -> None:
    async def wait(words: str) -> None:
        async with Waiting("instance 'm_0'", 0.01, LABELS, "starting") as one:
            one.last_words = lambda: words
            one.enter("initialize")
            await asyncio.Event().wait()

    for words, end in (("", ""), ("so far | so good", ". Last words: so far | so good")):
        with pytest.raises(LoadFailed) as raised:
            await wait(words)
        sentence = "instance 'm_0' was not ready within 0.01 s (--model-load-timeout); it was in initialize"
        assert str(raised.value) == sentence + end


async def test_an_error_of_what_is_waited_for_passes() -> None:
    with pytest.raises(LoadFailed, match="of its own"):
        async with Waiting("it", 60, LABELS):
            raise LoadFailed("of its own")


async def test_a_cancel_from_outside_is_no_time_out() -> None:
    async def wait() -> None:
        async with Waiting("it", 60, LABELS):
            await asyncio.Event().wait()

    task = asyncio.ensure_future(wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_log_says_what_it_is_doing_after_a_while_and_again_after_twice_as_long(
    log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "FIRST_NOTICE_S", 8.0)
    async with Waiting("it", 0, LABELS, "starting") as one:
        for phase in ("import", "auto_complete", "initialize", "unheard of"):
            one.enter(phase)
            assert one._notice is not None
            one._notice.cancel()
            one._tell()
    assert [record.getMessage() for record in log.records] == [
        "it is not ready after 8 s: it is importing its model file",
        "it is not ready after 16 s: it is in auto_complete_config",
        "it is not ready after 32 s: it is in initialize",
        "it is not ready after 64 s: it is unheard of",
    ]
    assert log.records[0].__dict__["model"] == "m"
