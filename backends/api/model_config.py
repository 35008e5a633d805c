"""A model's configuration, frozen: the fields that are acted on, and the whole document beside them.

``document`` is Triton's JSON form of ``inference.ModelConfig`` (snake_case names, every scalar printed, 64-bit
integers as numbers, unset messages absent). It is the source: the typed fields are read from it once, so the two
cannot disagree. To change a configuration, change a copy of the document and read it again.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from .datatypes import Datatype

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Document = dict[str, Any]


class InstanceKind(enum.Enum):
    """Where instances run. ``AUTO`` is resolved when the model is loaded."""

    AUTO = "KIND_AUTO"
    GPU = "KIND_GPU"
    CPU = "KIND_CPU"
    MODEL = "KIND_MODEL"


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One declared input or output.

    ``dims`` is as configured, -1 for any size and without the batch dimension. ``reshape`` is the shape the
    backend sees in its place, or None.
    """

    name: str
    datatype: Datatype
    dims: tuple[int, ...]
    optional: bool = False
    reshape: tuple[int, ...] | None = None
    is_shape_tensor: bool = False
    allow_ragged_batch: bool = False
    label_filename: str = ""


class BatchInputKind(enum.Enum):
    """What is computed from the shapes that one input has in the requests of a batch."""

    ELEMENT_COUNT = "BATCH_ELEMENT_COUNT"
    ACCUMULATED_ELEMENT_COUNT = "BATCH_ACCUMULATED_ELEMENT_COUNT"
    ACCUMULATED_ELEMENT_COUNT_WITH_ZERO = "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO"
    MAX_ELEMENT_COUNT_AS_SHAPE = "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE"
    ITEM_SHAPE = "BATCH_ITEM_SHAPE"
    ITEM_SHAPE_FLATTEN = "BATCH_ITEM_SHAPE_FLATTEN"


@dataclass(frozen=True, slots=True)
class BatchInput:
    """Inputs of the model that no client sends: the backend computes them for each batch.

    A sound configuration has one source input, and datatype INT32 or FP32.
    """

    kind: BatchInputKind
    target_names: tuple[str, ...]
    datatype: Datatype
    source_inputs: tuple[str, ...]


class BatchOutputKind(enum.Enum):
    """How an output without a batch dimension is divided among the requests of a batch."""

    SCATTER_WITH_INPUT_SHAPE = "BATCH_SCATTER_WITH_INPUT_SHAPE"


@dataclass(frozen=True, slots=True)
class BatchOutput:
    """Outputs that the model gives as one flat tensor for a batch. A sound configuration has one source input."""

    kind: BatchOutputKind
    target_names: tuple[str, ...]
    source_inputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class InstanceGroup:
    """A group of equal instances. ``count`` 0 and an empty name leave the choice to the defaults."""

    name: str = ""
    kind: InstanceKind = InstanceKind.AUTO
    count: int = 0
    gpus: tuple[int, ...] = ()
    passive: bool = False


@dataclass(frozen=True, slots=True)
class VersionPolicy:
    """Which versions are served: the ``latest`` n, exactly ``specific``, or all (both unset)."""

    latest: int | None = 1
    specific: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """One model's configuration.

    ``max_batch_size`` 0 means that the model has no batch dimension. ``parameters`` maps keys to their
    ``string_value``. ``scheduling`` names the field that is set of the three scheduling choices, or "".
    """

    name: str
    backend: str = ""
    platform: str = ""
    runtime: str = ""
    max_batch_size: int = 0
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    batch_inputs: tuple[BatchInput, ...] = ()
    batch_outputs: tuple[BatchOutput, ...] = ()
    instance_groups: tuple[InstanceGroup, ...] = ()
    version_policy: VersionPolicy = VersionPolicy()
    default_model_filename: str = ""
    parameters: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    metric_tags: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    decoupled: bool = False
    scheduling: str = ""
    document: Document = field(default_factory=dict[str, Any], compare=False, repr=False)

    @classmethod
    def from_document(cls, document: Document) -> ModelConfig:
        """Read the typed fields from a complete, normalised document.

        Raises KeyError for a name that is missing or an enumerator that does not exist: normalise first.
        """
        policy = document.get("version_policy", {})
        choices = ("dynamic_batching", "sequence_batching", "ensemble_scheduling")
        return cls(
            name=document["name"],
            backend=document.get("backend", ""),
            platform=document.get("platform", ""),
            runtime=document.get("runtime", ""),
            max_batch_size=document.get("max_batch_size", 0),
            inputs=_tensor_specs(document.get("input", ())),
            outputs=_tensor_specs(document.get("output", ())),
            batch_inputs=tuple(_batch_input(entry) for entry in document.get("batch_input", ())),
            batch_outputs=tuple(_batch_output(entry) for entry in document.get("batch_output", ())),
            instance_groups=tuple(_instance_group(group) for group in document.get("instance_group", ())),
            version_policy=_version_policy(policy),
            default_model_filename=document.get("default_model_filename", ""),
            parameters=MappingProxyType(
                {key: value.get("string_value", "") for key, value in document.get("parameters", {}).items()}
            ),
            metric_tags=MappingProxyType(dict(document.get("metric_tags", {}))),
            decoupled=bool(document.get("model_transaction_policy", {}).get("decoupled", False)),
            scheduling=next((choice for choice in choices if choice in document), ""),
            document=document,
        )


def _tensor_specs(entries: Sequence[Document]) -> tuple[TensorSpec, ...]:
    return tuple(
        TensorSpec(
            name=entry["name"],
            datatype=Datatype.from_config(entry["data_type"]),
            dims=tuple(entry["dims"]),
            optional=entry.get("optional", False),
            reshape=tuple(entry["reshape"].get("shape", ())) if "reshape" in entry else None,
            is_shape_tensor=entry.get("is_shape_tensor", False),
            allow_ragged_batch=entry.get("allow_ragged_batch", False),
            label_filename=entry.get("label_filename", ""),
        )
        for entry in entries
        # One that the backend still has to complete is in the document alone.
        if entry["data_type"] != "TYPE_INVALID"
    )


def _batch_input(entry: Document) -> BatchInput:
    return BatchInput(
        kind=BatchInputKind(entry.get("kind", "BATCH_ELEMENT_COUNT")),
        target_names=tuple(entry.get("target_name", ())),
        datatype=Datatype.from_config(entry["data_type"]),
        source_inputs=tuple(entry.get("source_input", ())),
    )


def _batch_output(entry: Document) -> BatchOutput:
    return BatchOutput(
        kind=BatchOutputKind(entry.get("kind", "BATCH_SCATTER_WITH_INPUT_SHAPE")),
        target_names=tuple(entry.get("target_name", ())),
        source_inputs=tuple(entry.get("source_input", ())),
    )


def _instance_group(entry: Document) -> InstanceGroup:
    return InstanceGroup(
        name=entry.get("name", ""),
        kind=InstanceKind(entry.get("kind", "KIND_AUTO")),
        count=entry.get("count", 0),
        gpus=tuple(entry.get("gpus", ())),
        passive=entry.get("passive", False),
    )


def _version_policy(entry: Document) -> VersionPolicy:
    if "specific" in entry:
        return VersionPolicy(latest=None, specific=tuple(entry["specific"].get("versions", ())))
    if "all" in entry:
        return VersionPolicy(latest=None)
    return VersionPolicy(latest=entry.get("latest", {}).get("num_versions", 1) or 1)
