"""An instance whose executions are coroutines of the serving loop: for models that wait more than they compute."""

from __future__ import annotations

import asyncio
import logging
import time
from abc import abstractmethod
from functools import partial
from typing import TYPE_CHECKING

from .backend import LoopInstance
from .errors import InferError, Internal
from .response import InferenceResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from .backend import Batch, Execution
    from .request import InferenceRequest

_logger = logging.getLogger(__name__)

TURN = 64
"""Responses that may be sent in one turn of the loop: a long answer gives others theirs in between."""


class CoroutineInstance(LoopInstance):
    """Each request has a coroutine of its own; a decoupled one goes on after the instance took the next batch."""

    def __init__(self, *, decoupled: bool) -> None:
        """``decoupled``: the instance is held for :meth:`held_s` only, not until every request is answered."""
        self._decoupled = decoupled
        self._tasks: set[asyncio.Task[None]] = set()
        self._waits: dict[int, asyncio.Future[None]] = {}
        self._rooms: dict[int, asyncio.Future[None]] = {}
        self._closing = False

    @abstractmethod
    async def respond(self, execution: Execution) -> None:
        """Send a request's responses, the final one included. An InferError that is raised becomes the final one."""

    def held_s(self, request: InferenceRequest) -> float:  # noqa: ARG002  for instances that override it
        """Seconds that a request holds the instance, at least."""
        return 0.0

    async def load(self) -> None:
        """There is nothing to bring up."""

    def execute(self, batch: Batch, done: Callable[[], None]) -> None:
        """Answer every request of the batch at once."""
        batch.compute_start = batch.compute_input_end = time.monotonic_ns()
        answers = [self._start(self.respond(execution)) for execution in batch.executions]
        for execution, answer in zip(batch.executions, answers, strict=True):
            answer.add_done_callback(partial(_answered, execution))
        self._start(self._hold(batch, answers, done))

    def cancel(self, execution: Execution) -> None:
        """What waits in :meth:`pace` waits no longer."""
        _wake(self._waits.get(id(execution)))

    def resume(self, execution: Execution) -> None:
        """What waits for room in :meth:`pace` goes on."""
        _wake(self._rooms.get(id(execution)))

    async def close(self) -> None:
        """End what is under way: nobody waits for it any more."""
        self._closing = True
        for wait in (*self._waits.values(), *self._rooms.values()):
            _wake(wait)
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def pace(self, execution: Execution, index: int, seconds: float) -> bool:
        """Wait before the ``index``-th response; whether to go on, which a cancelled request does not.

        Without a wait the loop gets a turn now and then. A request that is paused waits until there is room.
        """
        if seconds > 0:
            await self._wait(execution, seconds)
        elif index % TURN == TURN - 1:
            await asyncio.sleep(0)
        while execution.paused and not self._closing:
            room = self._rooms[id(execution)] = asyncio.get_running_loop().create_future()
            await room
            del self._rooms[id(execution)]
        return not (execution.cancelled or self._closing)

    async def spend(self, seconds: float) -> None:
        """Let time go by as if it were spent on computing: no cancel cuts it short, only the instance's end."""
        if seconds > 0:
            await self._wait(object(), seconds)

    async def _wait(self, whose: object, seconds: float) -> None:
        """Let time go by, until :func:`_wake` or the end of the instance."""
        if self._closing:
            return
        wait = self._waits[id(whose)] = asyncio.get_running_loop().create_future()
        await asyncio.wait([wait], timeout=seconds)
        del self._waits[id(whose)]

    def _start(self, coroutine: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _hold(self, batch: Batch, answers: list[asyncio.Task[None]], done: Callable[[], None]) -> None:
        held_s = max((self.held_s(execution.request) for execution in batch.executions), default=0.0)
        if held_s > 0:
            await self._wait(batch, held_s)
        if not self._decoupled:
            await asyncio.wait(answers)
        batch.compute_end = time.monotonic_ns()
        done()


def _answered(execution: Execution, answer: asyncio.Task[None]) -> None:
    """What ``respond`` raised becomes the final response: nothing leaves without one."""
    error = answer.exception()
    if error is None:
        return
    if not isinstance(error, InferError):
        _logger.error("a response could not be made", exc_info=error)
        error = Internal(f"{type(error).__name__}: {error}")
    execution.send(InferenceResponse(error=error))


def _wake(wait: asyncio.Future[None] | None) -> None:
    if wait is not None and not wait.done():
        wait.set_result(None)
