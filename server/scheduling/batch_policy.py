"""Which of the waiting requests execute together, and when. Pure; times are nanoseconds.

The rules are those of Triton's dynamic batcher (``preferred_batch_size``, ``max_queue_delay_microseconds``): a batch
that has a preferred size goes at once, one that the next request does not fit into goes at once, any other waits until
its oldest request has waited for the delay, and then takes what there is up to ``max_batch_size``.

What is handed out says why it is no larger, for whoever wonders at small batches.

One thing differs. Requests of another shape cannot share a batch; with Triton they end it. Here they begin one of
their own beside it, so that requests of mixed shapes meet their like, and only cut short what remains of the wait
(MIXED_SHARE).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from ..observe.statistics import BatchLimit

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

T = TypeVar("T")

# PERF: on Python 3.11 a member of an enum takes longer to find than all else that a lone request needs.
_FULL, _PREFERRED, _NO_OTHERS = BatchLimit.FULL, BatchLimit.PREFERRED, BatchLimit.NO_OTHERS

MIXED_SHARE = 4
"""While requests of several shapes wait, a batch waits for this part of the delay only."""


@dataclass(frozen=True, slots=True)
class BatchPolicy:
    """How batches are formed.

    ``max_rows`` is the most rows of a batch (1 for a model without a batch dimension), ``preferred`` the sizes that
    go at once, ``delay_ns`` how long the oldest request may be held back for others. ``in_order`` forms one batch at a
    time, so that requests leave the queue as they came; another shape then ends it. ``largest_preferred`` is the
    largest preferred size, ``max_rows`` where none is given.
    """

    max_rows: int = 1
    preferred: frozenset[int] = frozenset()
    delay_ns: int = 0
    in_order: bool = False
    largest_preferred: int = field(init=False)

    def __post_init__(self) -> None:
        """Look once for what is asked for with every request."""
        object.__setattr__(self, "largest_preferred", max(self.preferred, default=self.max_rows))

    def limit_alone(self, rows: int) -> BatchLimit:
        """What limits a batch of one request that does not wait while nothing else does."""
        if rows >= self.max_rows:
            return _FULL
        if rows >= self.largest_preferred or rows in self.preferred:
            return _PREFERRED
        return _NO_OTHERS


@dataclass(frozen=True, slots=True)
class Verdict(Generic[T]):
    """What is to happen: ``batch`` executes now, or, where it is empty, there is something to decide at ``wake_at``.

    ``limit`` is why the batch is no larger, and says nothing of an empty one.
    """

    batch: Sequence[T] = ()
    wake_at: int | None = None
    limit: BatchLimit = BatchLimit.NO_OTHERS


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
                self._first.ended = self._first.ended or BatchLimit.SHAPE
                self.closed = True
                return
            group = self._groups[key] = _Group(self._policy)
        group.offer(item, rows, arrived)
        if group.ended and group is self._first:
            self.closed = True

    def decide(self, now: int) -> Verdict[T]:
        """What is to happen now, with an instance free.

        Where one batch is due the oldest goes, also if that could still wait: it would be overtaken.
        """
        delay = self._policy.delay_ns
        mixed = len(self._groups) > 1
        patience = delay // MIXED_SHARE if mixed else delay
        wake_at: int | None = None
        for group in self._groups.values():
            if group.due(now, delay, patience):
                first = self._first
                count = first.due(now, delay, patience) or len(first.items)
                return Verdict(first.items[:count], limit=first.limit(now, delay, mixed=mixed))
            moment = group.oldest + patience
            wake_at = moment if wake_at is None else min(wake_at, moment)
        return Verdict(wake_at=wake_at)

    @property
    def _first(self) -> _Group[T]:
        return next(iter(self._groups.values()))


class _Group(Generic[T]):
    """Requests that may share a batch, as many as fit."""

    __slots__ = ("_largest", "_mark", "_marked", "_policy", "ended", "items", "oldest", "rows")

    def __init__(self, policy: BatchPolicy) -> None:
        self.items: list[T] = []
        self.rows = 0
        self.oldest = 0
        self.ended: BatchLimit | None = None
        """Why nothing more is taken in; None while something is."""
        self._policy = policy
        self._largest = policy.largest_preferred
        self._marked = 0
        """How many of the items make the best size so far that need not wait."""
        self._mark = BatchLimit.PREFERRED
        """Why those need not."""

    def offer(self, item: T, rows: int, arrived: int) -> None:
        """Take a request in, unless one before it did not fit."""
        if self.ended:
            return
        if self.items:
            total = self.rows + rows
            if total > self._largest and not self._marked:
                self._marked, self._mark = len(self.items), BatchLimit.NEXT
            if total > self._policy.max_rows:
                self.ended = BatchLimit.NEXT
                return
        self.oldest = min(self.oldest, arrived) if self.items else arrived
        self.items.append(item)
        self.rows += rows
        if self.rows in self._policy.preferred:
            self._marked, self._mark = len(self.items), BatchLimit.PREFERRED
        if self.rows >= self._policy.max_rows:
            self.ended = BatchLimit.FULL

    def due(self, now: int, delay: int, patience: int) -> int:
        """How many of the items go now, 0 for none yet."""
        if self._marked and not self._late(now, delay):
            return self._marked
        if self.ended or self.rows >= self._largest or now - self.oldest >= patience:
            return len(self.items)
        return 0

    def limit(self, now: int, delay: int, *, mixed: bool) -> BatchLimit:
        """Why what goes now is no larger; ``mixed`` while others wait that cannot share its batch."""
        late = self._late(now, delay)
        if self._marked and not late:
            whole = self.ended is BatchLimit.FULL and self._marked == len(self.items)
            return BatchLimit.FULL if whole else self._mark
        if self.ended:
            return self.ended
        if not late and self.rows >= self._largest:
            return BatchLimit.PREFERRED
        if mixed:
            return BatchLimit.SHAPE
        return BatchLimit.DELAY if late else BatchLimit.NO_OTHERS

    def _late(self, now: int, delay: int) -> bool:
        """Whether the oldest has waited for the whole delay: preferred sizes count no more."""
        return 0 < delay <= now - self.oldest
