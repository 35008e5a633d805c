"""Which sequence has which slot, what it has to do, and when it ends. Pure; times are nanoseconds.

A *slot* is a row of an instance. A sequence has it from its first request (START) to its last (END), so that the model
on that instance may keep the sequence's state; one that finds no slot waits in the *backlog* for the next that is free.
The requests of a sequence execute in the order in which they came, one at a time.

The rules are those of Triton's sequence batcher. One thing differs: a sequence whose request waits or executes is not
idle, however long that takes; with Triton it ends while it is being served.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

T = TypeVar("T")


class Slot(NamedTuple):
    """A row of an instance."""

    instance: int
    row: int


class SequenceState(Generic[T]):
    """One sequence. ``slot`` is None in the backlog, ``since`` when it last got something to do or became idle."""

    __slots__ = ("begun", "complete", "deadline", "key", "running", "since", "slot", "waiting")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.slot: Slot | None = None
        self.waiting: deque[T] = deque()
        self.running: T | None = None
        self.begun = False
        """Whether one of its requests has executed, so that an instance knows of it."""
        self.complete = False
        """Whether nothing more can join it: its END has come, or it was cut off."""
        self.since = 0
        self.deadline: int | None = None
        """When it gives up waiting for a slot."""


class Expired(NamedTuple, Generic[T]):
    """What came to its end because of the time: ids that were idle, requests that have waited too long for a slot."""

    idle: Sequence[Hashable]
    late: Sequence[T]


class _Rows(Generic[T]):
    """The slots of one instance."""

    __slots__ = ("_free", "_fresh", "_size", "ready", "taken", "up")

    def __init__(self, size: int) -> None:
        self.up = True
        self.taken: dict[int, SequenceState[T]] = {}
        self.ready: dict[SequenceState[T], None] = {}
        """Those that have something to do and are not doing it, in the order in which they came to it."""
        self._size = size
        self._free: list[int] = []
        self._fresh = 0

    @property
    def lowest(self) -> int | None:
        """The lowest free row, None where there is none."""
        if not self.up:
            return None
        if self._free:
            return self._free[0]
        return self._fresh if self._fresh < self._size else None

    def take(self, sequence: SequenceState[T]) -> int:
        row = heapq.heappop(self._free) if self._free else self._fresh
        if row == self._fresh:
            self._fresh += 1
        self.taken[row] = sequence
        return row

    def give_back(self, row: int) -> None:
        del self.taken[row]
        heapq.heappush(self._free, row)

    def clear(self) -> None:
        self.taken.clear()
        self.ready.clear()
        self._free.clear()
        self._fresh = 0


class SequenceSlots(Generic[T]):
    """The sequences of one model version.

    :param instances: how many instances there are; they are known by their index.
    :param slots: how many sequences each has at a time.
    :param idle_ns: how long a sequence may have nothing to do.
    """

    def __init__(self, instances: int, slots: int, idle_ns: int) -> None:
        self.waiting = 0
        """Requests that wait, those in the backlog included."""
        self.in_backlog = 0
        """Requests that wait for a slot."""
        self._idle_ns = idle_ns
        self._rows: list[_Rows[T]] = [_Rows(slots) for _ in range(instances)]
        self._open: dict[Hashable, SequenceState[T]] = {}
        self._of: dict[T, SequenceState[T]] = {}
        self._backlog: OrderedDict[SequenceState[T], None] = OrderedDict()
        self._idle: OrderedDict[SequenceState[T], None] = OrderedDict()
        self._deadlines: list[tuple[int, int, SequenceState[T]]] = []

    def __contains__(self, key: Hashable) -> bool:
        """Whether a request without START may come for this id."""
        return key in self._open

    # Requests

    def join(  # noqa: PLR0913  what is known of a request, by name
        self, key: Hashable, item: T, now: int, *, start: bool, end: bool, deadline: int | None = None
    ) -> SequenceState[T] | None:
        """Take a request in; None where it would have to begin a sequence and does not.

        START for a sequence that goes on is a request like others: the model begins anew in the same slot.
        ``deadline`` counts while the sequence waits for a slot.
        """
        sequence = self._open.get(key)
        if sequence is None:
            if not start:
                return None
            sequence = self._open[key] = SequenceState(key)
            self._backlog[sequence] = None
        if end:
            sequence.complete = True
            del self._open[key]
        self._enqueue(sequence, item, now)
        if sequence.slot is None:
            if deadline is not None:
                _tighten(self._deadlines, sequence, deadline)
            self._fill(now)
        return sequence

    def ready(self, instance: int) -> Sequence[SequenceState[T]]:
        """The sequences of an instance that have something to do and are not doing it, the longest first."""
        return tuple(self._rows[instance].ready)

    def take(self, sequence: SequenceState[T]) -> T:
        """The next request of a ready sequence executes."""
        item = sequence.running = sequence.waiting.popleft()
        sequence.begun = True
        self.waiting -= 1
        if sequence.slot is not None:
            del self._rows[sequence.slot.instance].ready[sequence]
        return item

    def release(self, item: T, now: int, *, ends: bool = False) -> None:
        """A request has executed; ``ends`` where its sequence ends with it unless more of it waits.

        One whose sequence is gone is none of ours any more.
        """
        sequence = self._of.pop(item, None)
        if sequence is None:
            return
        sequence.running = None
        if sequence.waiting:
            self._make_ready(sequence, now)
        elif sequence.complete or ends:
            self._end(sequence, now)
        else:
            sequence.since = now
            self._idle[sequence] = None

    def again(self, item: T, now: int) -> SequenceState[T] | None:
        """A request that has executed waits once more, after the others of its sequence; None where that is gone."""
        sequence = self._of.get(item)
        if sequence is not None:
            sequence.running = None
            self._enqueue(sequence, item, now)
        return sequence

    def cut_off(self, item: T, now: int) -> list[T]:
        """A request that waits is not wanted any more: its sequence ends, and with it all that waits of it.

        A request that executes is not affected. Gives what waited, [] where the request does not wait.
        """
        sequence = self._of.get(item)
        if sequence is None or sequence.running == item:
            return []
        return self._cut(sequence, now)

    # Instances and time

    def lose(self, instance: int, now: int) -> list[T]:
        """An instance is gone, and with it the state of its sequences: they end. Gives what waited of them.

        Those that have not begun may have a slot elsewhere, before all that are in the backlog.
        """
        rows = self._rows[instance]
        rows.up = False
        sequences = tuple(rows.taken.values())
        lost: list[T] = []
        for sequence in sequences:
            if sequence.begun:
                lost += self._empty(sequence)
                if sequence.running is not None:
                    del self._of[sequence.running]
                self._idle.pop(sequence, None)
        rows.clear()
        for sequence in reversed(sequences):
            if not sequence.begun:
                self._put_back(sequence)
        self._fill(now)
        return lost

    def restore(self, instance: int, now: int) -> None:
        """An instance is back, with all its slots free. Nothing happens where it was there."""
        rows = self._rows[instance]
        if not rows.up:
            rows.up = True
            self._fill(now)

    def expire(self, now: int) -> Expired[T]:
        """End what has been idle, or has waited for a slot, as long as it may."""
        idle: list[Hashable] = []
        late: list[T] = []
        while self._idle and (first := next(iter(self._idle))).since + self._idle_ns <= now:
            idle.append(first.key)
            self._open.pop(first.key, None)
            self._end(first, now)
        while self._deadlines and self._deadlines[0][0] < now:
            sequence = heapq.heappop(self._deadlines)[2]
            if sequence in self._backlog and sequence.deadline is not None and sequence.deadline < now:
                late += self._cut(sequence, now)
        return Expired(idle, late)

    @property
    def next_event(self) -> int | None:
        """When something expires at the earliest."""
        deadlines = self._deadlines
        while deadlines and deadlines[0][2] not in self._backlog:
            heapq.heappop(deadlines)
        # A deadline has passed when the clock is later than it.
        moments = [deadlines[0][0] + 1] if deadlines else []
        if self._idle:
            moments.append(next(iter(self._idle)).since + self._idle_ns)
        return min(moments, default=None)

    def drain(self) -> list[T]:
        """End every sequence. Gives all that waited, by sequence."""
        sequences = dict.fromkeys(self._of.values())
        items = [item for sequence in sequences for item in self._empty(sequence)]
        for rows in self._rows:
            rows.clear()
        self._open.clear()
        self._of.clear()
        self._backlog.clear()
        self._idle.clear()
        self._deadlines.clear()
        return items

    # Within

    def _enqueue(self, sequence: SequenceState[T], item: T, now: int) -> None:
        self._of[item] = sequence
        self._idle.pop(sequence, None)
        sequence.waiting.append(item)
        self.waiting += 1
        if sequence.slot is None:
            self.in_backlog += 1
        elif sequence.running is None:
            self._make_ready(sequence, now)

    def _make_ready(self, sequence: SequenceState[T], now: int) -> None:
        if sequence.slot is None:
            return
        ready = self._rows[sequence.slot.instance].ready
        if sequence not in ready:
            sequence.since = now
            ready[sequence] = None

    def _fill(self, now: int) -> None:
        """Give free slots to those that wait for one, the longest first."""
        while self._backlog:
            free = _lowest_free(self._rows)
            if free is None:
                return
            sequence, _ = self._backlog.popitem(last=False)
            self.in_backlog -= len(sequence.waiting)
            sequence.slot = Slot(free, self._rows[free].take(sequence))
            self._make_ready(sequence, now)

    def _put_back(self, sequence: SequenceState[T]) -> None:
        """A sequence has lost its slot before it has begun: it is the first in the backlog."""
        sequence.slot = None
        self.in_backlog += len(sequence.waiting)
        self._backlog[sequence] = None
        self._backlog.move_to_end(sequence, last=False)
        deadline, sequence.deadline = sequence.deadline, None
        if deadline is not None:
            _tighten(self._deadlines, sequence, deadline)

    def _cut(self, sequence: SequenceState[T], now: int) -> list[T]:
        items = self._empty(sequence)
        if sequence.running is None:
            self._end(sequence, now)
        return items

    def _empty(self, sequence: SequenceState[T]) -> list[T]:
        """Take all that waits out of a sequence, which is over."""
        items = list(sequence.waiting)
        for item in items:
            del self._of[item]
        self.waiting -= len(items)
        if sequence.slot is None:
            self.in_backlog -= len(items)
        else:
            self._rows[sequence.slot.instance].ready.pop(sequence, None)
        sequence.waiting.clear()
        sequence.complete = True
        if self._open.get(sequence.key) is sequence:
            del self._open[sequence.key]
        return items

    def _end(self, sequence: SequenceState[T], now: int) -> None:
        """A sequence with nothing left to do is over: its slot is for the next one."""
        self._idle.pop(sequence, None)
        self._backlog.pop(sequence, None)
        if self._open.get(sequence.key) is sequence:
            del self._open[sequence.key]
        slot = sequence.slot
        if slot is not None:
            self._rows[slot.instance].give_back(slot.row)
            self._fill(now)


def _tighten(deadlines: list[tuple[int, int, SequenceState[T]]], sequence: SequenceState[T], deadline: int) -> None:
    """Have a sequence give up at ``deadline``, unless it does before."""
    if sequence.deadline is None or deadline < sequence.deadline:
        sequence.deadline = deadline
        # The number keeps two sequences with one deadline from being compared.
        heapq.heappush(deadlines, (deadline, id(sequence), sequence))


def _lowest_free(instances: Sequence[_Rows[T]]) -> int | None:
    """The instance with the lowest free row: sequences spread over the instances before they share one."""
    best: tuple[int, int] | None = None
    for index, rows in enumerate(instances):
        row = rows.lowest
        if row is not None and (best is None or row < best[0]):
            best = (row, index)
    return best[1] if best is not None else None
