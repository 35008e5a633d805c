"""Watches the calls between models that have to queue, and fails one that waits for itself.

What is certain (the instance that calls does nothing else meanwhile) is seen as soon as the call queues. A call that is
made beside an execution, by a thread or a coroutine, may not be waited for: it counts once it has waited for a while.
"""

from __future__ import annotations

import logging
import weakref
from itertools import islice
from time import monotonic_ns
from typing import TYPE_CHECKING, NamedTuple

from ...backends.api.backend import InstanceState
from ...backends.api.errors import Unavailable
from .scheduler import Scheduler
from .ticket import Phase, Ticket
from .wait_cycles import Place, Queue, Wait, cycle, sentence, stuck

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Hashable, Iterable

    from ...backends.api.backend import Batch
    from ...backends.api.call import OpenCall
    from .pool import InstanceSlot

log = logging.getLogger("infer.scheduling")

DOUBT_S = 1.0
"""How long a call that perhaps nothing waits for has to be open before it counts."""
LOOK_S = 0.5
"""How often that is looked at: a worker too takes its time to say that it is held up, and two seconds are the limit."""
_DOUBT_NS = int(DOUBT_S * 1_000_000_000)


class WaitWatch:
    """The calls between models that wait. Serving loop only. ``clock`` is in monotonic nanoseconds."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Callable[[], int] = monotonic_ns) -> None:
        self._loop = loop
        self._clock = clock
        self._new: list[Ticket] = []
        self._waiting: weakref.WeakSet[Ticket] = weakref.WeakSet()
        self._timer: asyncio.TimerHandle | None = None

    def called(self, ticket: Ticket) -> None:
        """A model has called another one. One that has its instance to itself needs no watching."""
        instance = ticket.instance
        if ticket.phase is Phase.PENDING or (instance is not None and instance.overlaps):
            if not self._new:
                # The instance that calls does not know its call before this turn of the loop is over.
                self._loop.call_soon(self._look)
            self._new.append(ticket)

    def close(self) -> None:
        """Watch no longer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._waiting.clear()

    def _look(self) -> None:
        """Find what is certain to wait for itself, and remember what still waits."""
        tickets, self._new = self._new, []
        self._resolve(tickets)
        self._waiting.update([ticket for ticket in tickets if ticket.phase is Phase.PENDING])
        self._arm()

    def look_again(self) -> None:
        """Find what has turned out to wait for itself. Called by the clock while there is anything to look at."""
        self._timer = None
        before = self._clock() - _DOUBT_NS
        pending = [ticket for ticket in self._waiting if ticket.phase is Phase.PENDING]
        self._resolve([ticket for ticket in pending if ticket.queue_start <= before])
        self._waiting = weakref.WeakSet(ticket for ticket in pending if ticket.phase is Phase.PENDING)
        self._arm()

    def _arm(self) -> None:
        if self._timer is None and len(self._waiting):
            self._timer = self._loop.call_later(LOOK_S, self.look_again)

    def _resolve(self, tickets: list[Ticket]) -> None:
        """Fail calls until none of these waits for itself; of a circle the one that was made last."""
        tickets = sorted(tickets, key=lambda ticket: ticket.queue_start, reverse=True)
        while (found := _find(tickets, self._clock())) is not None:
            ticket, text = found
            log.warning("%s", text, extra={"model": ticket.request.model_name, "request_id": ticket.request.request_id})
            ticket.owner.cancel(ticket, Unavailable(text))


def _find(tickets: list[Ticket], now_ns: int) -> tuple[Ticket, str] | None:
    """The first of these calls that waits for itself, and what to say about it."""
    picture = survey(tickets, now_ns)
    nodes = stuck(picture)
    if not nodes:
        return None
    for ticket in tickets:
        places = cycle(picture, nodes, ticket, _node_of(ticket))
        if places:
            return ticket, sentence(places, ticket.request.model_name)
    return None


class _Execution(NamedTuple):
    """A place of the picture: one batch of an instance, or with None all of an instance that a call holds up."""

    scheduler: Scheduler
    slot: InstanceSlot
    batch: Batch | None


def survey(tickets: Iterable[Ticket], now_ns: int) -> dict[Hashable, Place | Queue]:
    """The picture of what these calls wait for, and what that waits for in turn."""
    before = now_ns - _DOUBT_NS
    picture: dict[Hashable, Place | Queue] = {}
    unseen = [_node_of(ticket) for ticket in tickets]
    while unseen:
        key = unseen.pop()
        if key is None or key in picture:
            continue
        if isinstance(key, _Execution):
            waits = tuple(Wait(ticket, _node_of(ticket)) for ticket in _awaited(key, before))
            picture[key] = Place(key.slot.name, key.scheduler.name, waits)
            unseen += [_node_of(ticket) for ticket in _awaited(key, before)]
        else:
            executions = _executions(key, before)
            picture[key] = Queue(tuple(executions or ()), free=executions is None)
            unseen += executions or ()
    return picture


def _node_of(ticket: Ticket) -> Scheduler | _Execution | None:
    """What has to go on before a call ends; None where that does not depend on anything that is known."""
    scheduler = ticket.owner
    if ticket.phase is Phase.DONE or not isinstance(scheduler, Scheduler):
        return None
    if ticket.phase is Phase.PENDING:
        return scheduler
    slots = (*scheduler.instances.slots, *scheduler.leaving.slots)
    slot = next((slot for slot in slots if slot.instance is ticket.instance), None)
    if slot is None or slot.state is not InstanceState.READY:
        return None
    holding = _holding(slot)
    if ticket.decoupled and not any(each.request_start <= ticket.execution_start for each in holding):
        # It may be answered before its execution ends.
        return None
    if holding:
        return _Execution(scheduler, slot, None)
    return _Execution(scheduler, slot, ticket.batch) if ticket.batch in slot.batches else None


def _executions(scheduler: Scheduler, before: int) -> list[_Execution] | None:
    """What executes on the instances of a model; None where one of them has room, or will have it whatever happens."""
    found: list[_Execution] = []
    for slot in scheduler.instances.slots:
        if slot.state is not InstanceState.READY:
            if slot.may_return:
                return None
        elif _holding(slot):
            found.append(_Execution(scheduler, slot, None))
        else:
            waiting = {each.batch for each in slot.instance.calls() if _counts(each, before)}
            executing = list(islice(slot.batches, slot.places))
            if slot.has_place or not waiting.issuperset(executing):
                return None
            found += [_Execution(scheduler, slot, batch) for batch in executing]
    return found


def _holding(slot: InstanceSlot) -> list[Ticket]:
    """The calls without which nothing on an instance goes on."""
    return [
        each.call
        for each in slot.instance.calls()
        if each.blocking and not each.answered and isinstance(each.call, Ticket)
    ]


def _awaited(key: _Execution, before: int) -> list[Ticket]:
    """The calls that an execution waits for."""
    if key.batch is None:
        return _holding(key.slot)
    return [
        each.call
        for each in key.slot.instance.calls()
        if each.batch is key.batch and _counts(each, before) and isinstance(each.call, Ticket)
    ]


def _counts(call: OpenCall, before: int) -> bool:
    """Whether an execution is taken to wait for a call that was made on its way: it has no answer for a while."""
    return not call.answered and isinstance(call.call, Ticket) and call.call.request_start <= before
