"""In-process instances: a thread each, which blocks in its runtime and hands results back with one wake-up.

The thread takes work from a queue that only the loop fills. It never touches a ticket: it fills stand-ins, and the
loop sends what they hold. A response of a decoupled model is sent at once, the others when the batch is complete. A
thread that sends faster than its responses are taken waits in ``send``: its window of them is as wide as a worker's.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from typing import TYPE_CHECKING, Any

from ...backends.api.backend import Batch, LoopInstance, ThreadInstance
from ...backends.api.errors import BackendFailure, Cancelled, InferError, Internal
from ...backends.api.response import InferenceResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...backends.api.backend import Execution
    from ...backends.api.request import InferenceRequest

log = logging.getLogger("infer.scheduling")

CLOSE_TIMEOUT_S = 5.0
"""How long a thread may take to come back from its runtime when its instance is closed."""

WINDOW = 16
"""Responses of one decoupled request that may be under way between the thread and who takes them."""


class ThreadedInstance(LoopInstance):
    """Runs a :class:`ThreadInstance` on a thread of its own and looks like a loop instance to the scheduler.

    While the thread executes a batch, the next one may wait in its queue, so that no time is lost between the two.
    """

    depth = 2

    def __init__(
        self,
        name: str,
        instance: ThreadInstance,
        loop: asyncio.AbstractEventLoop,
        *,
        decoupled: bool = False,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        """``facts`` are attached to log lines: which model it is."""
        self.name = name
        self.input_device = instance.input_device
        self._instance = instance
        self._loop = loop
        self._decoupled = decoupled
        self._facts = {**(facts or {}), "instance": name}
        self._paused: dict[Execution, _ThreadExecution] = {}
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"instance-{name}", daemon=True)
        self._ended: asyncio.Future[None] = loop.create_future()

    # Serving loop

    async def load(self) -> None:
        """Start the thread and bring the runtime up on it."""
        loaded: asyncio.Future[None] = self._loop.create_future()
        self._thread.start()
        self._work.put(lambda: self._load(loaded))
        await loaded

    def execute(self, batch: Batch, done: Callable[[], None]) -> None:
        """Queue the batch for the thread."""
        self._work.put(lambda: self._execute(batch, done))

    def cancel(self, execution: Execution) -> None:
        """Nothing to tell: the instance reads ``execution.cancelled``."""

    def resume(self, execution: Execution) -> None:
        """Let the thread send again."""
        waiting = self._paused.pop(execution, None)
        if waiting is not None:
            waiting.give_room()

    async def close(self) -> None:
        """Let the thread finish what it holds, close the runtime there, join it.

        A thread that is stuck in its runtime cannot be ended; it is left behind with a word in the log.
        """
        if self._thread.ident is None:
            return
        self._work.put(None)
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._ended
        except TimeoutError:
            log.error(  # noqa: TRY400  the time-out is the message
                "instance '%s' is stuck in its runtime and is left behind", self.name, extra=self._facts
            )
            return
        self._thread.join()

    # Instance thread

    def _run(self) -> None:
        while (task := self._work.get()) is not None:
            task()
        error = self._guarded(self._instance.close)
        if error is not None:
            log.error("instance '%s' did not close cleanly: %s", self.name, error, extra=self._facts)
        self._loop.call_soon_threadsafe(_resolve, self._ended, None)

    def _load(self, loaded: asyncio.Future[None]) -> None:
        error = self._guarded(self._instance.load)
        self._loop.call_soon_threadsafe(_resolve, loaded, error)

    def _execute(self, batch: Batch, done: Callable[[], None]) -> None:
        executions = [_ThreadExecution(each, self._loop, self._pass_on, self._decoupled) for each in batch.executions]
        local = Batch(executions, batch.rows)
        if all(execution.cancelled for execution in executions):
            error: InferError | None = Cancelled("request was cancelled before it was executed")
        else:
            error = self._guarded(lambda: self._instance.execute(local))
        if isinstance(error, BackendFailure):
            facts = {**self._facts, "request_id": executions[0].request.request_id}
            log.error("instance '%s' failed: %s", self.name, error, exc_info=error.__cause__, extra=facts)
        self._loop.call_soon_threadsafe(self._deliver, batch, local, executions, error, done)

    @staticmethod
    def _guarded(call: Callable[[], None]) -> InferError | None:
        """Call into the foreign runtime; what it raised, as an error of ours, or None."""
        try:
            call()
        except InferError as exc:
            return exc
        except Exception as exc:  # noqa: BLE001  the border of a foreign runtime
            error = BackendFailure(f"{type(exc).__name__}: {exc}")
            error.__cause__ = exc
            return error
        return None

    # Serving loop

    def _pass_on(self, execution: _ThreadExecution, response: InferenceResponse) -> None:
        """Send a response of a decoupled model; it keeps its place in the window while the request is paused."""
        ticket = execution.ticket
        ticket.send(response)
        execution.passed_on += 1
        if ticket.paused:
            self._paused[ticket] = execution
        else:
            execution.give_room()

    def _deliver(
        self,
        batch: Batch,
        local: Batch,
        executions: list[_ThreadExecution],
        error: InferError | None,
        done: Callable[[], None],
    ) -> None:
        batch.compute_start = local.compute_start
        batch.compute_input_end = local.compute_input_end
        batch.compute_output_start = local.compute_output_start
        batch.compute_end = local.compute_end
        for execution in executions:
            for response in execution.responses:
                execution.ticket.send(response)
            if execution.mark and error is None and not execution.ended:
                execution.ticket.reschedule(execution.mark)
            elif not execution.ended and (error is not None or not self._decoupled):
                missing = Internal(f"instance '{self.name}' returned without a response to this request")
                execution.ticket.send(InferenceResponse(error=error or missing))
        done()


class _ThreadExecution:
    """A request as the instance's thread sees it."""

    __slots__ = (
        "_loop",
        "_pass_on",
        "_room",
        "ended",
        "mark",
        "passed_on",
        "request",
        "responses",
        "ticket",
    )

    def __init__(
        self,
        ticket: Execution,
        loop: asyncio.AbstractEventLoop,
        pass_on: Callable[[_ThreadExecution, InferenceResponse], None],
        decoupled: bool,  # noqa: FBT001  made in one place
    ) -> None:
        self.ticket = ticket
        self.request: InferenceRequest = ticket.request
        self.responses: list[InferenceResponse] = []
        self.ended = False
        self.passed_on = 0
        """Responses that have been sent on the loop and keep their place in the window."""
        self.mark = 0
        self._loop = loop
        self._pass_on = pass_on
        self._room = threading.Semaphore(WINDOW) if decoupled else None

    @property
    def cancelled(self) -> bool:
        return self.ticket.cancelled

    @property
    def paused(self) -> bool:
        return self.ticket.paused

    def give_room(self) -> None:
        """What was passed on gives up its place. Serving loop."""
        count, self.passed_on = self.passed_on, 0
        if self._room is not None:
            self._room.release(count)

    def send(self, response: InferenceResponse) -> None:
        if self.ended:
            response.release()
            return
        self.ended = response.final
        if self._room is not None:
            if not response.final:
                self._room.acquire()
            self._loop.call_soon_threadsafe(self._pass_on, self, response)
        else:
            self.responses.append(response)

    def reschedule(self, mark: int) -> None:
        self.mark = mark


def _resolve(future: asyncio.Future[None], error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
