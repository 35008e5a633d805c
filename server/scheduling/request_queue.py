"""The queue in front of a dynamic batcher: priority levels, limits, time-outs. Pure; times are nanoseconds.

The rules are those of Triton's ``dynamic_batching`` (``priority_levels``, ``default_queue_policy``,
``priority_queue_policy``): one FIFO a level, level 1 first; a bound that is counted per level and exact; a request
whose time is up is rejected, or (``DELAY``) served after every other one of its level.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

T = TypeVar("T")
_US = 1000


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """How one level treats its requests (Triton's ModelQueuePolicy).

    ``max_size`` 0 is no bound. ``timeout_ns`` 0 is no time-out. ``delay`` serves a request whose time is up last in
    place of rejecting it. ``allow_override`` lets a request ask for a shorter time, never for a longer one.
    """

    max_size: int = 0
    timeout_ns: int = 0
    delay: bool = False
    allow_override: bool = False

    def deadline(self, now: int, asked_us: int) -> int | None:
        """When the time of a request is up that comes in now, or None; ``asked_us`` is its own wish, 0 for none."""
        timeout = self.timeout_ns
        if self.allow_override and 0 < asked_us * _US < timeout:
            timeout = asked_us * _US
        return now + timeout if timeout else None


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """The levels of a queue. ``levels`` 0 is a queue without priorities; ``policies`` are those of single levels."""

    levels: int = 0
    default_level: int = 0
    default_policy: QueuePolicy = QueuePolicy()
    policies: Mapping[int, QueuePolicy] | None = None

    @property
    def is_trivial(self) -> bool:
        """Whether requests leave in the order in which they came, and none before its time."""
        return not self.levels and self.default_policy == QueuePolicy()

    def level(self, priority: int) -> int:
        """The level of a request: its own where there is one of that number, else the default."""
        if not self.levels:
            return 0
        return priority if 1 <= priority <= self.levels else self.default_level

    def policy(self, level: int) -> QueuePolicy:
        """How a level treats its requests."""
        return (self.policies or {}).get(level, self.default_policy)


class _Level(Generic[T]):
    """One level: requests in time, and those whose time is up but that are still served."""

    __slots__ = ("delayed", "number", "policy", "waiting")

    def __init__(self, number: int, policy: QueuePolicy) -> None:
        self.number = number
        self.policy = policy
        self.waiting: OrderedDict[T, None] = OrderedDict()
        self.delayed: OrderedDict[T, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self.waiting) + len(self.delayed)

    def __lt__(self, other: _Level[T]) -> bool:
        return self.number < other.number


class RequestQueue(Generic[T]):
    """Requests in the order in which they are served.

    Append, removal and expiry cost the same however long the queue is. Levels exist while they hold something, so
    that 2^64 of them cost nothing.
    """

    __slots__ = ("_deadlines", "_home", "_levels", "_order", "_sequence", "settings")

    def __init__(self, settings: QueueSettings) -> None:
        self.settings = settings
        self._levels: dict[int, _Level[T]] = {}
        self._order: list[_Level[T]] = []
        self._home: dict[T, _Level[T]] = {}
        self._deadlines: list[tuple[int, int, T]] = []
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._home)

    def __contains__(self, item: T) -> bool:
        return item in self._home

    def __iter__(self) -> Iterator[T]:
        """In the order of service: level by level, within a level those in time first."""
        for level in self._order:
            yield from level.waiting
            yield from level.delayed

    def append(self, item: T, priority: int, now: int, timeout_us: int = 0) -> bool:
        """Take a request in; False where its level is full, or may hold none."""
        number = self.settings.level(priority)
        level = self._levels.get(number)
        policy = self.settings.policy(number) if level is None else level.policy
        if policy.max_size and (0 if level is None else len(level)) >= policy.max_size:
            return False
        if level is None:
            level = self._levels[number] = _Level(number, policy)
            insort(self._order, level)
        level.waiting[item] = None
        self._home[item] = level
        deadline = policy.deadline(now, timeout_us)
        if deadline is not None:
            # The number keeps two requests with one deadline from being compared.
            self._sequence += 1
            heapq.heappush(self._deadlines, (deadline, self._sequence, item))
        return True

    def is_last(self, item: T) -> bool:
        """Whether a request that was just appended is served after every other one."""
        return not self._order[-1].delayed and self._home[item] is self._order[-1]

    def remove(self, item: T) -> bool:
        """Take a request out wherever it stands; False if it is not here."""
        level = self._home.pop(item, None)
        if level is None:
            return False
        if item in level.waiting:
            del level.waiting[item]
        else:
            del level.delayed[item]
        if not level.waiting and not level.delayed:
            del self._levels[level.number]
            self._order.remove(level)
        return True

    def expire(self, now: int) -> tuple[list[T], bool]:
        """The requests to reject because their time is up, taken out; and whether anything has changed its place.

        A deadline has passed when ``now`` is later than it.
        """
        rejected: list[T] = []
        moved = False
        while self._deadlines and self._deadlines[0][0] < now:
            item = heapq.heappop(self._deadlines)[2]
            level = self._home.get(item)
            if level is None:
                continue
            moved = True
            if level.policy.delay:
                del level.waiting[item]
                level.delayed[item] = None
            else:
                self.remove(item)
                rejected.append(item)
        return rejected, moved

    @property
    def next_deadline(self) -> int | None:
        """The earliest moment at which a request's time is up."""
        deadlines = self._deadlines
        while deadlines and deadlines[0][2] not in self._home:
            heapq.heappop(deadlines)
        return deadlines[0][0] if deadlines else None

    def drain(self) -> list[T]:
        """Take everything, in the order of service."""
        items = list(self)
        self._levels.clear()
        self._order.clear()
        self._home.clear()
        self._deadlines.clear()
        return items
