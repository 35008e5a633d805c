"""A Python model's instance: a frame out, a frame in, on the serving loop.

What goes wrong with the worker is seen at once (its channel and its pidfd are watched): every open request fails with
the reason, observers are told, and the worker is started again, later and later while it keeps dying.
"""

from __future__ import annotations

import asyncio
import collections
import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..api.backend import InstanceState, LoopInstance
from ..api.errors import BackendFailure, InferError, InstanceDied, LoadFailed
from ..api.response import InferenceResponse
from . import calls, channel, codec
from .worker import frames
from .worker.frames import Entry, Frame, FrameError, Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..api.backend import BackendContext, Batch, Execution
    from .channel import Channel
    from .process import WorkerProcess, Zygote
    from .worker.slabs import Slab

_log = logging.getLogger("infer.python")
_CREDIT_STEP = frames.WINDOW // 2


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """How long to wait before the n-th start in a row, in seconds, and after how many failed ones to give up.

    A worker that has been up for ``settled`` seconds starts the count anew.
    """

    first: float = 0.25
    factor: float = 2.0
    longest: float = 30.0
    attempts: int = 10
    settled: float = 60.0

    def delay(self, failures: int) -> float | None:
        """Seconds to wait after ``failures`` deaths or failed starts in a row (from 1); None to give up."""
        if failures > self.attempts:
            return None
        return min(self.longest, self.first * self.factor ** (failures - 1))


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """What is fixed for an instance: HELLO's content, and how long finalize may take, in seconds (0: no limit)."""

    name: str
    hello: dict[str, Any]
    labels: dict[str, Any]
    decoupled: bool
    finalize_timeout: float = 30.0
    restart: RestartPolicy = RestartPolicy()


class _Running:
    """A batch whose execute call is not over, or whose requests are not."""

    __slots__ = ("batch", "done", "ended", "id", "pending")

    def __init__(self, batch_id: int, batch: Batch, done: Callable[[], None]) -> None:
        self.id = batch_id
        self.batch = batch
        self.done: Callable[[], None] | None = done
        self.pending = len(batch.executions)
        self.ended = False


class _Open:
    """A request that has no final response yet."""

    __slots__ = ("execution", "running", "taken")

    def __init__(self, execution: Execution, running: _Running) -> None:
        self.execution = execution
        self.running = running
        self.taken = 0


@dataclass(slots=True)
class _Outgoing:
    """A batch that cannot be sent before the tensors of one, its own or an earlier, are copied into their slab."""

    running: _Running
    entries: list[Entry]
    slab: Slab | None = None
    ready: bool = True


