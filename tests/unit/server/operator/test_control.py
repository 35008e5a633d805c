from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from infer.backends.api.errors import NotFound, Unavailable
from infer.server.operator.control import Control, refusal

if TYPE_CHECKING:
    from infer.server.loop import ServingLoop


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
def test_this_machine_may_change_things(address: str) -> None:
    assert refusal(address, {"Content-Type": "application/json"}) is None


@pytest.mark.parametrize("address", ["10.0.0.1", "::ffff:10.0.0.1", "fe80::1%eth0", "2001:db8::1", "", "localhost"])
def test_nobody_else_may(address: str) -> None:
    reason = refusal(address, {})
    assert reason is not None
    assert "this machine only" in reason


def test_a_change_that_fails_gives_its_slot_back(serving_loop: ServingLoop) -> None:
    control = Control(serving_loop.loop, slots=1, timeout_s=10)

    async def fail() -> None:
        raise NotFound("no such model")

    async def succeed() -> None:
        return

    for _ in range(3):
        with pytest.raises(NotFound, match="no such model"):
            control.run("load 'm'", fail())
    control.run("load 'm'", succeed())


def test_a_change_that_takes_too_long_goes_on_and_who_asked_is_told(serving_loop: ServingLoop) -> None:
    control = Control(serving_loop.loop, slots=1, timeout_s=0)
    done = threading.Event()

    async def change() -> None:
        await asyncio.sleep(0)
        done.set()

    with pytest.raises(Unavailable, match="load 'm': not done after 0 s and still under way; ask the index"):
        control.run("load 'm'", change())
    assert done.wait(10)


def test_a_closed_control_lets_go_who_waits_and_refuses_who_comes(serving_loop: ServingLoop) -> None:
    control = Control(serving_loop.loop, slots=1, timeout_s=10)
    begun = threading.Event()

    async def never_done() -> None:
        begun.set()
        await asyncio.Event().wait()

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(control.run, "load 'm'", never_done())
        assert begun.wait(10)
        with pytest.raises(Unavailable, match="load 'n': 1 changes are under way already"):
            control.run("load 'n'", never_done())
        control.close()
        with pytest.raises(Unavailable, match="load 'm': the server is stopping"):
            waiting.result(10)
    with pytest.raises(Unavailable, match="load 'n': the server is stopping"):
        control.run("load 'n'", never_done())
