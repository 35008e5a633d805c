"""The default scheduler: one request an execution, on whichever instance is free.

A lone instance in another process is handed its next requests while it executes, so that it need not wait for the loop
between short executions. To the world such a request still waits until its turn comes: it counts as pending, and a
cancel answers it at once. It is done only while executions are short, for as many as are executed within
PREFETCH_BELOW_NS (those that are with a worker when it dies fail with it), and never with several instances: the call
of a model that executes could wait behind its own caller. An instance whose executions overlap takes requests as long
as it has places, and every one of them executes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .pending import PendingQueue
from .scheduler import Scheduler

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping, Sequence

    from ...backends.api.backend import Batch, LoopInstance
    from ...backends.api.request import InferenceRequest
    from ...backends.api.response import InferenceResponse
    from ..observe.statistics import ModelStatistics
    from .pool import InstanceSlot, PoolOptions
    from .ticket import Ticket

PREFETCH_BELOW_NS = 1_000_000
"""Longest execution after which the next request is handed over early, and how long several may take together."""
_PAIR = 2


class DefaultScheduler(Scheduler):
    """The queue of one model version, first in, first out. Serving loop only."""

    def __init__(
        self,
        instances: Mapping[str, LoopInstance],
        statistics: ModelStatistics,
        loop: asyncio.AbstractEventLoop,
        options: PoolOptions,
        *,
        decoupled: bool = False,
    ) -> None:
        super().__init__(instances, statistics, loop, options, decoupled=decoupled)
        self._pending: PendingQueue[Ticket] = PendingQueue()

    @property
    def pending_count(self) -> int:
        """Requests in the queue; those handed over early count as executing here."""
        return len(self._pending)

    def submit(self, request: InferenceRequest, on_response: Callable[[InferenceResponse], None]) -> Ticket:
        """Take a request in. Raises Unavailable when stopping or when no instance can ever take it now."""
        ticket = self._admit(request, on_response)
        idle = self.instances.idle
        if idle:
            slot = idle.pop()
            if not self._hand_over(slot, (ticket,), request.batch_size):
                self.instances.release(slot)
            return ticket
        ticket.wait_reason = self.instances.busy_reason
        self._statistics.pending += 1
        lone = self.instances.lone
        if lone is not None and len(lone.batches) < lone.room and not self._pending:
            self._dispatch_pending(lone, ticket)
        else:
            self._pending.append(ticket)
        return ticket

    def feed(self, slot: InstanceSlot) -> None:
        """The instance takes the oldest requests that it has room for."""
        while self._pending and len(slot.batches) < slot.room:
            self._dispatch_pending(slot, self._pending.pop())

    def batch_done(self, slot: InstanceSlot, batch: Batch) -> None:
        """What the execution took decides whether the next request is handed over early."""
        super().batch_done(slot, batch)
        if self.instances.lone is slot:
            slot.room = room_after(batch.compute_end - batch.compute_start, slot.instance.depth)

    def _withdraw(self, ticket: Ticket) -> bool:
        return self._pending.remove(ticket)

    def _withdraw_all(self) -> Sequence[Ticket]:
        return self._pending.drain()

    def _dispatch_pending(self, slot: InstanceSlot, ticket: Ticket) -> None:
        """Hand over a request that waits: it executes now, or when what is there before it is done."""
        if slot.has_place:
            self._statistics.pending -= 1
        self._hand_over(slot, (ticket,), ticket.request.batch_size)


def room_after(execution_ns: int, depth: int) -> int:
    """How many requests an instance that takes ``depth`` may have at a time, by what its last execution took."""
    if not 0 < execution_ns < PREFETCH_BELOW_NS:
        return 1
    return min(depth, max(_PAIR, PREFETCH_BELOW_NS // execution_ns))
