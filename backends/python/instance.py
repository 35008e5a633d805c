"""A Python model's instance: a frame out, a frame in, on the serving loop.

What goes wrong with the worker is seen at once (its channel and its pidfd are watched): every open request fails with
the reason, observers are told, and the worker is started again, later and later while it keeps dying.
"""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..api.backend import InstanceState, LoopInstance
from ..api.errors import InstanceDied, LoadFailed
from ..api.response import InferenceResponse
from .batches import Batches
from .calls import CallBooks
from .desk import Desk
from .outbox import Outbox
from .readiness import ReadinessProbe
from .restart import Restarter, RestartPolicy
from .waiting import Waiting
from .worker import frames
from .worker.frames import Frame, FrameError, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..api.backend import BackendContext, Batch, Execution
    from ..api.call import OpenCall
    from .channel import Channel
    from .process import WorkerProcess
    from .threads import Threads, WorkerThread
    from .zygotes import Spawner

_ABOUT_CALLS = frozenset((Kind.CALL, Kind.CREDIT, Kind.CANCEL))
_log = logging.getLogger("infer.python")


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """What is fixed for an instance: HELLO's content, and how long load and finalize may take, in s (0: no limit)."""

    name: str
    hello: dict[str, Any]
    labels: dict[str, Any]
    decoupled: bool
    finalize_timeout: float = 30.0
    load_timeout: float = 0.0
    coroutine_depth: int = 64
    """Batches that a model whose ``execute`` is a coroutine may have at a time."""
    restart: RestartPolicy = field(default_factory=RestartPolicy)


