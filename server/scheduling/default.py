"""The default scheduler: one request an execution, on whichever instance is free.

A lone instance in another process is handed its next request while it executes, so that it need not wait for the
loop between two short executions. To the world such a request still waits until its turn comes: it counts as pending,
and a cancel answers it at once. It is done only while executions are short (PREFETCH_BELOW_NS), and never with several
instances: the call of a model that executes could wait behind its own caller.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from functools import partial
from time import monotonic_ns
from typing import TYPE_CHECKING

from ...backends.api.backend import Batch, InstanceState
from ...backends.api.errors import Cancelled, InferError, Internal, Unavailable
from .pending import PendingQueue
from .ticket import Phase, Ticket, WaitReason

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...backends.api.backend import LoopInstance
    from ...backends.api.request import InferenceRequest
    from ...backends.api.response import InferenceResponse
    from ..observe.statistics import ModelStatistics

log = logging.getLogger("infer.scheduling")

PREFETCH_BELOW_NS = 1_000_000
"""Longest execution after which the next request is handed over early."""

STOPPING = "Server is stopping, scheduler for model has stopped accepting new inference requests"


class InstanceSlot:
    """One instance and what it is doing: ``batches`` in the order they were handed over, the first one executing."""

    __slots__ = ("_on_done", "batches", "done", "instance", "name", "reason", "room", "state", "timer")

    def __init__(self, name: str, instance: LoopInstance, on_done: Callable[[InstanceSlot], None]) -> None:
        self.name = name
        self.instance = instance
        self.batches: deque[Batch] = deque()
        self.room = 1
        """Batches that may be with the instance now."""
        self.timer: asyncio.TimerHandle | None = None
        self.state = InstanceState.READY
        self.reason = ""
        self._on_done = on_done
        self.done = self._done

    def start_timer(
        self, loop: asyncio.AbstractEventLoop, seconds: float, overdue: Callable[[InstanceSlot, Batch], None]
    ) -> None:
        """Have ``overdue`` called unless the first batch is done within ``seconds``."""
        self.timer = loop.call_later(seconds, overdue, self, self.batches[0])

    def stop_timer(self) -> None:
        """The first batch is done, or nobody waits for it any more."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _done(self) -> None:
        self._on_done(self)


