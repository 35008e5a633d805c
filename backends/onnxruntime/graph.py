"""What an ONNX graph takes and gives, in our terms, and whether a configuration agrees with it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..api.datatypes import Datatype
from ..api.errors import LoadFailed
from ..api.model_config import BatchInputKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..api.model_config import Document, ModelConfig, TensorSpec

_DATATYPES = {
    "tensor(bool)": Datatype.BOOL,
    "tensor(uint8)": Datatype.UINT8,
    "tensor(uint16)": Datatype.UINT16,
    "tensor(uint32)": Datatype.UINT32,
    "tensor(uint64)": Datatype.UINT64,
    "tensor(int8)": Datatype.INT8,
    "tensor(int16)": Datatype.INT16,
    "tensor(int32)": Datatype.INT32,
    "tensor(int64)": Datatype.INT64,
    "tensor(float16)": Datatype.FP16,
    "tensor(float)": Datatype.FP32,
    "tensor(double)": Datatype.FP64,
    "tensor(string)": Datatype.BYTES,
    "tensor(bfloat16)": Datatype.BF16,
}


@dataclass(frozen=True, slots=True)
class GraphTensor:
    """An input or output of a graph: ``shape`` is complete, -1 for any size. ``datatype`` is None for foreign types."""

    name: str
    datatype: Datatype | None
    shape: tuple[int, ...]
    type_name: str

    @classmethod
    def of(cls, name: str, type_name: str, shape: Sequence[object]) -> GraphTensor:
        """From ONNX Runtime's description, where a variable size is a name or None."""
        sizes = tuple(size if isinstance(size, int) and size >= 0 else -1 for size in shape)
        return cls(name, _DATATYPES.get(type_name), sizes, type_name)

    @property
    def batchable(self) -> bool:
        """Whether the first dimension can be a batch."""
        return bool(self.shape) and self.shape[0] == -1

    def known_datatype(self, model: str) -> Datatype:
        """The datatype. Raises LoadFailed for sequences, maps and element types without a wire form."""
        if self.datatype is None:
            hint = "; export the classifier with zipmap=False" if "map(" in self.type_name else ""
            msg = (
                f"model '{model}', tensor '{self.name}': type {self.type_name} cannot be served, "
                f"only tensors of the protocol's datatypes{hint}"
            )
            raise LoadFailed(msg)
        return self.datatype


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph's signature. ``optional`` are inputs that have a value of their own (overridable initializers)."""

    inputs: Mapping[str, GraphTensor]
    outputs: Mapping[str, GraphTensor]
    optional: Mapping[str, GraphTensor]

    @property
    def batchable(self) -> bool:
        """Whether every input and output has a variable first dimension."""
        return all(tensor.batchable for tensor in (*self.inputs.values(), *self.outputs.values()))

    @property
    def has_bf16(self) -> bool:
        """Whether a tensor is of the one datatype that ONNX Runtime's numpy interface does not know."""
        tensors = (*self.inputs.values(), *self.optional.values(), *self.outputs.values())
        return any(tensor.datatype is Datatype.BF16 for tensor in tensors)

    def without_inputs(self, names: Sequence[str]) -> Graph:
        """The same graph as if it did not have these inputs."""
        return replace(self, inputs={name: tensor for name, tensor in self.inputs.items() if name not in names})


def check(config: ModelConfig, graph: Graph) -> None:
    """Raise LoadFailed where configuration and graph contradict each other, in Triton's words."""
    controls = control_names(config.document)
    computed = batch_input_names(config)
    given = [spec.name for spec in config.inputs] + [name for name in controls if name in graph.inputs] + [*computed]
    for spec in config.inputs:
        _check_input_name(config, spec, graph)
    _check_batch_inputs(config, graph)
    expected = [name for name in given if name not in graph.optional]
    if len(expected) != len(graph.inputs):
        missing = ", ".join(name for name in graph.inputs if name not in given)
        msg = (
            f"unable to load model '{config.name}', configuration expects {len(given)} inputs, "
            f"model provides {len(graph.inputs)}; not configured: {missing or 'none'}"
        )
        raise LoadFailed(msg)
    _check_outputs(config, graph)
    for spec in config.inputs:
        tensor = graph.inputs.get(spec.name) or graph.optional[spec.name]
        _check_datatype(config, spec.name, spec.datatype, tensor)
        if spec.allow_ragged_batch:
            _check_ragged(config, tensor)
        else:
            _check_shape(config, spec, tensor)
    text = next((spec.name for spec in config.inputs if spec.datatype is Datatype.BYTES), None)
    if text is not None and graph.has_bf16:
        msg = (
            f"model '{config.name}' has BF16 tensors and text input '{text}'; ONNX Runtime takes no text from Python "
            "beside BF16: cast the BF16 inputs and outputs to FP32 inside the graph"
        )
        raise LoadFailed(msg)


def control_names(document: Document) -> tuple[str, ...]:
    """Inputs that a sequence batcher supplies: its controls and its states."""
    batching: Document = document.get("sequence_batching", {})
    controls = [entry["name"] for entry in batching.get("control_input", ())]
    return (*controls, *(entry["input_name"] for entry in batching.get("state", ())))


