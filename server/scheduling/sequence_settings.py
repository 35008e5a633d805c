"""What a configuration says of sequences: the strategy, its slots, its times. Pure; times are nanoseconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .batch_policy import BatchPolicy

if TYPE_CHECKING:
    from ...backends.api.model_config import Document, ModelConfig

_US = 1000
_DEFAULT_IDLE_US = 1_000_000


@dataclass(frozen=True, slots=True)
class SequenceSettings:
    """How the sequences of a model are served.

    ``slots`` is how many sequences an instance has at a time. A sequence that has nothing to do for ``idle_ns`` ends.
    ``iterative``: every request is a sequence, and its model may ask for it again and again.

    ``oldest`` forms batches out of one request a sequence, the oldest first. None is the *direct* strategy: the slot of
    a sequence is its row of the batch, and a batch waits ``delay_ns`` for others as long as less than ``utilization``
    of the slots have a request.
    """

    slots: int = 1
    idle_ns: int = _DEFAULT_IDLE_US * _US
    iterative: bool = False
    oldest: BatchPolicy | None = None
    delay_ns: int = 0
    utilization: float = 0.0


def sequence_settings(config: ModelConfig) -> SequenceSettings:
    """The settings of a model with ``sequence_batching``."""
    batching: Document = config.document["sequence_batching"]
    rows = max(config.max_batch_size, 1)
    idle_ns = int(batching.get("max_sequence_idle_microseconds", 0) or _DEFAULT_IDLE_US) * _US
    iterative = bool(batching.get("iterative_sequence", False))
    oldest: Document | None = batching.get("oldest")
    if oldest is None:
        direct: Document = batching.get("direct", {})
        return SequenceSettings(
            slots=rows,
            idle_ns=idle_ns,
            iterative=iterative,
            delay_ns=int(direct.get("max_queue_delay_microseconds", 0)) * _US,
            utilization=float(direct.get("minimum_slot_utilization", 0.0)),
        )
    policy = BatchPolicy(
        max_rows=rows,
        preferred=frozenset(oldest.get("preferred_batch_size", ())),
        delay_ns=int(oldest.get("max_queue_delay_microseconds", 0)) * _US,
        in_order=bool(oldest.get("preserve_ordering", False)),
    )
    slots = int(oldest.get("max_candidate_sequences", 0))
    return SequenceSettings(slots=slots or rows, idle_ns=idle_ns, iterative=iterative, oldest=policy)