class PythonInstance(LoopInstance):
    """One worker process, seen by the scheduler as an instance.

    It takes ``depth`` batches at once and executes them in order: while one executes, the next one waits in the
    channel, and no time is lost between the two. That is for a model with one instance: with several, a batch that
    waits here could wait for a call that only another instance can answer.
    """

    depth = 2

    def __init__(self, context: BackendContext, zygote: Zygote, setup: WorkerSetup) -> None:
        self.setup = setup
        self._context = context
        self._loop = context.loop
        self._zygote = zygote
        self._worker: WorkerProcess | None = None
        self._ready = False
        self._lost_ready = False
        self._closing = False
        self._books: dict[Channel, calls.CallBook] = {}
        self._open: dict[int, _Open] = {}
        self._running: dict[int, _Running] = {}
        self._outgoing: collections.deque[_Outgoing] = collections.deque()
        self._last_id = 0
        self._answer: asyncio.Future[dict[str, Any]] | None = None
        self._failures = 0
        self._ready_since = 0.0
        self._restart: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._observers: list[Callable[[InstanceState, str], None]] = []

    @property
    def pid(self) -> int:
        """The worker's process id, 0 while there is none."""
        return self._worker.pid if self._worker is not None else 0

    @property
    def open_count(self) -> int:
        """Requests without a final response."""
        return len(self._open)

    def observe_state(self, observer: Callable[[InstanceState, str], None]) -> None:
        """Have the observer told of deaths and restarts."""
        self._observers.append(observer)

    async def load(self) -> None:
        """Spawn the worker and have it initialise the model. Raises LoadFailed with the model's own reason."""
        worker = self._worker = await self._zygote.spawn(self.setup.name, self.setup.labels)
        worker.on_loss = self._lost
        worker.on_death = self._died
        worker.on_frame = self._frame
        self._answer = self._loop.create_future()
        worker.channel.send(frames.pack_json(Kind.HELLO, 0, self.setup.hello))
        try:
            state = await self._answer
        finally:
            self._answer = None
        if state["state"] != "READY":
            await worker.gone.wait()
            raise LoadFailed(state["reason"])
        self._ready = True
        self._ready_since = self._loop.time()

    def execute(self, batch: Batch, done: Callable[[], None]) -> None:
        """Send the batch to the worker."""
        worker = self._worker
        if worker is None or not self._ready:
            error = InstanceDied(f"Stub process '{self.setup.name}' is not healthy. It is being started again.")
            for execution in batch.executions:
                execution.send(InferenceResponse(error=error))
            done()
            return
        self._last_id += 1
        running = self._running[self._last_id] = _Running(self._last_id, batch, done)
        entries = self._entries(batch, running, worker.channel)
        if not entries:
            self._finish(running)
        elif sum([entry.layout.total for entry in entries]) >= channel.LARGE:
            self._send_large(worker, running, entries)
        elif self._outgoing:
            # What is being copied goes first: batches are executed in the order they came.
            self._outgoing.append(_Outgoing(running, entries))
        else:
            worker.channel.send_parcel(Kind.EXECUTE, running.id, entries)

    def cancel(self, execution: Execution) -> None:
        """Tell the worker; the request's final response still comes."""
        worker = self._worker
        if worker is None:
            return
        for request_id, opened in self._open.items():
            if opened.execution is execution:
                worker.channel.send(frames.pack(Kind.CANCEL, request_id))
                return

    def interrupt(self, reason: str) -> None:
        """Kill the worker; it is started again."""
        if self._worker is not None:
            self._worker.kill(f"It {reason}.")

    async def close(self) -> None:
        """Finalise the model; kill the worker where that takes longer than ``finalize_timeout``.

        A worker that still executes is killed at once: whoever closes has waited as long as it wanted to.
        """
        self._closing = True
        if self._restart is not None:
            self._restart.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        worker = self._worker
        if worker is None or worker.gone.is_set():
            return
        ready, self._ready = self._ready, False
        if ready and not self._running:
            await self._finalize(worker)
        worker.kill("It was stopped.")
        await worker.gone.wait()

    async def _finalize(self, worker: WorkerProcess) -> None:
        self._answer = self._loop.create_future()
        worker.channel.send(frames.pack_json(Kind.STATE, 0, {"state": "FINALIZE"}))
        try:
            async with asyncio.timeout(self.setup.finalize_timeout or None):
                state = await self._answer
                if state["reason"]:
                    _log.info("finalize of '%s' raised: %s", self.setup.name, state["reason"])
                await worker.gone.wait()
        except TimeoutError:
            _log.warning("'%s' did not finalise within %g s", self.setup.name, self.setup.finalize_timeout)
        except LoadFailed as exc:
            _log.warning("'%s' died while it finalised: %s", self.setup.name, exc)
        finally:
            self._answer = None

    # -- a batch on its way out --------------------------------------------------------------------------------------

    def _entries(self, batch: Batch, running: _Running, target: Channel) -> list[Entry]:
        entries: list[Entry] = []
        for execution in batch.executions:
            self._last_id += 1
            opened = self._open[self._last_id] = _Open(execution, running)
            try:
                entries.append(codec.request_entry(self._last_id, execution.request, target.signatures))
            except InferError as exc:
                self._deliver(self._last_id, opened, InferenceResponse(error=exc))
        return entries

    def _send_large(self, worker: WorkerProcess, running: _Running, entries: list[Entry]) -> None:
        """Copy the tensors on a pool thread, then send: the loop goes on meanwhile."""
        slab = worker.channel.pool.take(sum(entry.layout.total for entry in entries))
        outgoing = _Outgoing(running, entries, slab, ready=False)
        self._outgoing.append(outgoing)

        def copied(future: asyncio.Future[None]) -> None:
            error = future.exception()
            if error is not None:
                worker.kill(f"its inputs could not be copied: {error}")
            outgoing.ready = True
            self._send_outgoing(worker)

        copying = asyncio.ensure_future(self._context.run_blocking(channel.fill, slab, entries), loop=self._loop)
        copying.add_done_callback(copied)

    def _send_outgoing(self, worker: WorkerProcess) -> None:
        """Send what is copied, as far as nothing before it is still being copied."""
        while self._outgoing and self._outgoing[0].ready:
            outgoing = self._outgoing.popleft()
            if outgoing.running.id in self._running and not worker.channel.closed:
                worker.channel.send_parcel(Kind.EXECUTE, outgoing.running.id, outgoing.entries, slab=outgoing.slab)

    # -- frames on their way in --------------------------------------------------------------------------------------

    def _frame(self, frame: Frame, source: Channel) -> None:
        kind = frame.kind
        if kind == Kind.FINAL:
            self._final(frame, source)
        elif kind == Kind.RESPONSE:
            self._responses(*source.open_parcel(frame.payload))
        elif kind == Kind.CALL:
            book = self._books.get(source)
            if book is None:
                book = self._books[source] = calls.CallBook(source, self._context.caller)
                self._books = {key: value for key, value in self._books.items() if not key.closed}
            book.start(frame)
        elif kind in (Kind.CREDIT, Kind.CANCEL):
            book = self._books.get(source)
            if book is not None:
                (book.credit if kind == Kind.CREDIT else book.cancel)(frame)
        elif kind == Kind.STATE:
            if self._answer is not None and not self._answer.done():
                self._answer.set_result(json.loads(frame.payload))
        elif kind != Kind.HELLO:
            msg = f"frame of unknown kind {kind}"
            raise FrameError(msg)

    def _final(self, frame: Frame, source: Channel) -> None:
        parcel, memory = source.open_parcel(frame.payload)
        running = self._running.get(frame.id)
        if running is None:
            return
        batch = running.batch
        batch.compute_start, batch.compute_input_end, batch.compute_output_start, batch.compute_end = parcel.stamps
        running.ended = True
        self._responses(parcel, memory)
        if self.setup.decoupled or not running.pending:
            self._finish(running)

    def _responses(self, parcel: frames.Parcel, memory: codec.Memory) -> None:
        raised, request_id = "", ""
        for item in parcel.items:
            opened = self._open.get(item.id)
            if opened is None:
                continue
            response = codec.read_response(item, memory)
            if item.flags & frames.ENTRY_RAISED:
                raised, request_id = item.text, opened.execution.request.request_id
                response.error = BackendFailure(item.text)
            self._deliver(item.id, opened, response)
        if raised:
            _log.error("%s", raised, extra={**self.setup.labels, "request_id": request_id})

    def _deliver(self, request_id: int, opened: _Open, response: InferenceResponse) -> None:
        if response.final:
            del self._open[request_id]
            running = opened.running
            running.pending -= 1
            opened.execution.send(response)
            if running.ended and not running.pending:
                self._finish(running)
            return
        opened.execution.send(response)
        opened.taken += 1
        if opened.taken == _CREDIT_STEP and self._worker is not None:
            opened.taken = 0
            self._worker.channel.send(calls.credit_frame(request_id, _CREDIT_STEP))

    def _finish(self, running: _Running) -> None:
        done, running.done = running.done, None
        running.ended = True
        self._running.pop(running.id, None)
        if done is not None:
            done()

    # -- death and return --------------------------------------------------------------------------------------------

    def _lost(self) -> None:
        """The worker takes nothing more; how it ended is known in a moment."""
        if self._ready and not self._closing:
            self._ready = False
            self._lost_ready = True
            self._tell(InstanceState.RESTARTING, f"Stub process '{self.setup.name}' is not healthy.")

    def _died(self, reason: str) -> None:
        was_ready, self._ready = self._ready or self._lost_ready, False
        self._lost_ready = False
        self._worker = None
        restart = was_ready and not self._closing
        if restart:
            _log.error("%s", reason, extra=self.setup.labels)
            self._tell(InstanceState.RESTARTING, reason)
        for book in self._books.values():
            book.close()
        self._books.clear()
        self._fail_open(reason)
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(LoadFailed(reason))
        if restart:
            if self._loop.time() - self._ready_since > self.setup.restart.settled:
                self._failures = 0
            self._schedule_restart(reason)

    def _fail_open(self, reason: str) -> None:
        self._outgoing.clear()
        opened, self._open = self._open, {}
        running, self._running = self._running, {}
        for each in running.values():
            each.ended = True
        for each in opened.values():
            each.execution.send(InferenceResponse(error=InstanceDied(reason)))
        for each in running.values():
            self._finish(each)

    def _schedule_restart(self, reason: str) -> None:
        self._failures += 1
        delay = self.setup.restart.delay(self._failures)
        if delay is None:
            self._tell(InstanceState.FAILED, reason)
        else:
            self._restart = self._loop.call_later(delay, self._start_again)

    def _start_again(self) -> None:
        self._restart = None
        self._task = self._loop.create_task(self._bring_back())

    async def _bring_back(self) -> None:
        try:
            await self.load()
        except (InferError, OSError) as exc:
            _log.error("'%s' could not be started again: %s", self.setup.name, exc, extra=self.setup.labels)
            self._tell(InstanceState.RESTARTING, str(exc))
            self._schedule_restart(str(exc))
        else:
            self._tell(InstanceState.READY, "")
        finally:
            self._task = None

    def _tell(self, state: InstanceState, reason: str) -> None:
        for observer in list(self._observers):
            observer(state, reason)
