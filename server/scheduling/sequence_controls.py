"""The tensors that tell a model where in a sequence a request stands (``control_input``), and requests that are none.

A model keeps its state by START (begin anew), END (the last one), READY (this row is a request) and CORRID (whose).
They are inputs that no client sends: shape [1], or [1, 1] for a model with a batch dimension. Pure.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...backends.api.datatypes import Datatype
from ...backends.api.errors import InvalidArgument
from ...backends.api.request import SEQUENCE_END, SEQUENCE_START, InferenceRequest
from ...backends.api.tensor import Tensor

if TYPE_CHECKING:
    from ...backends.api.model_config import Document, ModelConfig

_LENGTH = struct.Struct("<I")
_LISTS = {
    "int32_false_true": Datatype.INT32,
    "fp32_false_true": Datatype.FP32,
    "bool_false_true": Datatype.BOOL,
}
_START, _READY, _END = "CONTROL_SEQUENCE_START", "CONTROL_SEQUENCE_READY", "CONTROL_SEQUENCE_END"
_CORRID = "CONTROL_SEQUENCE_CORRID"


class SequenceControls:
    """The control inputs of one model version, made once."""

    def __init__(self, config: ModelConfig) -> None:
        self._model_name = config.name
        self._shape = (1, 1) if config.max_batch_size else (1,)
        self._switches: dict[str, tuple[str, Tensor, Tensor]] = {}
        self._corrid: tuple[str, Datatype] | None = None
        for entry in config.document["sequence_batching"].get("control_input", ()):
            for control in entry.get("control", ()):
                self._declare(entry["name"], control)

    @property
    def tells_rows(self) -> bool:
        """Whether the model can tell a row that is no request, because it has READY."""
        return _READY in self._switches

    def check(self, correlation_id: int | str) -> None:
        """Raise InvalidArgument where an id is not of the kind that the model takes."""
        if self._corrid is None:
            return
        name, datatype = self._corrid
        given = Datatype.BYTES if isinstance(correlation_id, str) else Datatype.UINT64
        if (given is Datatype.BYTES) is not (datatype is Datatype.BYTES):
            msg = (
                f"sequence batching control '{name}' data-type is '{given}', "
                f"but model '{self._model_name}' expects '{datatype}'"
            )
            raise InvalidArgument(msg)

    def dressed(self, request: InferenceRequest) -> InferenceRequest:
        """A request with its control tensors, as the model gets it. The given one belongs to the caller."""
        return self._with(request, ready=True)

    def nothing(self, like: InferenceRequest) -> InferenceRequest:
        """What stands in a row whose sequence has no request: inputs of the same shapes that mean nothing."""
        inputs = {name: _blank(tensor) for name, tensor in like.inputs.items()}
        blank = InferenceRequest(like.model_name, inputs, like.model_version, batch_size=like.batch_size)
        return self._with(blank, ready=False)

    def _with(self, request: InferenceRequest, *, ready: bool) -> InferenceRequest:
        inputs, flags = dict(request.inputs), request.flags
        for kind, on in ((_START, flags & SEQUENCE_START), (_READY, ready), (_END, flags & SEQUENCE_END)):
            switch = self._switches.get(kind)
            if switch is not None:
                name, off_tensor, on_tensor = switch
                inputs[name] = on_tensor if on else off_tensor
        if self._corrid is not None:
            name, datatype = self._corrid
            inputs[name] = Tensor(datatype, self._shape, _id_bytes(request.correlation_id, datatype))
        return replace(request, inputs=inputs, form=None)

    def _declare(self, name: str, control: Document) -> None:
        kind = control.get("kind", _START)
        if kind == _CORRID:
            self._corrid = (name, Datatype.from_config(control["data_type"]))
            return
        for field, datatype in _LISTS.items():
            values = control.get(field, ())
            if values:
                off, on = (
                    Tensor(datatype, self._shape, np.array([value], datatype.numpy).tobytes()) for value in values
                )
                self._switches[kind] = (name, off, on)


def _id_bytes(correlation_id: int | str, datatype: Datatype) -> bytes:
    """An id as an element of a tensor: a number's low-order bits, or a text with its length."""
    if datatype is Datatype.BYTES:
        text = str(correlation_id or "").encode(errors="surrogateescape")
        return _LENGTH.pack(len(text)) + text
    size = datatype.itemsize
    return (int(correlation_id) & (1 << 8 * size) - 1).to_bytes(size, "little")


def _blank(tensor: Tensor) -> Tensor:
    size = tensor.element_count * _LENGTH.size if tensor.datatype is Datatype.BYTES else tensor.byte_size
    return Tensor(tensor.datatype, tensor.shape, bytes(size))
