"""The serving loop is one named thread that can be entered from others and leaves nothing behind."""

from __future__ import annotations

import asyncio
import sys
import threading

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
