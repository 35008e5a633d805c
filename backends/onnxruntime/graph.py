"""What an ONNX graph takes and gives, in our terms, and whether a configuration agrees with it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..api.datatypes import Datatype
from ..api.errors import LoadFailed

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


def check(config: ModelConfig, graph: Graph) -> None:
    """Raise LoadFailed where configuration and graph contradict each other, in Triton's words."""
    controls = control_names(config.document)
    given = [spec.name for spec in config.inputs] + [name for name in controls if name in graph.inputs]
    for spec in config.inputs:
        _check_input_name(config, spec, graph)
    expected = [name for name in given if name not in graph.optional]
    if len(expected) != len(graph.inputs):
        missing = ", ".join(name for name in graph.inputs if name not in given)
        msg = (
            f"unable to load model '{config.name}', configuration expects {len(given)} inputs, "
            f"model provides {len(graph.inputs)}; not configured: {missing or 'none'}"
        )
        raise LoadFailed(msg)
    for spec in config.outputs:
        if spec.name not in graph.outputs:
            allowed = ", ".join(graph.outputs)
            msg = f"unexpected inference output '{spec.name}', allowed outputs are: {allowed} (model '{config.name}')"
            raise LoadFailed(msg)
        _check_tensor(config, spec, graph.outputs[spec.name])
    for spec in config.inputs:
        _check_tensor(config, spec, graph.inputs.get(spec.name) or graph.optional[spec.name])
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


def _check_tensor(config: ModelConfig, spec: TensorSpec, tensor: GraphTensor) -> None:
    provided = tensor.known_datatype(config.name)
    if provided is not spec.datatype:
        msg = (
            f"unable to load model '{config.name}', configuration expects datatype {spec.datatype.config_name} for "
            f"tensor '{spec.name}', model provides {provided.config_name}"
        )
        raise LoadFailed(msg)
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