def batch_input_names(config: ModelConfig) -> tuple[str, ...]:
    """Inputs of the graph that are computed for each batch."""
    return tuple(name for entry in config.batch_inputs for name in entry.target_names)


def _check_input_name(config: ModelConfig, spec: TensorSpec, graph: Graph) -> None:
    if spec.name not in graph.inputs and spec.name not in graph.optional:
        allowed = ", ".join((*graph.inputs, *graph.optional))
        msg = f"unexpected inference input '{spec.name}', allowed inputs are: {allowed} (model '{config.name}')"
        raise LoadFailed(msg)
    if spec.optional and spec.name not in graph.optional:
        msg = (
            f"'optional' is set to true for input '{spec.name}' while the backend model doesn't support optional "
            f"input: model '{config.name}' has no default value for it"
        )
        raise LoadFailed(msg)


def _check_batch_inputs(config: ModelConfig, graph: Graph) -> None:
    for entry in config.batch_inputs:
        rank = 2 if entry.kind is BatchInputKind.ITEM_SHAPE else 1
        for name in entry.target_names:
            tensor = graph.inputs.get(name) or graph.optional.get(name)
            if tensor is None:
                allowed = ", ".join((*graph.inputs, *graph.optional))
                msg = f"unexpected batch input '{name}', allowed inputs are: {allowed} (model '{config.name}')"
                raise LoadFailed(msg)
            _check_datatype(config, name, entry.datatype, tensor)
            if len(tensor.shape) != rank:
                msg = (
                    f"model '{config.name}', tensor '{name}': batch input kind '{entry.kind.value}' has {rank} "
                    f"dimension(s), but the model expects shape {_brackets(tensor.shape)}"
                )
                raise LoadFailed(msg)


def _check_outputs(config: ModelConfig, graph: Graph) -> None:
    scattered = {name for entry in config.batch_outputs for name in entry.target_names}
    for spec in config.outputs:
        tensor = graph.outputs.get(spec.name)
        if tensor is None:
            allowed = ", ".join(graph.outputs)
            msg = f"unexpected inference output '{spec.name}', allowed outputs are: {allowed} (model '{config.name}')"
            raise LoadFailed(msg)
        _check_datatype(config, spec.name, spec.datatype, tensor)
        # The shape of an output that is divided by the shapes of an input says nothing of the graph's own.
        if spec.name not in scattered:
            _check_shape(config, spec, tensor)


def _check_datatype(config: ModelConfig, name: str, expected: Datatype, tensor: GraphTensor) -> None:
    provided = tensor.known_datatype(config.name)
    if provided is not expected:
        msg = (
            f"unable to load model '{config.name}', configuration expects datatype {expected.config_name} for "
            f"tensor '{name}', model provides {provided.config_name}"
        )
        raise LoadFailed(msg)


def _check_ragged(config: ModelConfig, tensor: GraphTensor) -> None:
    if tensor.shape != (-1,):
        msg = (
            f"unable to load model '{config.name}', configuration expects model provides input with shape [-1] for "
            f"ragged input '{tensor.name}', model provides {_brackets(tensor.shape)}; a ragged batch is one flat "
            "tensor: export the model so, or remove allow_ragged_batch"
        )
        raise LoadFailed(msg)


def _check_shape(config: ModelConfig, spec: TensorSpec, tensor: GraphTensor) -> None:
    where = f"model '{config.name}', tensor '{spec.name}'"
    dims = spec.dims if spec.reshape is None else spec.reshape
    batching = config.max_batch_size > 0
    if batching and not tensor.batchable:
        msg = (
            f"{where}: for the model to support batching the shape should have at least 1 dimension and the first "
            f"dimension must be -1; but shape expected by the model is {_brackets(tensor.shape)}; set max_batch_size: 0"
        )
        raise LoadFailed(msg)
    configured = (-1, *dims) if batching else dims
    # A scalar has no dims to configure, so it is configured as [1].
    if (not tensor.shape and configured == (1,)) or _accepts(tensor.shape, configured):
        return
    note = (
        "an initial batch dimension because max_batch_size > 0 plus the explicit tensor dimensions, "
        if batching
        else ""
    )
    msg = (
        f"{where}: the model expects {len(tensor.shape)} dimensions (shape {_brackets(tensor.shape)}) but the model "
        f"configuration specifies {len(configured)} dimensions ({note}shape {_brackets(configured)})"
    )
    raise LoadFailed(msg)


def _accepts(provided: Sequence[int], configured: Sequence[int]) -> bool:
    """Whether every shape that fits the configured one fits the graph's."""
    pairs = zip(provided, configured, strict=False)
    return len(provided) == len(configured) and all(size in (-1, wanted) for size, wanted in pairs)


def _brackets(shape: Sequence[int]) -> str:
    """Triton's way to print a shape: ``[-1,16]``."""
    return f"[{','.join(str(size) for size in shape)}]"
