"""The instances of one model version: which are free, which are busy with what, which are down and why.

The pool hands batches over and notices when they are done, late or lost. What an instance gets, and when, is its
owner's business: the scheduler.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ...backends.api.backend import InstanceState
from ...backends.api.errors import InferError, Unavailable
from .ticket import Phase, Ticket, WaitReason

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from ...backends.api.backend import Batch, LoopInstance

log = logging.getLogger("infer.scheduling")

_OVERDUE = "did not come back within"


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """What a pool is told.

    ``execute_timeout_s`` is the longest execution, 0 for no limit: an instance that takes longer is interrupted, its
    requests fail, and it counts as not ready until it comes back. ``on_health`` is called when an instance dies, is
    back or is given up. ``facts`` are attached to log lines: which model it is.
    """

    execute_timeout_s: float = 0.0
    on_health: Callable[[], None] = lambda: None
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])


class InstancePicture(NamedTuple):
    """One instance at one moment. ``state`` is idle, busy, restarting or dead; ``pid`` 0: no process of its own."""

    name: str
    state: str
    pid: int
    restarts: int


class PoolOwner(Protocol):
    """The scheduler, as its instances see it."""

    def feed(self, slot: InstanceSlot) -> None:
        """A ready instance has room."""
        ...

    def batch_done(self, slot: InstanceSlot, batch: Batch) -> None:
        """An instance is done with a batch, which is off its list."""
        ...

    def lost(self, slot: InstanceSlot, error: InferError) -> None:
        """An instance is not ready any more."""
        ...

    def batch_begins(self, slot: InstanceSlot, batch: Batch) -> None:
        """A batch that was handed over early executes now."""
        ...

    def no_instance(self, error: InferError) -> None:
        """The last ready instance is gone."""
        ...


class _Nobody:
    """The owner of a pool that is closed."""

    def feed(self, slot: InstanceSlot) -> None:
        """Nothing waits."""

    def batch_done(self, slot: InstanceSlot, batch: Batch) -> None:
        """Nobody counts it."""

    def batch_begins(self, slot: InstanceSlot, batch: Batch) -> None:
        """Nobody counts it."""

    def lost(self, slot: InstanceSlot, error: InferError) -> None:
        """It is known."""

    def no_instance(self, error: InferError) -> None:
        """It is known."""


class InstanceSlot:
    """One instance and what it is doing: ``batches`` in the order they were handed over.

    The first ``places`` of them execute: one, or as many as there are where an instance's executions overlap.
    """

    __slots__ = ("batches", "instance", "leaving", "name", "places", "reason", "restarts", "room", "state", "timers")

    def __init__(self, name: str, instance: LoopInstance) -> None:
        self.name = name
        self.instance = instance
        self.batches: deque[Batch] = deque()
        self.places = instance.depth if instance.overlaps else 1
        """Batches that execute at a time."""
        self.room = self.places
        """Batches that may be with the instance now."""
        self.timers: dict[Batch, asyncio.TimerHandle] = {}
        self.state = InstanceState.READY
        self.reason = ""
        self.restarts = 0
        """How often its worker was started again."""
        self.leaving = False
        """Whether it is no longer one of the pool's: it ends what it has and gets nothing more."""

    @property
    def may_return(self) -> bool:
        """Whether an instance that is not ready may take requests again: it is restarted, or only late."""
        return self.state is InstanceState.RESTARTING or self.reason.startswith(_OVERDUE)

    @property
    def has_place(self) -> bool:
        """Whether one more batch would execute at once."""
        return len(self.batches) < self.places

    def take_off(self, batch: Batch) -> bool:
        """Take a batch off the list; whether the next one's turn has come by that."""
        if self.batches[0] is batch:
            self.batches.popleft()
            return self.places == 1 and bool(self.batches)
        self.batches.remove(batch)
        return False

    def stop_timers(self) -> None:
        """Nobody waits for what executes any more."""
        for timer in self.timers.values():
            timer.cancel()
        self.timers.clear()

    def picture(self) -> InstancePicture:
        """What it is doing. Any thread."""
        if self.state is InstanceState.READY:
            state = "busy" if self.batches else "idle"
        else:
            state = "restarting" if self.state is InstanceState.RESTARTING else "dead"
        return InstancePicture(self.name, state, self.instance.pid, self.restarts)


