"""Which sequences of an instance execute together, and when: the strategies *direct* and *oldest*. Pure.

Both put at most one request of a sequence into a batch. With *direct* a sequence is always the same row; rows below
it whose sequences have nothing to do are None. Times are nanoseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from ..observe.statistics import BatchLimit
from .batch_policy import Formation, Verdict
from .batch_settings import batch_key

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from ...backends.api.model_config import ModelConfig
    from .batch_policy import BatchPolicy
    from .sequence_settings import SequenceSettings
    from .sequence_slots import SequenceState
    from .ticket import Ticket

T = TypeVar("T")


class Rounds:
    """How the batches of one model version are formed."""

    __slots__ = ("_key", "_settings")

    def __init__(self, config: ModelConfig, settings: SequenceSettings) -> None:
        self._settings = settings
        self._key = batch_key(config)

    def decide(self, ready: Sequence[SequenceState[Ticket]], now: int) -> Verdict[SequenceState[Ticket] | None]:
        """The batch that an idle instance executes now, or when there is something to decide."""
        oldest = self._settings.oldest
        if oldest is None:
            return direct_round(ready, self._key_of, self._settings, now)
        return oldest_round(ready, self._key_of, oldest, now)

    def _key_of(self, sequence: SequenceState[Ticket]) -> Hashable:
        return self._key(sequence.waiting[0].request)


def direct_round(
    ready: Sequence[SequenceState[T]], key: Callable[[SequenceState[T]], Hashable], settings: SequenceSettings, now: int
) -> Verdict[SequenceState[T] | None]:
    """The rows of the batch that executes now, from the first to the last that has a request.

    :param ready: at least one, each with a slot.
    :param key: equal for sequences whose next requests may share a batch. Those that cannot share one with the lowest
        row are left out, for the next batch.
    """
    limit = BatchLimit.NO_OTHERS
    if settings.delay_ns and settings.utilization:
        due = min(sequence.since for sequence in ready) + settings.delay_ns
        enough = len(ready) >= settings.utilization * settings.slots
        if now < due and not enough:
            return Verdict(wake_at=due)
        limit = BatchLimit.PREFERRED if enough else BatchLimit.DELAY
    rows = {sequence.slot.row: sequence for sequence in ready if sequence.slot is not None}
    reference = key(rows[min(rows)])
    alike = {row: sequence for row, sequence in rows.items() if key(sequence) == reference}
    if len(alike) < len(rows):
        limit = BatchLimit.SHAPE
    elif len(alike) == settings.slots:
        limit = BatchLimit.FULL
    return Verdict([alike.get(row) for row in range(max(alike) + 1)], limit=limit)


def oldest_round(
    ready: Sequence[SequenceState[T]], key: Callable[[SequenceState[T]], Hashable], policy: BatchPolicy, now: int
) -> Verdict[SequenceState[T] | None]:
    """The batch that executes now, by the rules of the dynamic batcher.

    :param ready: at least one, in the order in which they came to have something to do.
    """
    forming: Formation[SequenceState[T]] = Formation(policy)
    for sequence in ready:
        forming.offer(sequence, 1, key(sequence), sequence.since)
        if forming.closed:
            break
    verdict = forming.decide(now)
    return Verdict(verdict.batch, verdict.wake_at, verdict.limit)
