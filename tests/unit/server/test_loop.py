"""The serving loop is one named thread that can be entered from others and leaves nothing behind."""

from __future__ import annotations

import asyncio
import sys
import threading

import pytest

from infer.server.loop import SWITCH_INTERVAL_S, ServingLoop


def test_work_runs_on_one_named_thread_and_the_thread_ends() -> None:
    before = set(threading.enumerate())
    serving = ServingLoop()
    serving.start()
    names: list[str] = []

    async def where() -> str:
        await asyncio.sleep(0)
        return threading.current_thread().name

    called = threading.Event()
    serving.call_soon(lambda: (names.append(threading.current_thread().name), called.set()))
    assert called.wait(5)
    assert serving.run(where()) == "serving-loop"
    serving.stop()
    assert names == ["serving-loop"]
    assert set(threading.enumerate()) <= before
    assert sys.getswitchinterval() == SWITCH_INTERVAL_S


def test_stop_ends_what_still_waits() -> None:
    serving = ServingLoop()
    serving.start()
    ended = threading.Event()

    async def wait_for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    serving.call_soon(lambda: asyncio.ensure_future(wait_for_ever()))
    serving.stop()
    assert ended.is_set()
    serving.stop()


def test_who_comes_after_the_stop_is_told_and_does_not_wait_for_ever() -> None:
    serving = ServingLoop()
    serving.start()
    serving.stop()

    async def late() -> None:
        """Never runs; ``run`` closes it."""

    with pytest.raises(RuntimeError, match="the serving loop has stopped"):
        serving.run(late())
    with pytest.raises(RuntimeError, match="the serving loop has stopped"):
        serving.call_soon(pytest.fail)


def test_calls_that_race_with_the_stop_are_made_or_refused_and_none_is_lost() -> None:
    for _ in range(20):
        serving = ServingLoop()
        serving.start()
        made: list[int] = []
        accepted: list[int] = []
        begun = threading.Barrier(3)

        def call(number: int) -> None:
            begun.wait()  # noqa: B023  joined below, in the same round
            try:
                for each in range(number, number + 1000):
                    serving.call_soon(made.append, each)  # noqa: B023
                    accepted.append(each)  # noqa: B023
            except RuntimeError:
                return

        threads = [threading.Thread(target=call, args=(number,)) for number in (0, 1000)]
        for thread in threads:
            thread.start()
        begun.wait()
        serving.stop()
        for thread in threads:
            thread.join()
        assert sorted(made) == sorted(accepted)
