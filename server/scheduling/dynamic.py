"""The dynamic batcher: requests that wait execute together.

No batch is fixed before an instance is free to take it: until then it grows, and priorities and time-outs count. What
is decided here is decided by the pure parts (``request_queue``, ``batch_policy``, ``response_order``); this is the
thin shell that holds clock, timer and instances.
"""

from __future__ import annotations

from time import monotonic_ns
from typing import TYPE_CHECKING

from ...backends.api.errors import FailureReason, QueueFull, QueueTimeout
from .batch_policy import Formation
from .batch_settings import batch_key, batch_policy, preserves_ordering, queue_settings
from .request_queue import RequestQueue
from .response_order import ResponseOrder
from .scheduler import Scheduler
from .ticket import WaitReason
from .wakeup import Wakeup

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping, Sequence

    from ...backends.api.backend import Batch, LoopInstance
    from ...backends.api.model_config import ModelConfig
    from ...backends.api.request import InferenceRequest
    from ...backends.api.response import InferenceResponse
    from ..observe.statistics import ModelStatistics
    from .batch_policy import Verdict
    from .pool import InstanceSlot, PoolOptions
    from .ticket import Ticket


_EARLY = 2
"""Batches that a lone instance has at a time: more would be fixed sooner than they need be."""


class DynamicScheduler(Scheduler):
    """The queue and the batches of one model version with ``dynamic_batching``. Serving loop only.

    :param hold: requests that must wait before the first batch is formed, once; 0 for none
        (``TRITONSERVER_DELAY_SCHEDULER``, which tests use to fill a queue).
    :param clock: monotonic nanoseconds.
    """

    def __init__(  # noqa: PLR0913  what a model version consists of; the options by name
        self,
        config: ModelConfig,
        instances: Mapping[str, LoopInstance],
        statistics: ModelStatistics,
        loop: asyncio.AbstractEventLoop,
        options: PoolOptions,
        *,
        hold: int = 0,
        clock: Callable[[], int] = monotonic_ns,
    ) -> None:
        super().__init__(instances, statistics, loop, options, decoupled=config.decoupled)
        statistics.has_batcher()
        self._policy = batch_policy(config)
        self._key = batch_key(config)
        self._queue: RequestQueue[Ticket] = RequestQueue(queue_settings(config))
        self._order = ResponseOrder() if preserves_ordering(config) else None
        self._forming: Formation[Ticket] | None = None
        self._hold = hold
        self._clock = clock
        self._wakeup = Wakeup(loop, clock, self._advance)
        self._hands_over_early = self._queue.settings.is_trivial

    @property
    def pending_count(self) -> int:
        """Requests in the queue."""
        return len(self._queue)

    def submit(self, request: InferenceRequest, on_response: Callable[[InferenceResponse], None]) -> Ticket:
        """Take a request in. Raises Unavailable when stopping or without instances, QueueFull at the bound."""
        ticket = self._admit(request, on_response)
        queue, idle = self._queue, self.instances.idle
        if idle and not queue and not self._hold and not self._policy.delay_ns and not request.timeout_us:
            # PERF: what nothing is waited for with goes to an idle instance without passing through the queue.
            slot = idle.pop()
            self._statistics.record_limit(self._policy.limit_alone(request.batch_size))
            if not self._hand_over(slot, (ticket,), request.batch_size):
                self.instances.release(slot)
            return ticket
        if not queue.append(ticket, request.priority, ticket.queue_start, request.timeout_us):
            self._statistics.record_failure(FailureReason.REJECTED, 0)
            raise QueueFull(f"[request id: {request.request_id or '<id_unknown>'}] Exceeds maximum queue size")
        self._statistics.pending += 1
        forming = self._forming
        if forming is not None:
            if queue.is_last(ticket):
                self._offer(forming, ticket)
            else:
                self._forming = None
        if idle:
            ticket.wait_reason = WaitReason.BATCH_MAY_GROW
            if request.timeout_us:
                # A time-out of a few microseconds is over before an instance could begin: that shows in a turn's time.
                self._loop.call_soon(self._advance)
            else:
                self._advance()
        else:
            ticket.wait_reason = self.instances.busy_reason
            self._arm(None)
            self._hand_over_early()
        return ticket

    def feed(self, slot: InstanceSlot) -> None:
        """An instance has room: it takes the batch that is due, or stands by for the one that grows."""
        self.instances.stand_by(slot)
        self._advance()

    async def close(self) -> None:
        """Close the instances; what is still in flight fails first."""
        self._wakeup.close()
        await super().close()

    def _withdraw(self, ticket: Ticket) -> bool:
        if not self._queue.remove(ticket):
            return False
        self._forming = None
        if self.instances.idle:
            # Without this one the rest may be a batch that goes at once.
            self._loop.call_soon(self._advance)
        return True

    def _withdraw_all(self) -> Sequence[Ticket]:
        self._forming = None
        return self._queue.drain()

    # Forming batches

    def _advance(self) -> None:
        """Hand every batch that is due to an idle instance, and have the clock wake us for what is not due yet."""
        self._expire()
        wake_at: int | None = None
        idle = self.instances.idle
        while idle and self._queue and not self._held():
            forming = self._forming
            if forming is None:
                forming = self._forming = self._form()
            verdict = forming.decide(self._clock())
            if not verdict.batch:
                wake_at = verdict.wake_at
                break
            slot = idle.pop()
            self._dispatch(slot, verdict)
            self.instances.stand_by(slot)
        self._arm(wake_at)
        self._hand_over_early()

    def _hand_over_early(self) -> None:
        """Give a lone busy instance its next batch when that is complete: nothing that comes would change it.

        PERF: the instance then need not wait for the loop, which has the answers of a whole batch to send.
        """
        slot = self.instances.lone if self._hands_over_early else None
        if slot is None or not self._queue or not 0 < len(slot.batches) < min(slot.instance.depth, _EARLY):
            return
        forming = self._forming
        if forming is None:
            forming = self._forming = self._form()
        if forming.closed:
            self._dispatch(slot, forming.decide(self._clock()))

    def _expire(self) -> None:
        """Answer the requests whose time is up; those that are served all the same have a new place."""
        rejected, moved = self._queue.expire(self._clock())
        if moved:
            self._forming = None
        for ticket in rejected:
            self._statistics.pending -= 1
            ticket.fail(QueueTimeout("Request timeout expired"))

    def _held(self) -> bool:
        if len(self._queue) >= self._hold:
            self._hold = 0
        return self._hold > 0

    def _form(self) -> Formation[Ticket]:
        forming: Formation[Ticket] = Formation(self._policy)
        for ticket in self._queue:
            self._offer(forming, ticket)
            if forming.closed:
                break
        return forming

    def _offer(self, forming: Formation[Ticket], ticket: Ticket) -> None:
        if not forming.closed:
            request = ticket.request
            forming.offer(ticket, request.batch_size, self._key(request), ticket.queue_start)

    def _dispatch(self, slot: InstanceSlot, verdict: Verdict[Ticket]) -> None:
        """Have an instance execute a batch of the queue, or keep it until it is done with what it has."""
        self._forming = None
        self._statistics.record_limit(verdict.limit)
        tickets, rows = verdict.batch, 0
        for ticket in tickets:
            self._queue.remove(ticket)
            rows += ticket.request.batch_size
        if slot.has_place:
            self._statistics.pending -= len(tickets)
        self._hand_over(slot, tickets, rows)

    def _begin(self, slot: InstanceSlot, batch: Batch, tickets: Sequence[Ticket]) -> None:
        """Requests execute from now on; their responses have their turn in this order."""
        super()._begin(slot, batch, tickets)
        if self._order is not None:
            for ticket in tickets:
                ticket.in_turn(self._order)

    def _arm(self, wake_at: int | None) -> None:
        """Be woken at the first of a batch's moment and the next deadline."""
        deadline = self._queue.next_deadline
        if deadline is not None:
            # A deadline has passed when the clock is later than it.
            wake_at = deadline + 1 if wake_at is None else min(wake_at, deadline + 1)
        self._wakeup.at(wake_at)