class InstancePool:
    """The instances of one model version. Serving loop only."""

    def __init__(
        self,
        instances: Mapping[str, LoopInstance],
        loop: asyncio.AbstractEventLoop,
        owner: PoolOwner,
        options: PoolOptions,
    ) -> None:
        self.slots = [InstanceSlot(name, instance) for name, instance in instances.items()]
        self.idle = self.slots[::-1]
        """Ready instances that would execute a batch at once; the last one is taken first."""
        self.is_probed = any(instance.is_probed for instance in instances.values())
        """Whether the model itself is asked when somebody asks whether it is ready; known once it is loaded."""
        self.lone = _lone(self.slots)
        """The one instance of a model that has only one, where a batch may wait with it for its turn."""
        self._loop = loop
        self._owner = owner
        self._execute_timeout_s = options.execute_timeout_s
        self._on_health = options.on_health
        self._facts = options.facts
        self._ready = len(self.slots)
        for slot in self.slots:
            slot.instance.observe_state(partial(self._state_changed, slot))

    @property
    def all_ready(self) -> bool:
        """Whether every instance can take requests."""
        return self._ready == len(self.slots)

    async def probe(self) -> bool:
        """Whether every instance can take requests, and says so itself where its model has a say."""
        if not self.is_probed or not self.all_ready:
            return self.all_ready
        return all(await asyncio.gather(*(slot.instance.check_ready() for slot in self.slots)))

    @property
    def any_ready(self) -> bool:
        """Whether at least one instance can take requests."""
        return self._ready > 0

    @property
    def busy_reason(self) -> WaitReason:
        """Why a request waits that finds no idle instance."""
        return WaitReason.ALL_INSTANCES_BUSY if self.all_ready else WaitReason.SOME_RESTARTING

    @property
    def reason(self) -> str:
        """Why instances are not ready, or ""."""
        return "; ".join(
            f"instance '{slot.name}' {slot.reason}" for slot in self.slots if slot.state is not InstanceState.READY
        )

    def pictures(self) -> tuple[InstancePicture, ...]:
        """What every instance is doing. Any thread."""
        return tuple(slot.picture() for slot in self.slots)

    def regroup(self, added: Mapping[str, LoopInstance], surplus: Collection[str]) -> Sequence[InstanceSlot]:
        """Instances that are up join, and those of these names go; what waits finds the new ones at once.

        Gives those that go: they are no longer in any list here, and their owner closes them when they are done.
        """
        leaving = [slot for slot in self.slots if slot.name in surplus]
        joining = [InstanceSlot(name, instance) for name, instance in added.items()]
        for slot in leaving:
            slot.leaving = True
            if slot in self.idle:
                self.idle.remove(slot)
        # A new list, because other threads may be in the middle of the old one.
        self.slots = [*(slot for slot in self.slots if not slot.leaving), *joining]
        for slot in self.slots:
            # What a lone instance may be handed early it may not among several.
            slot.room = slot.places
        self.lone = _lone(self.slots)
        self.is_probed = any(slot.instance.is_probed for slot in self.slots)
        self._ready = sum(each.state is InstanceState.READY for each in self.slots)
        for slot in joining:
            slot.instance.observe_state(partial(self._state_changed, slot))
            self.release(slot)
        self._on_health()
        return leaving

    def execute(self, slot: InstanceSlot, batch: Batch) -> bool:
        """Hand a batch to an instance that its owner has taken from the idle ones.

        False where the instance refuses it, which fails its requests; the instance is then still without it.
        """
        slot.batches.append(batch)
        count = len(slot.batches)
        if count <= slot.places:
            self._begins(slot, batch)
            if count < slot.places:
                self.stand_by(slot)
        try:
            slot.instance.execute(batch, partial(self._executed, slot, batch))
        except InferError as exc:
            slot.batches.remove(batch)
            self._stop_timer(slot, batch)
            fail_open(batch, exc)
            return False
        return True

    def release(self, slot: InstanceSlot) -> None:
        """An instance has room: its owner feeds it, or it is idle."""
        if slot.leaving:
            return
        if slot.state is InstanceState.READY:
            self._owner.feed(slot)
            self.stand_by(slot)
        elif slot.state is InstanceState.FAILED and slot.reason.startswith(_OVERDUE) and not slot.batches:
            # An instance that was only late is back.
            self._state_changed(slot, InstanceState.READY, "")

    def stand_by(self, slot: InstanceSlot) -> None:
        """An instance that has a place is idle, if it is ready."""
        if slot.state is InstanceState.READY and slot.has_place and slot not in self.idle:
            if slot.places > 1:
                # Instances that take many at once take them in turn.
                self.idle.insert(0, slot)
            else:
                self.idle.append(slot)

    async def close(self) -> None:
        """Close the instances, all at once."""
        await asyncio.gather(*(self.close_instance(slot) for slot in self.slots))
        # Pool and scheduler know each other. Cut, a version that is unloaded goes at once and not in a round of the
        # garbage collector, which are rare in a server.
        self._owner = _Nobody()

    def _begins(self, slot: InstanceSlot, batch: Batch) -> None:
        """A batch executes from now on."""
        if self._execute_timeout_s:
            slot.timers[batch] = self._loop.call_later(self._execute_timeout_s, self._overdue, slot, batch)

    def _stop_timer(self, slot: InstanceSlot, batch: Batch) -> None:
        """A batch is done."""
        if slot.timers:
            timer = slot.timers.pop(batch, None)
            if timer is not None:
                timer.cancel()

    def _executed(self, slot: InstanceSlot, batch: Batch) -> None:
        """The instance is done with a batch."""
        self._stop_timer(slot, batch)
        next_begins = slot.take_off(batch)
        self._owner.batch_done(slot, batch)
        if next_begins:
            following = slot.batches[0]
            self._owner.batch_begins(slot, following)
            self._begins(slot, following)
        self.release(slot)

    def _state_changed(self, slot: InstanceSlot, state: InstanceState, reason: str) -> None:
        if state is InstanceState.READY and slot.state is InstanceState.RESTARTING:
            slot.restarts += 1
        slot.state, slot.reason = state, reason
        self._ready = sum(each.state is InstanceState.READY for each in self.slots)
        if state is InstanceState.READY:
            self.release(slot)
        else:
            if slot in self.idle:
                self.idle.remove(slot)
            self._owner.lost(slot, Unavailable(f"instance '{slot.name}' {reason}"))
            if not self.any_ready:
                self._owner.no_instance(Unavailable(f"no instance is ready: {self.reason}"))
        self._on_health()

    def _overdue(self, slot: InstanceSlot, batch: Batch) -> None:
        """An execution took longer than it may: its instance is interrupted, and what else it has fails with it."""
        if batch not in slot.timers:
            return
        slot.stop_timers()
        reason = f"{_OVERDUE} {self._execute_timeout_s:g} s (--execute-timeout)"
        log.error("instance '%s' %s", slot.name, reason, extra={**self._facts, "instance": slot.name})
        self._state_changed(slot, InstanceState.FAILED, reason)
        for each in slot.batches:
            fail_open(each, Unavailable(f"instance '{slot.name}' {reason}"))
        slot.instance.interrupt(reason)

    async def close_instance(self, slot: InstanceSlot) -> None:
        """Close an instance; where that fails it is told of in the log."""
        slot.stop_timers()
        try:
            await slot.instance.close()
        except Exception:
            facts = {**self._facts, "instance": slot.name}
            log.exception("instance '%s' did not close cleanly", slot.name, extra=facts)


def _lone(slots: Sequence[InstanceSlot]) -> InstanceSlot | None:
    slot = slots[0]
    return slot if len(slots) == 1 and slot.places == 1 and slot.instance.depth > 1 else None


def fail_open(batch: Batch, error: InferError) -> None:
    """Fail what a batch has left open; the law says that nothing leaves without a final response."""
    for execution in batch.executions:
        if isinstance(execution, Ticket) and execution.phase is not Phase.DONE:
            execution.fail(error)
