"""The sequence batcher: requests that belong together go to one instance, in order, one at a time.

What is decided here is decided by the pure parts (``sequence_slots``, ``sequence_rounds``); this is the thin shell
that holds clock, timer and instances. An instance has one batch at a time, formed when it is free.

An *iterative* model gets a request again and again until it is done with it: every request is a sequence, with or
without an id of its own, and a request that the model gives back (rescheduling) waits for a later batch like others.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from time import monotonic_ns
from typing import TYPE_CHECKING

from ...backends.api.backend import Batch, Execution
from ...backends.api.errors import Cancelled, InferError, InstanceDied, QueueTimeout
from ...backends.api.request import SEQUENCE_END, SEQUENCE_START
from .response_order import ResponseOrder
from .scheduler import Scheduler
from .sequence_controls import SequenceControls
from .sequence_ids import SequenceIds
from .sequence_rounds import Rounds
from .sequence_settings import sequence_settings
from .sequence_slots import SequenceSlots
from .ticket import Phase, Ticket, WaitReason
from .wakeup import Wakeup

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ...backends.api.backend import LoopInstance
    from ...backends.api.model_config import ModelConfig
    from ...backends.api.request import InferenceRequest
    from ...backends.api.response import InferenceResponse
    from ..observe.statistics import ModelStatistics
    from .pool import InstanceSlot, PoolOptions
    from .sequence_slots import SequenceState

log = logging.getLogger("infer.scheduling")
_US = 1000


class SequenceScheduler(Scheduler):
    """The sequences of one model version with ``sequence_batching``. Serving loop only.

    :param hold: requests that must wait in slots, and ``backlog_hold`` requests that must wait for one, before the
        first batch is formed, once; 0 for none (``TRITONSERVER_DELAY_SCHEDULER`` and
        ``TRITONSERVER_BACKLOG_DELAY_SCHEDULER``, which tests use to fill queues).
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
        backlog_hold: int = 0,
        clock: Callable[[], int] = monotonic_ns,
    ) -> None:
        super().__init__(instances, statistics, loop, options, decoupled=config.decoupled)
        statistics.has_batcher()
        self._facts = options.facts
        self._settings = settings = sequence_settings(config)
        self._ids = SequenceIds(config, iterative=settings.iterative)
        self._controls = SequenceControls(config)
        self._rounds = Rounds(config, settings)
        self._slots: SequenceSlots[Ticket] = SequenceSlots(len(instances), settings.slots, settings.idle_ns)
        self._index = {slot: index for index, slot in enumerate(self.instances.slots)}
        ordered = settings.oldest is not None and settings.oldest.in_order
        self._orders = [ResponseOrder() for _ in instances] if ordered else []
        self._given_back: dict[Ticket, int] = {}
        """Requests that came back in the execution that is ending, and what the backend knows them by."""
        self._hold = _Hold(hold, backlog_hold)
        self._clock = clock
        self._wakeup = Wakeup(loop, clock, self._wake)

    @property
    def pending_count(self) -> int:
        """Requests that wait, and those that an instance has just given back."""
        return self._slots.waiting + len(self._given_back)

    # Requests

    def submit(self, request: InferenceRequest, on_response: Callable[[InferenceResponse], None]) -> Ticket:
        """Take a request in.

        Raises InvalidArgument where it cannot belong to a sequence, Unavailable when stopping or without instances.
        """
        request, key = self._ids.identified(request, self._slots)
        self._controls.check(request.correlation_id)
        ticket = self._admit(self._controls.dressed(request), on_response)
        start, end = bool(request.flags & SEQUENCE_START), bool(request.flags & SEQUENCE_END)
        if start and key in self._slots:
            log.warning("sequence %s begins anew before its end", self._ids.shown(key), extra=self._facts)
        now = ticket.queue_start
        deadline = now + request.timeout_us * _US if request.timeout_us else None
        sequence = self._slots.join(key, ticket, now, start=start, end=end, deadline=deadline)
        if sequence is None:
            raise self._ids.unknown(request)
        self._waits(ticket, sequence)
        self._advance()
        return ticket

    def cancel(self, ticket: Ticket, error: InferError | None = None) -> None:
        """A client is gone. A sequence that lacks a request is worth nothing: what else waits of it ends with it."""
        if ticket.phase is not Phase.PENDING:
            super().cancel(ticket, error)
            return
        error = error or Cancelled("request was cancelled before it was executed")
        self._fail_waiting(self._slots.cut_off(ticket, self._clock()), error)
        self._advance()

    def reschedule(self, ticket: Ticket, mark: int) -> None:
        """A model gives a request back: it waits once more when the execution is over."""
        if not self._settings.iterative:
            super().reschedule(ticket, mark)
        else:
            self._executing.discard(ticket)
            self._given_back[ticket] = mark

    def feed(self, slot: InstanceSlot) -> None:
        """An instance has room: it takes the batch that is due, or stands by."""
        self._slots.restore(self._index[slot], self._clock())
        self.instances.stand_by(slot)
        self._advance()

    def batch_done(self, slot: InstanceSlot, batch: Batch) -> None:
        """An instance is done with a batch: the next requests of its sequences may execute."""
        executions = batch.executions
        given_back = [each for each in executions if isinstance(each, Ticket) and each in self._given_back]
        if given_back:
            batch.executions = [each for each in executions if each not in self._given_back]
        super().batch_done(slot, batch)
        self._release(batch.executions)
        for ticket in given_back:
            self._take_back(ticket)

    def lost(self, slot: InstanceSlot, error: InferError) -> None:
        """An instance is gone, and with it what it knew of its sequences. Those that have not begun go elsewhere."""
        items = self._slots.lose(self._index[slot], self._clock())
        self._fail_waiting(
            items,
            InstanceDied(
                f"the sequence has ended, because the instance that held its state is gone ({error}); "
                "begin it anew with the START flag"
            ),
        )
        self._advance()

    async def close(self) -> None:
        """Close the instances; what is still in flight fails first."""
        self._wakeup.cancel()
        await super().close()

    def _withdraw(self, ticket: Ticket) -> bool:
        return ticket in self._slots.cut_off(ticket, self._clock())

    def _withdraw_all(self) -> Sequence[Ticket]:
        return self._slots.drain()

    # One request

    def _waits(self, ticket: Ticket, sequence: SequenceState[Ticket]) -> None:
        """A request has come to wait, for the reason that is nearest."""
        self._statistics.pending += 1
        if sequence.slot is None:
            ticket.wait_reason = WaitReason.NO_SEQUENCE_SLOT
        elif sequence.running is not None or len(sequence.waiting) > 1:
            ticket.wait_reason = WaitReason.SEQUENCE_BUSY
        else:
            ticket.wait_reason = WaitReason.BATCH_MAY_GROW if self.instances.idle else self.instances.busy_reason

    def _take_back(self, ticket: Ticket) -> None:
        """A request that its model has given back waits once more, as one in the middle of its sequence."""
        mark = self._given_back.pop(ticket)
        if ticket.cancelled or ticket.phase is Phase.DONE:
            ticket.fail(Cancelled("request was cancelled before it was executed again"))
            self._release((ticket,))
            return
        sequence = self._slots.again(ticket, self._clock())
        if sequence is None:
            ticket.fail(InstanceDied("the request cannot be executed again, because its sequence has ended"))
            return
        request = replace(ticket.request, flags=0, earlier=mark, form=None)
        ticket.wait_again(self._controls.dressed(request))
        self._waits(ticket, sequence)

    def _release(self, executions: Iterable[Execution]) -> None:
        now = self._clock()
        for execution in executions:
            if isinstance(execution, Ticket):
                self._slots.release(execution, now, ends=self._settings.iterative)

    def _fail_waiting(self, tickets: Sequence[Ticket], error: InferError) -> None:
        self._statistics.pending -= len(tickets)
        for ticket in tickets:
            ticket.fail(error)

    # Rounds

    def _advance(self) -> None:
        """Have every idle instance execute what is due of its sequences, and be woken for what is not due yet."""
        moments = [self._slots.next_event]
        if not self._hold.keeps(self._slots):
            moments += [self._serve(slot) for slot in tuple(self.instances.idle)]
        wake_at = min((moment for moment in moments if moment is not None), default=None)
        if wake_at is not None:
            self._wakeup.by(wake_at)

    def _serve(self, slot: InstanceSlot) -> int | None:
        """Have an idle instance execute a batch of its ready sequences; where none is due yet, when one may be."""
        idle, index = self.instances.idle, self._index[slot]
        # What an instance refuses leaves it idle. What another one executes may have ended already, and by that have
        # given this one a batch.
        while slot in idle and (ready := self._slots.ready(index)):
            verdict = self._rounds.decide(ready, self._clock())
            if not verdict.batch:
                return verdict.wake_at
            idle.remove(slot)
            self._statistics.record_limit(verdict.limit)
            items = [None if sequence is None else self._slots.take(sequence) for sequence in verdict.batch]
            tickets = [ticket for ticket in items if ticket is not None]
            self._statistics.pending -= len(tickets)
            if not self._hand_over_rows(slot, items, tickets):
                self._release(tickets)
                self.instances.stand_by(slot)
        return None

    def _hand_over_rows(self, slot: InstanceSlot, items: Sequence[Ticket | None], tickets: Sequence[Ticket]) -> bool:
        """Have an instance execute tickets, each in its row. False where it refuses them, which answers them.

        A row without a request reaches only a model that can tell it from one (READY): to others it would be work.
        """
        if len(tickets) == len(items) or not self._controls.tells_rows:
            return self._hand_over(slot, tickets, len(tickets))
        like = tickets[0].request
        executions = [item or _Nothing(self._controls.nothing(like)) for item in items]
        batch = Batch(executions, len(executions))
        self._executing.update(tickets)
        self._begin(slot, batch, tickets)
        return self.instances.execute(slot, batch)

    def _begin(self, slot: InstanceSlot, batch: Batch, tickets: Sequence[Ticket]) -> None:
        """Requests execute from now on; where that is asked for, their responses have their turn in this order."""
        super()._begin(slot, batch, tickets)
        if self._orders:
            for ticket in tickets:
                if not ticket.rounds:
                    ticket.in_turn(self._orders[self._index[slot]])

    # Time

    def _wake(self) -> None:
        expired = self._slots.expire(self._clock())
        for key in expired.idle:
            log.info(
                "sequence %s has ended: it was idle for max_sequence_idle_microseconds (%d)",
                self._ids.shown(key),
                self._settings.idle_ns // _US,
                extra=self._facts,
            )
        self._fail_waiting(expired.late, QueueTimeout("timeout of the corresponding sequence has been expired"))
        self._advance()


@dataclass(slots=True)
class _Hold:
    """What must wait before the first batch is formed, once: requests in slots, and requests in the backlog."""

    in_slots: int
    in_backlog: int

    def keeps(self, slots: SequenceSlots[Ticket]) -> bool:
        """Whether everything is still kept back."""
        enough = slots.waiting - slots.in_backlog >= self.in_slots and slots.in_backlog >= self.in_backlog
        if enough:
            self.in_slots = self.in_backlog = 0
        return not enough


class _Nothing:
    """What executes in a row that has no request: nobody waits for its response."""

    __slots__ = ("request",)

    cancelled = False
    paused = False

    def __init__(self, request: InferenceRequest) -> None:
        self.request = request

    def send(self, response: InferenceResponse) -> None:
        """Give the buffers back."""
        response.release()

    def reschedule(self, mark: int) -> None:
        """There is nothing to do once more."""
