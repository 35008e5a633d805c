"""Which of the waiting requests execute together, and when. Pure; times are nanoseconds.

The rules are those of Triton's dynamic batcher (``preferred_batch_size``, ``max_queue_delay_microseconds``): a batch
that has a preferred size goes at once, one that the next request does not fit into goes at once, any other waits until
its oldest request has waited for the delay, and then takes what there is up to ``max_batch_size``.

One thing differs. Requests of another shape cannot share a batch; with Triton they end it. Here they begin one of
their own beside it, so that requests of mixed shapes meet their like, and only cut short what remains of the wait
(MIXED_SHARE).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

T = TypeVar("T")

MIXED_SHARE = 4
"""While requests of several shapes wait, a batch waits for this part of the delay only."""


@dataclass(frozen=True, slots=True)
class BatchPolicy:
    """How batches are formed.

    ``max_rows`` is the most rows of a batch (1 for a model without a batch dimension), ``preferred`` the sizes that
    go at once, ``delay_ns`` how long the oldest request may be held back for others. ``in_order`` forms one batch at a
    time, so that requests leave the queue as they came; another shape then ends it.
    """

    max_rows: int = 1
    preferred: frozenset[int] = frozenset()
    delay_ns: int = 0
    in_order: bool = False

    @property
    def largest_preferred(self) -> int:
        """The largest preferred size; ``max_rows`` where none is given."""
        return max(self.preferred, default=self.max_rows)


@dataclass(frozen=True, slots=True)
class Verdict(Generic[T]):
    """What is to happen: ``batch`` executes now, or, where it is empty, there is something to decide at ``wake_at``."""

    batch: Sequence[T] = ()
    wake_at: int | None = None


class Formation(Generic[T]):
    """The batches that are being formed, one a shape. Requests are offered in the order of service."""

    __slots__ = ("_groups", "_policy", "closed")

    def __init__(self, policy: BatchPolicy) -> None:
        self.closed = False
        """Whether the first batch is complete, so that nothing that comes later changes what is to happen."""
        self._policy = policy
        self._groups: dict[Hashable, _Group[T]] = {}

    def offer(self, item: T, rows: int, key: Hashable, arrived: int) -> None:
        """Let a request join the batch of its kind.

        :param rows: its batch size, at least 1.
        :param key: equal for requests that may share a batch.
        :param arrived: when it came into the queue.
        """
        group = self._groups.get(key)
        if group is None:
            if self._groups and self._policy.in_order:
                self._first.full = self.closed = True
                return
            group = self._groups[key] = _Group(self._policy)
        group.offer(item, rows, arrived)
        if group.full and group is self._first:
            self.closed = True

    def decide(self, now: int) -> Verdict[T]:
        """What is to happen now, with an instance free.

        Where one batch is due the oldest goes, also if that could still wait: it would be overtaken.
        """
        delay = self._policy.delay_ns
        patience = delay // MIXED_SHARE if len(self._groups) > 1 else delay
        wake_at: int | None = None
        for group in self._groups.values():
            if group.due(now, delay, patience):
                first = self._first
                return Verdict(first.items[: first.due(now, delay, patience) or None])
            moment = group.oldest + patience
            wake_at = moment if wake_at is None else min(wake_at, moment)
        return Verdict(wake_at=wake_at)

    @property
    def _first(self) -> _Group[T]:
        return next(iter(self._groups.values()))


class _Group(Generic[T]):
    """Requests that may share a batch, as many as fit."""

    __slots__ = ("_largest", "_marked", "_policy", "full", "items", "oldest", "rows")

    def __init__(self, policy: BatchPolicy) -> None:
        self.items: list[T] = []
        self.rows = 0
        self.oldest = 0
        self.full = False
        self._policy = policy
        self._largest = policy.largest_preferred
        self._marked = 0
        """How many of the items make the best size so far that need not wait."""

    def offer(self, item: T, rows: int, arrived: int) -> None:
        """Take a request in, unless one before it did not fit."""
        if self.full:
            return
        if self.items:
            total = self.rows + rows
            if total > self._largest and not self._marked:
                self._marked = len(self.items)
            if total > self._policy.max_rows:
                self.full = True
                return
        self.oldest = min(self.oldest, arrived) if self.items else arrived
        self.items.append(item)
        self.rows += rows
        if self.rows in self._policy.preferred:
            self._marked = len(self.items)
        self.full = self.rows >= self._policy.max_rows

    def due(self, now: int, delay: int, patience: int) -> int:
        """How many of the items go now, 0 for none yet."""
        age = now - self.oldest
        late = 0 < delay <= age
        if self._marked and not late:
            return self._marked
        if self.full or self.rows >= self._largest or age >= patience:
            return len(self.items)
        return 0
