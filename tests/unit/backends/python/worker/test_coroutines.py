"""The event loop of a model: its coroutines go on beside each other, and none of them is lost."""

from __future__ import annotations

import asyncio
import gc
import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING

import pytest

from infer.backends.python.worker.coroutines import ModelLoop

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT_S = 10


class Ended(threading.Event):
    """Set when a loop ends early; keeps why."""

    why: tuple[str, BaseException | None] = ("", None)

    def tell(self, reason: str, error: BaseException | None) -> None:
        """Be told."""
        self.why = reason, error
        self.set()


@pytest.fixture
def ended() -> Ended:
    return Ended()


@pytest.fixture
def loop(ended: Ended) -> Iterator[ModelLoop]:
    loop = ModelLoop(ended.tell)
    yield loop
    if not ended.is_set():
        loop.stop()
    for thread in threading.enumerate():
        if thread.ident == loop.ident:
            thread.join(LIMIT_S)
            assert not thread.is_alive()


def test_coroutines_run_beside_each_other_on_the_loops_own_thread(loop: ModelLoop) -> None:
    both = threading.Barrier(2)
    idents: list[int] = []

    async def meet() -> None:
        idents.append(threading.get_ident())
        await asyncio.get_running_loop().run_in_executor(None, both.wait, LIMIT_S)

    loop.start(meet())
    loop.wait_for(meet())
    assert idents == [loop.ident] * 2


def test_a_coroutine_sees_the_variables_of_whoever_started_it(loop: ModelLoop) -> None:
    variable: ContextVar[int] = ContextVar("variable", default=0)
    seen: list[int] = []
    done = threading.Event()

    async def look() -> None:
        seen.append(variable.get())
        done.set()

    token = variable.set(7)
    loop.start(look())
    variable.reset(token)
    assert done.wait(LIMIT_S)
    assert seen == [7]


def test_what_a_coroutine_raises_is_raised_where_its_result_is_waited_for(loop: ModelLoop) -> None:
    async def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        loop.wait_for(fail())


def test_a_coroutine_that_nothing_else_refers_to_is_not_forgotten(loop: ModelLoop) -> None:
    done = threading.Event()
    waiting = threading.Event()
    futures: list[asyncio.Future[None]] = []

    async def wait() -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        futures.append(future)
        waiting.set()
        await future
        done.set()

    async def wake() -> None:
        futures.pop().set_result(None)

    loop.start(wait())
    assert waiting.wait(LIMIT_S)
    gc.collect()
    loop.wait_for(wake())
    assert done.wait(LIMIT_S)


def test_it_is_told_when_a_coroutine_was_cancelled(loop: ModelLoop, ended: Ended) -> None:
    told = threading.Event()

    async def give_up() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    loop.start(give_up(), told.set)
    assert told.wait(LIMIT_S)
    assert not ended.is_set()


def test_what_still_runs_is_cancelled_when_it_stops(loop: ModelLoop, ended: Ended) -> None:
    waiting, cleaned = threading.Event(), threading.Event()

    async def wait() -> None:
        try:
            waiting.set()
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    loop.start(wait())
    assert waiting.wait(LIMIT_S)
    loop.stop()
    assert cleaned.is_set()
    assert not ended.is_set()


def test_a_loop_that_the_model_ends_is_told(loop: ModelLoop, ended: Ended) -> None:
    async def end() -> None:
        asyncio.get_running_loop().stop()

    loop.start(end())
    assert ended.wait(LIMIT_S)
    assert ended.why == ("the event loop that its coroutines run on has ended", None)


@pytest.mark.parametrize("error", [SystemExit(4), KeyboardInterrupt("^C")])
def test_what_ends_a_loop_from_a_task_of_the_models_own_is_told_with_its_place(
    loop: ModelLoop, ended: Ended, error: BaseException
) -> None:
    async def end() -> None:
        raise error

    loop.start(end())
    assert ended.wait(LIMIT_S)
    assert ended.why[1] is error
    assert ended.why[0].startswith(f"{type(error).__name__}: {error}")
    assert "): end" in ended.why[0]


@pytest.mark.parametrize("error", [SystemExit(4), KeyboardInterrupt("^C")])
def test_what_would_end_the_loop_is_raised_where_its_result_is_waited_for(
    loop: ModelLoop, ended: Ended, error: BaseException
) -> None:
    async def end() -> None:
        raise error

    async def value() -> int:
        return 7

    with pytest.raises(type(error)) as raised:
        loop.wait_for(end())
    assert raised.value is error
    assert loop.wait_for(value()) == 7
    assert not ended.is_set()


def test_a_thread_that_waits_for_a_loop_that_ends_is_let_go(loop: ModelLoop, ended: Ended) -> None:
    async def end() -> None:
        asyncio.get_running_loop().stop()
        await asyncio.sleep(LIMIT_S)

    with pytest.raises(RuntimeError, match="the event loop that its coroutines run on has ended"):
        loop.wait_for(end())
    assert ended.is_set()
    loop.stop()
