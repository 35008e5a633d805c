"""What every scheduler is: the instances of one model version, and the way out for every request.

A scheduler of its own kind adds the queue: which requests an instance gets when it is free, and when.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from time import monotonic_ns
from typing import TYPE_CHECKING

from ...backends.api.backend import Batch
from ...backends.api.errors import Cancelled, InferError, Internal, Unavailable
from .leaving import Leaving
from .pool import InstancePool, PoolOptions, fail_open
from .ticket import Phase, Ticket

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...backends.api.backend import LoopInstance
    from ...backends.api.request import InferenceRequest
    from ...backends.api.response import InferenceResponse
    from ..observe.statistics import ModelStatistics
    from .pool import InstanceSlot

log = logging.getLogger("infer.scheduling")

STOPPING = "Server is stopping, scheduler for model has stopped accepting new inference requests"

NOT_ITERATIVE = (
    "Request is released with TRITONSERVER_REQUEST_RELEASE_RESCHEDULE, while the model is not configured to handle "
    "such a flag."
)


class Scheduler(ABC):
    """The requests of one model version, and the instances that execute them. Serving loop only."""

    def __init__(
        self,
        instances: Mapping[str, LoopInstance],
        statistics: ModelStatistics,
        loop: asyncio.AbstractEventLoop,
        options: PoolOptions,
        *,
        decoupled: bool = False,
    ) -> None:
        self.name = statistics.name
        """The model's."""
        self.accepting = True
        self._statistics = statistics
        self._loop = loop
        self._decoupled = decoupled
        self._executing: set[Ticket] = set()
        self._early: set[Ticket] = set()
        """Those of ``_executing`` that an instance was handed before it was free: to the world they still wait."""
        self._drained: list[asyncio.Future[None]] = []
        self.instances = InstancePool(instances, loop, self, options)
        self.leaving = Leaving(self._executing, self.instances.close_instance)
        """Instances that a change of the instance groups has left over."""

    # What a scheduler of its own kind says

    @abstractmethod
    def submit(self, request: InferenceRequest, on_response: Callable[[InferenceResponse], None]) -> Ticket:
        """Take a request in. Raises Unavailable when stopping or when no instance can ever take it now."""

    @property
    @abstractmethod
    def pending_count(self) -> int:
        """Requests in the queue."""

    @abstractmethod
    def feed(self, slot: InstanceSlot) -> None:
        """A ready instance has room: hand it what is due."""

    @abstractmethod
    def _withdraw(self, ticket: Ticket) -> bool:
        """Take a request out of the queue; False where it is not there."""

    @abstractmethod
    def _withdraw_all(self) -> Sequence[Ticket]:
        """Take every request out of the queue, the oldest first."""

    # Requests

    def cancel(self, ticket: Ticket, error: InferError | None = None) -> None:
        """A client is gone: drop the request if it waits, tell the instance if it executes.

        With an ``error`` one that executes ends as well, at once and with that.
        """
        if ticket.phase is Phase.PENDING:
            error = error or Cancelled("request was cancelled before it was executed")
            if self._withdraw(ticket):
                self._statistics.pending -= 1
                ticket.fail(error)
                return
        if ticket.instance is not None:
            ticket.instance.cancel(ticket)
        if error is not None:
            ticket.fail(error)

    def reschedule(self, ticket: Ticket, mark: int) -> None:  # noqa: ARG002  for schedulers that can
        """A model gives a request back, which this scheduler has no second turn for."""
        error = Internal(NOT_ITERATIVE)
        log.error("%s", error, extra={"request_id": ticket.request.request_id})
        ticket.fail(error)

    def finished(self, ticket: Ticket) -> None:
        """A ticket has its final response."""
        self._executing.discard(ticket)
        if ticket in self._early:
            self._early.remove(ticket)
            self._statistics.pending -= 1
        if self.leaving.slots:
            self.leaving.look()
        if self._drained and not self.in_flight:
            waiters, self._drained = self._drained, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    @property
    def in_flight(self) -> int:
        """Requests that wait or execute. Any thread."""
        return self.pending_count + len(self._executing)

    # Instances

    def batch_done(self, slot: InstanceSlot, batch: Batch) -> None:
        """An instance is done with a batch: count it, and leave none of its requests open."""
        _record(self._statistics, batch)
        if not self._decoupled and not self._executing.isdisjoint(batch.executions):
            fail_open(batch, Internal(f"instance '{slot.name}' returned without a response to this request"))
        if self.leaving.slots:
            self.leaving.look()

    def batch_begins(self, slot: InstanceSlot, batch: Batch) -> None:
        """The turn of a batch that was handed over early has come: its requests wait no longer."""
        waited = [each for each in batch.executions if isinstance(each, Ticket) and each in self._early]
        self._early.difference_update(waited)
        self._statistics.pending -= len(waited)
        self._begin(slot, batch, waited)

    def lost(self, slot: InstanceSlot, error: InferError) -> None:  # noqa: B027  most keep nothing by instance
        """An instance takes nothing more, and what it knew is gone."""

    def no_instance(self, error: InferError) -> None:
        """The last ready instance is gone: what waits for one fails."""
        for ticket in self._withdraw_all():
            self._statistics.pending -= 1
            ticket.fail(error)

    # The end

    async def wait_idle(self) -> None:
        """Wait until every request has its final response; new ones are still taken while ``accepting`` says so."""
        while self.in_flight:
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._drained.append(waiter)
            await waiter

    def abort(self, error: InferError) -> None:
        """End everything that is in flight with ``error``."""
        self.accepting = False
        self.no_instance(error)
        for ticket in tuple(self._executing):
            ticket.fail(error)

    async def close(self) -> None:
        """Close the instances; what is still in flight fails first."""
        self.abort(Unavailable(STOPPING))
        await asyncio.gather(self.instances.close(), self.leaving.finish())

    # For schedulers of their own kind

    def _admit(self, request: InferenceRequest, on_response: Callable[[InferenceResponse], None]) -> Ticket:
        """A ticket for a request that may come in. Raises Unavailable."""
        if not self.accepting:
            raise Unavailable(STOPPING)
        if not self.instances.any_ready:
            raise Unavailable(f"model '{request.model_name}' has no instance that is ready: {self.instances.reason}")
        return Ticket(request, self._statistics, self, on_response, decoupled=self._decoupled)

    def _hand_over(self, slot: InstanceSlot, tickets: Sequence[Ticket], rows: int) -> bool:
        """Have an instance execute requests: now, or when it is done with what it has.

        False where it refuses them, which answers them.
        """
        batch = Batch(tickets, rows)
        self._executing.update(tickets)
        if not slot.has_place:
            self._early.update(tickets)
            for ticket in tickets:
                ticket.hand_over(batch, slot.instance)
        else:
            self._begin(slot, batch, tickets)
        return self.instances.execute(slot, batch)

    def _begin(self, slot: InstanceSlot, batch: Batch, tickets: Sequence[Ticket]) -> None:
        """Requests execute from now on."""
        now = monotonic_ns()
        for ticket in tickets:
            ticket.start_execution(batch, slot.instance, now)


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
