"""What a configuration says of batches: sizes, delay, queue, and which requests may share one. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .batch_policy import BatchPolicy
from .request_queue import QueuePolicy, QueueSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from ...backends.api.model_config import Document, ModelConfig
    from ...backends.api.request import InferenceRequest

    BatchKey = Callable[[InferenceRequest], Hashable]

_US = 1000


def batch_policy(config: ModelConfig) -> BatchPolicy:
    """How batches of a model with ``dynamic_batching`` are formed."""
    batching: Document = config.document["dynamic_batching"]
    return BatchPolicy(
        max_rows=max(config.max_batch_size, 1),
        preferred=frozenset(batching.get("preferred_batch_size", ())),
        delay_ns=int(batching.get("max_queue_delay_microseconds", 0)) * _US,
        in_order=preserves_ordering(config),
    )


def preserves_ordering(config: ModelConfig) -> bool:
    """Whether responses leave in the order in which their requests came."""
    return bool(config.document["dynamic_batching"].get("preserve_ordering", False))


def queue_settings(config: ModelConfig) -> QueueSettings:
    """The levels of the queue and how they treat their requests."""
    batching: Document = config.document["dynamic_batching"]
    return QueueSettings(
        levels=int(batching.get("priority_levels", 0)),
        default_level=int(batching.get("default_priority_level", 0)),
        default_policy=_queue_policy(batching.get("default_queue_policy", {})),
        policies={int(key): _queue_policy(value) for key, value in batching.get("priority_queue_policy", {}).items()},
    )


def batch_key(config: ModelConfig) -> BatchKey:
    """What requests must have in common to share a batch; the same for all where nothing can differ.

    Inputs with a variable dimension must agree in shape, the batch dimension aside, unless they allow ragged batches;
    shape tensors in shape and contents; and where inputs are optional, the inputs that are there.
    """
    variable = tuple(
        spec.name
        for spec in config.inputs
        if not spec.is_shape_tensor and not spec.allow_ragged_batch and -1 in (spec.reshape or spec.dims)
    )
    shape_tensors = tuple(spec.name for spec in config.inputs if spec.is_shape_tensor)
    optional = any(spec.optional for spec in config.inputs)
    if not (variable or shape_tensors or optional):
        return lambda _: None
    leading = 1 if config.max_batch_size else 0

    def key(request: InferenceRequest) -> Hashable:
        inputs = request.inputs
        shapes = tuple(inputs[name].shape[leading:] if name in inputs else None for name in variable)
        contents = tuple((inputs[name].shape, bytes(inputs[name].view)) for name in shape_tensors if name in inputs)
        return (shapes, contents, frozenset(inputs) if optional else None)

    return key


def _queue_policy(entry: Document) -> QueuePolicy:
    return QueuePolicy(
        max_size=int(entry.get("max_queue_size", 0)),
        timeout_ns=int(entry.get("default_timeout_microseconds", 0)) * _US,
        delay=entry.get("timeout_action", "REJECT") == "DELAY",
        allow_override=bool(entry.get("allow_timeout_override", False)),
    )