class PythonInstance(LoopInstance):
    """One worker process, seen by the scheduler as an instance.

    It takes ``depth`` batches at once and executes them in order: while one executes, the next ones wait in the
    channel, no time is lost between them, and what takes microseconds need not wake both sides each time. That is for a
    model with one instance: with several, a batch that waits here could wait for a call that only another instance can
    answer. The executions of a model whose ``execute`` is a coroutine overlap, as many as the setup says.
    """

    depth = 8

    def __init__(self, context: BackendContext, spawner: Spawner | Threads, setup: WorkerSetup) -> None:
        """``spawner`` starts the worker: as a process, or as a thread."""
        self.setup = setup
        self._context = context
        self._loop = context.loop
        self._spawner = spawner
        self._worker: WorkerProcess | WorkerThread | None = None
        self._outbox: Outbox | None = None
        self._batches = Batches(setup.labels, self._send, decoupled=setup.decoupled)
        self._books = CallBooks(context.caller, self._batches.executing_under)
        self._desk: Desk | None = None
        self._probe = ReadinessProbe(setup.labels)
        self._restarter = Restarter(setup.restart, self.load, setup.name, setup.labels)
        self._ready = False
        self._was_up = False
        self._lost_ready = False
        self._closing = False
        self._answer: asyncio.Future[dict[str, Any]] | None = None
        self._waiting: Waiting | None = None

    @property
    def pid(self) -> int:
        """The worker's process id, 0 while there is none. Any thread."""
        worker = self._worker
        return worker.pid if worker is not None else 0

    @property
    def is_probed(self) -> bool:
        """Whether the model has ``is_ready``."""
        return self._probe.wanted

    async def check_ready(self) -> bool:
        """Ask the model's ``is_ready``; a worker that is gone is not ready."""
        return self._ready and (not self._probe.wanted or await self._probe.ask(self._send))

    def observe_state(self, observer: Callable[[InstanceState, str], None]) -> None:
        """Have the observer told of deaths and restarts."""
        self._restarter.observe(observer)

    async def load(self) -> None:
        """Spawn the worker and have it initialise the model. Raises LoadFailed with the model's own reason.

        A worker that is not ready in time is killed, and the reason says what it was doing.
        """
        setup = self.setup
        waiting = Waiting(f"instance '{setup.name}'", setup.load_timeout, setup.labels, "starting its interpreter")
        self._waiting = waiting
        try:
            async with waiting:
                await self._bring_up(waiting)
        except LoadFailed:
            await self._give_up()
            raise
        finally:
            self._waiting = None
        self._ready = self._was_up = True
        self._restarter.up()

    async def _bring_up(self, waiting: Waiting) -> None:
        worker = self._worker = await self._spawner.spawn(self.setup.name, self.setup.labels)
        waiting.last_words = lambda: worker.last_words
        worker.on_loss = self._lost
        worker.on_death = self._died
        worker.on_frame = self._frame
        self._outbox = Outbox(worker, self._context.run_blocking)
        self._desk = Desk(self._context, self.setup.labels["model"], lambda: not self._ready)
        self._answer = self._loop.create_future()
        worker.channel.send(frames.pack_json(Kind.HELLO, 0, self.setup.hello))
        try:
            state = await self._answer
        finally:
            self._answer = None
        if state["state"] != "READY":
            await worker.gone.wait()
            raise LoadFailed(state["reason"])
        if worker.lost:
            # Its word and its death arrived together: nobody else would notice that it is not there.
            await worker.gone.wait()
            msg = f"Stub process '{self.setup.name}' ended as soon as it was ready."
            raise LoadFailed(msg)
        if state.get("coroutine") and not self._was_up:
            # A later worker may differ where the model's file was changed: the server goes on as it began.
            self.overlaps = True
            self.depth = self.setup.coroutine_depth
        self._probe.wanted = bool(state.get("is_ready"))

    async def _give_up(self) -> None:
        """A load has failed: nothing of it stays."""
        worker = self._worker
        if worker is not None:
            worker.kill("It was not ready in time.")
            await worker.gone.wait()

    def execute(self, batch: Batch, done: Callable[[], None]) -> None:
        """Send the batch to the worker."""
        outbox = self._outbox
        if outbox is None or not self._ready:
            error = InstanceDied(f"Stub process '{self.setup.name}' is not healthy. It is being started again.")
            for execution in batch.executions:
                execution.send(InferenceResponse(error=error))
            done()
            return
        batch_id, entries = self._batches.begin(batch, done, outbox.signatures)
        if entries:
            outbox.send(batch_id, entries)

    def cancel(self, execution: Execution) -> None:
        """Tell the worker; the request's final response still comes."""
        request_id = self._batches.id_of(execution)
        if request_id:
            self._send(frames.pack(Kind.CANCEL, request_id))

    def resume(self, execution: Execution) -> None:
        """Have the worker send again."""
        self._batches.resume(execution)

    def calls(self) -> Iterable[OpenCall]:
        """The calls of its worker, and of what that has forked."""
        return self._books.calls()

    def interrupt(self, reason: str) -> None:
        """Kill the worker; it is started again. A thread cannot be killed: its model sees its requests cancelled."""
        worker = self._worker
        if worker is not None and worker.killable:
            worker.kill(f"It {reason}.")
        elif worker is not None:
            for request_id in self._batches.open_ids():
                self._send(frames.pack(Kind.CANCEL, request_id))

    async def close(self) -> None:
        """Finalise the model; kill the worker where that takes longer than ``finalize_timeout``.

        A worker that still executes is killed at once: whoever closes has waited as long as it wanted to.
        """
        self._closing = True
        await self._restarter.close()
        worker = self._worker
        if worker is None or worker.gone.is_set():
            return
        ready, self._ready = self._ready, False
        if ready and not self._batches.executing:
            await self._finalize(worker)
        worker.kill("It was stopped.")
        await worker.gone.wait()

    async def _finalize(self, worker: WorkerProcess | WorkerThread) -> None:
        self._answer = self._loop.create_future()
        worker.channel.send(frames.pack_json(Kind.STATE, 0, {"state": "FINALIZE"}))
        try:
            async with asyncio.timeout(self.setup.finalize_timeout or None):
                state = await self._answer
                if state["reason"]:
                    _log.info("finalize of '%s' raised: %s", self.setup.name, state["reason"], extra=self.setup.labels)
                await worker.gone.wait()
        except TimeoutError:
            setup = self.setup
            _log.warning("'%s' did not finalise within %g s", setup.name, setup.finalize_timeout, extra=setup.labels)
        except LoadFailed as exc:
            _log.warning("'%s' died while it finalised: %s", self.setup.name, exc, extra=self.setup.labels)
        finally:
            self._answer = None

    def _send(self, frame: bytes) -> None:
        if self._worker is not None:
            self._worker.channel.send(frame)

    def _frame(self, frame: Frame, source: Channel) -> None:
        kind = frame.kind
        if kind == Kind.FINAL:
            self._batches.final(frame.id, *source.open_parcel(frame.payload))
        elif kind == Kind.RESPONSE:
            self._batches.respond(*source.open_parcel(frame.payload))
        elif kind in _ABOUT_CALLS:
            self._books.take(frame, source)
        elif kind in (Kind.QUERY, Kind.METRIC):
            if self._desk is not None:
                (self._desk.answer if kind == Kind.QUERY else self._desk.count)(frame, source)
        elif kind == Kind.PROBE:
            self._probe.answer(frame)
        elif kind == Kind.STATE:
            self._state(json.loads(frame.payload))
        elif kind != Kind.HELLO:
            msg = f"frame of unknown kind {kind}"
            raise FrameError(msg)

    def _state(self, state: dict[str, Any]) -> None:
        if state["state"] == "PHASE":
            if self._waiting is not None:
                self._waiting.enter(state["phase"])
        elif self._answer is not None and not self._answer.done():
            self._answer.set_result(state)

    def _lost(self) -> None:
        """The worker takes nothing more; how it ended is known in a moment."""
        if self._ready and not self._closing:
            self._ready = False
            self._lost_ready = True
            self._restarter.tell(InstanceState.RESTARTING, f"Stub process '{self.setup.name}' is not healthy.")

    def _died(self, reason: str) -> None:
        was_ready, self._ready = self._ready or self._lost_ready, False
        self._lost_ready = False
        self._worker = None
        restart = was_ready and not self._closing
        if restart:
            _log.error("%s", reason, extra=self.setup.labels)
            self._restarter.tell(InstanceState.RESTARTING, reason)
        self._books.close()
        self._probe.lost()
        if self._desk is not None:
            self._desk.close()
            self._desk = None
        if self._outbox is not None:
            self._outbox.clear()
            self._outbox = None
        self._batches.fail(reason)
        if self._closing:
            self._batches.close()
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(LoadFailed(reason))
        if restart:
            self._restarter.died(reason)