class DefaultScheduler:
    """The queue of one model version and its instances. Serving loop only.

    :param on_health: called when an instance dies, is back or is given up.
    :param execute_timeout_s: longest execution, 0 for no limit. An instance that takes longer is interrupted, its
        requests fail, and it counts as not ready until it comes back.
    """

    def __init__(  # noqa: PLR0913  what a model version consists of; the options by name
        self,
        instances: Mapping[str, LoopInstance],
        statistics: ModelStatistics,
        loop: asyncio.AbstractEventLoop,
        *,
        decoupled: bool = False,
        execute_timeout_s: float = 0.0,
        on_health: Callable[[], None] = lambda: None,
    ) -> None:
        self.slots = [InstanceSlot(name, instance, self._executed) for name, instance in instances.items()]
        self.accepting = True
        self._statistics = statistics
        self._loop = loop
        self._decoupled = decoupled
        self._execute_timeout_s = execute_timeout_s
        self._on_health = on_health
        self._pending: PendingQueue[Ticket] = PendingQueue()
        self._executing: set[Ticket] = set()
        self._early: set[Ticket] = set()
        self._idle = self.slots[::-1]
        self._ready = len(self.slots)
        self._lone = self.slots[0] if len(self.slots) == 1 and self.slots[0].instance.depth > 1 else None
        self._drained: list[asyncio.Future[None]] = []
        for slot in self.slots:
            slot.instance.observe_state(partial(self._state_changed, slot))

    # Requests

    def submit(self, request: InferenceRequest, on_response: Callable[[InferenceResponse], None]) -> Ticket:
        """Take a request in. Raises Unavailable when stopping or when no instance can ever take it now."""
        if not self.accepting:
            raise Unavailable(STOPPING)
        if not self._ready:
            raise Unavailable(f"model '{request.model_name}' has no instance that is ready: {self.reason}")
        ticket = Ticket(request, self._statistics, self, on_response, decoupled=self._decoupled)
        lone = self._lone
        if self._idle:
            slot = self._idle.pop()
            if not self._dispatch(slot, ticket):
                self._free(slot)
        else:
            ticket.wait_reason = WaitReason.ALL_INSTANCES_BUSY if self.all_ready else WaitReason.SOME_RESTARTING
            self._statistics.pending += 1
            if lone is not None and len(lone.batches) < lone.room and not self._pending:
                self._dispatch_pending(lone, ticket)
            else:
                self._pending.append(ticket)
        return ticket

    def cancel(self, ticket: Ticket) -> None:
        """A client is gone: drop the request if it waits, tell the instance if it executes."""
        if ticket.phase is Phase.PENDING:
            if self._pending.remove(ticket):
                self._statistics.pending -= 1
            elif ticket.instance is not None:
                ticket.instance.cancel(ticket)
            ticket.fail(Cancelled("request was cancelled before it was executed"))
            return
        if ticket.instance is not None:
            ticket.instance.cancel(ticket)

    def finished(self, ticket: Ticket) -> None:
        """A ticket has its final response."""
        self._executing.discard(ticket)
        if ticket in self._early:
            self._early.remove(ticket)
            self._statistics.pending -= 1
        if self._drained and not self.in_flight:
            waiters, self._drained = self._drained, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    @property
    def in_flight(self) -> int:
        """Requests that wait or execute."""
        return len(self._pending) + len(self._executing)

    # Health

    @property
    def all_ready(self) -> bool:
        """Whether every instance can take requests."""
        return self._ready == len(self.slots)

    @property
    def reason(self) -> str:
        """Why instances are not ready, or ""."""
        return "; ".join(
            f"instance '{slot.name}' {slot.reason}" for slot in self.slots if slot.state is not InstanceState.READY
        )

    @property
    def any_ready(self) -> bool:
        """Whether at least one instance can take requests."""
        return self._ready > 0

    # The end

    async def drain(self) -> None:
        """Take nothing more in and wait until every request has its final response."""
        self.accepting = False
        await self.wait_idle()

    async def wait_idle(self) -> None:
        """Wait until every request has its final response; new ones are still taken."""
        while self.in_flight:
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._drained.append(waiter)
            await waiter

    def abort(self, error: InferError) -> None:
        """End everything that is in flight with ``error``."""
        self.accepting = False
        self._fail_pending(error)
        for ticket in tuple(self._executing):
            ticket.fail(error)

    async def close(self) -> None:
        """Close the instances, all at once; what is still in flight fails first."""
        self.abort(Unavailable(STOPPING))
        await asyncio.gather(*(_close(slot) for slot in self.slots))

    # Inside

    def _dispatch_pending(self, slot: InstanceSlot, ticket: Ticket) -> None:
        """Hand over a request that waits: it executes now, or when what is there before it is done."""
        if slot.batches:
            self._early.add(ticket)
        else:
            self._statistics.pending -= 1
        self._dispatch(slot, ticket)

    def _dispatch(self, slot: InstanceSlot, ticket: Ticket) -> bool:
        """Hand a request to an instance; False where that refused it, which answers it."""
        batch = Batch((ticket,), ticket.request.batch_size)
        self._executing.add(ticket)
        slot.batches.append(batch)
        if ticket in self._early:
            ticket.hand_over(batch, slot.instance)
        else:
            ticket.start_execution(batch, slot.instance, monotonic_ns())
            if self._execute_timeout_s:
                slot.start_timer(self._loop, self._execute_timeout_s, self._overdue)
        try:
            slot.instance.execute(batch, slot.done)
        except InferError as exc:
            slot.batches.remove(batch)
            ticket.fail(exc)
            return False
        return True

    def _turn_has_come(self, slot: InstanceSlot) -> None:
        """The instance goes on with a batch that it was handed early."""
        batch = slot.batches[0]
        for execution in batch.executions:
            if isinstance(execution, Ticket) and execution in self._early:
                self._early.remove(execution)
                self._statistics.pending -= 1
                execution.start_execution(batch, slot.instance, monotonic_ns())
        if self._execute_timeout_s:
            slot.start_timer(self._loop, self._execute_timeout_s, self._overdue)

    def _executed(self, slot: InstanceSlot) -> None:
        """The instance is done with its first batch."""
        batches = slot.batches
        slot.stop_timer()
        if batches:
            batch = batches.popleft()
            _record(self._statistics, batch)
            if not self._decoupled and not self._executing.isdisjoint(batch.executions):
                _fail_open(batch, Internal(f"instance '{slot.name}' returned without a response to this request"))
            if self._lone is slot:
                short = 0 < batch.compute_end - batch.compute_start < PREFETCH_BELOW_NS
                slot.room = slot.instance.depth if short else 1
            if batches:
                self._turn_has_come(slot)
        self._free(slot)

    def _free(self, slot: InstanceSlot) -> None:
        """The instance takes the oldest requests that it has room for, or waits for one."""
        if slot.state is InstanceState.READY:
            while self._pending and len(slot.batches) < slot.room:
                self._dispatch_pending(slot, self._pending.pop())
            if not slot.batches and slot not in self._idle:
                self._idle.append(slot)
        elif slot.state is InstanceState.FAILED and slot.reason.startswith(_OVERDUE) and not slot.batches:
            # An instance that was only late is back.
            self._state_changed(slot, InstanceState.READY, "")

    def _state_changed(self, slot: InstanceSlot, state: InstanceState, reason: str) -> None:
        slot.state, slot.reason = state, reason
        self._ready = sum(each.state is InstanceState.READY for each in self.slots)
        if state is InstanceState.READY:
            self._free(slot)
        else:
            if slot in self._idle:
                self._idle.remove(slot)
            if not self.any_ready:
                self._fail_pending(Unavailable(f"no instance is ready: {self.reason}"))
        self._on_health()

    def _overdue(self, slot: InstanceSlot, batch: Batch) -> None:
        """An execution took longer than it may."""
        slot.timer = None
        if not slot.batches or slot.batches[0] is not batch:
            return
        reason = f"{_OVERDUE} {self._execute_timeout_s:g} s (--execute-timeout)"
        log.error("instance '%s' %s", slot.name, reason)
        self._state_changed(slot, InstanceState.FAILED, reason)
        for each in slot.batches:
            _fail_open(each, Unavailable(f"instance '{slot.name}' {reason}"))
        slot.instance.interrupt(reason)

    def _fail_pending(self, error: InferError) -> None:
        for ticket in self._pending.drain():
            self._statistics.pending -= 1
            ticket.fail(error)


_OVERDUE = "did not come back within"


def _record(statistics: ModelStatistics, batch: Batch) -> None:
    """Count an executed batch."""
    start = batch.compute_start
    if start and batch.compute_end:
        input_end = batch.compute_input_end or start
        output_start = batch.compute_output_start or batch.compute_end
        statistics.record_batch(
            batch.rows,
            input_ns=max(input_end - start, 0),
            infer_ns=max(output_start - input_end, 0),
            output_ns=max(batch.compute_end - output_start, 0),
        )


def _fail_open(batch: Batch, error: InferError) -> None:
    """Fail what a batch has left open; the law says that nothing leaves without a final response."""
    for execution in batch.executions:
        if isinstance(execution, Ticket) and execution.phase is not Phase.DONE:
            execution.fail(error)


async def _close(slot: InstanceSlot) -> None:
    slot.stop_timer()
    try:
        await slot.instance.close()
    except Exception:
        log.exception("instance '%s' did not close cleanly", slot.name)
