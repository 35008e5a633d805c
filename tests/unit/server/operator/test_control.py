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


KEY = "k3y"


def status(authorization: str | None, *, key: str = KEY, over_socket: bool = False, origin: str | None = None) -> int:
    """The status of the refusal, 0 where there is none."""
    refused = refusal(key, authorization, over_socket=over_socket, origin=origin)
    if refused is None:
        return 0
    assert refused.sentence
    return refused.status


@pytest.mark.parametrize("shown", [f"Bearer {KEY}", f"bearer {KEY}", f"BEARER  {KEY} "])
def test_who_shows_the_key_may_change_things(shown: str) -> None:
    assert status(shown) == 0


@pytest.mark.parametrize(
    "shown", ["", "Bearer", "Bearer ", KEY, f"Basic {KEY}", "Bearer k3", f"Bearer {KEY} {KEY}", "Bearer ké", f"B {KEY}"]
)
def test_a_wrong_key_is_forbidden(shown: str) -> None:
    assert status(shown) == 403


def test_no_key_is_unauthorized() -> None:
    assert status(None) == 401


@pytest.mark.parametrize("shown", [None, "", "Bearer ", "Bearer None", "Bearer"])
def test_where_there_is_no_key_nobody_may_change_things_over_tcp(shown: str | None) -> None:
    assert status(shown, key="") == 403


@pytest.mark.parametrize("key", ["", KEY])
@pytest.mark.parametrize("shown", [None, "Bearer wrong"])
def test_over_the_socket_no_key_is_wanted(key: str, shown: str | None) -> None:
    assert status(shown, key=key, over_socket=True) == 0


@pytest.mark.parametrize("over_socket", [True, False])
def test_a_page_in_a_browser_may_not_whatever_it_shows(*, over_socket: bool) -> None:
    assert status(f"Bearer {KEY}", over_socket=over_socket, origin="null") == 403


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
