"""What a model version takes and gives, computed once at load, and the check of a request against it.

The order of the checks and their sentences are Triton's (protocol reference, bad-input matrix): outputs, number of
inputs, batch size, then each input's datatype, shape and byte size.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING

import numpy as np

from ...backends.api.errors import InvalidArgument
from ...backends.api.reshape import reshaped
from ...backends.api.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...backends.api.model_config import ModelConfig, TensorSpec
    from ...backends.api.request import InferenceRequest

MAX_COUNT = 2**63 - 1
"""The most elements or bytes that a tensor may claim: what an int64 holds."""

_PREFIX = struct.Struct("<I")
_MANY = 64
"""Elements from which it pays to look whether all have one length."""

MAX_FORMS = 512
"""Forms of requests that are remembered as sound."""

_BATCH_NOTE = (
    "NOTE: Setting a non-zero max_batch_size in the model config requires a batch dimension to be prepended to each "
    "input shape. If you want to specify the full shape including the batch dim in your input dims config, try "
    "setting max_batch_size to zero. See the model configuration docs for more info on max_batch_size."
)


class ModelSignature:
    """The inputs and outputs of one model version, ready for the hot path."""

    __slots__ = (
        "_by_form",
        "_forms",
        "_names",
        "_reshaped",
        "_specs",
        "batching",
        "decoupled",
        "inputs",
        "labels",
        "max_batch_size",
        "name",
        "output_names",
        "outputs",
        "required",
    )

    def __init__(self, config: ModelConfig, labels: Mapping[str, tuple[str, ...]] | None = None) -> None:
        self.name = config.name
        self.inputs: dict[str, TensorSpec] = {spec.name: spec for spec in config.inputs}
        self.outputs: dict[str, TensorSpec] = {spec.name: spec for spec in config.outputs}
        self.output_names: tuple[str, ...] = tuple(self.outputs)
        self.required: frozenset[str] = frozenset(spec.name for spec in config.inputs if not spec.optional)
        self.max_batch_size = config.max_batch_size
        self.batching = config.max_batch_size > 0
        self.decoupled = config.decoupled
        self.labels: dict[str, tuple[str, ...]] = dict(labels or {})
        self._names = frozenset(self.inputs)
        self._specs = self.inputs
        self._forms: dict[object, int] = {}
        self._by_form = all(spec.datatype.itemsize and spec.reshape is None for spec in config.inputs)
        self._reshaped = tuple(
            (spec.name, spec.dims, spec.reshape) for spec in config.inputs if spec.reshape is not None
        )

    def full_shape(self, spec: TensorSpec) -> list[int]:
        """The shape shown in metadata: the dims, after a -1 for the batch where the model batches."""
        return [-1, *spec.dims] if self.batching else list(spec.dims)

    def check(self, request: InferenceRequest) -> None:
        """Check a request and set its ``batch_size``. Raises InvalidArgument with Triton's sentence.

        What was found of a form once holds for every request of that form, unless its elements have to be looked at.
        """
        form = request.form
        if form is not None:
            batch_size = self._forms.get(form)
            if batch_size is not None:
                request.batch_size = batch_size
                return
        self._check(request)
        if form is not None and self._by_form:
            if len(self._forms) >= MAX_FORMS:
                self._forms.clear()
            self._forms[form] = request.batch_size

    def _check(self, request: InferenceRequest) -> None:
        if request.requested_outputs:
            for output in request.requested_outputs:
                if output not in self.outputs:
                    raise _refusal(request, f"unexpected inference output '{output}' for model '{self.name}'")
        inputs = request.inputs
        if inputs.keys() != self._names:
            self._check_names(request)
        request.batch_size = self._check_batch(request) if self.batching else 1
        for name, tensor in inputs.items():
            self._check_tensor(request, self._specs[name], tensor)
        if self._reshaped:
            self._reshape(request)

    def _reshape(self, request: InferenceRequest) -> None:
        """Give the backend the shapes it wants in place of those that clients see."""
        for name, dims, reshape in self._reshaped:
            tensor = request.inputs.get(name)
            if tensor is not None:
                shape = reshaped(tensor.shape, dims, reshape, batching=self.batching)
                # Another tensor over the same buffer, because the caller may use its own again.
                request.inputs[name] = Tensor(
                    tensor.datatype, shape, tensor.buffer, device=tensor.device, release=tensor.release
                )

    def _check_names(self, request: InferenceRequest) -> None:
        """Number and names of the inputs, where they are not simply all of them."""
        given, total, needed = request.inputs, len(self.inputs), len(self.required)
        if needed <= len(given) <= total:
            for name in given:
                if name not in self.inputs:
                    raise _refusal(request, f"unexpected inference input '{name}' for model '{self.name}'")
            if given.keys() >= self.required:
                return
        expected = f"{total} inputs" if needed == total else f"number of inputs between {needed} and {total}"
        missing = ",".join(f"'{name}'" for name in self.inputs if name in self.required and name not in given)
        got = ",".join(f"'{name}'" for name in given)
        msg = (
            f"expected {expected} but got {len(given)} inputs for model '{self.name}'. Got input(s) [{got}], "
            f"but missing required input(s) [{missing}]. Please provide all required input(s)."
        )
        raise _refusal(request, msg)

    def _check_batch(self, request: InferenceRequest) -> int:
        """The batch size that all inputs agree on."""
        batch = -1
        for name, tensor in request.inputs.items():
            shape = tensor.shape
            if not shape:
                msg = f"input '{name}' has no shape but model requires batch dimension for '{self.name}'"
                raise _refusal(request, msg)
            if batch < 0:
                batch = shape[0]
            elif shape[0] != batch:
                msg = f"input '{name}' batch size does not match other inputs for '{self.name}'"
                raise _refusal(request, msg)
        if batch > self.max_batch_size:
            msg = f"inference request batch-size must be <= {self.max_batch_size} for '{self.name}'"
            raise _refusal(request, msg)
        return max(batch, 1)

    def _check_tensor(self, request: InferenceRequest, spec: TensorSpec, tensor: Tensor) -> None:
        if tensor.datatype is not spec.datatype:
            msg = (
                f"inference input '{spec.name}' data-type is '{tensor.datatype}', "
                f"but model '{self.name}' expects '{spec.datatype}'"
            )
            raise _refusal(request, msg)
        shape = tensor.shape[1:] if self.batching else tensor.shape
        dims = spec.dims
        if shape != dims and not _fits(shape, dims):
            note = _BATCH_NOTE if self.batching else ""
            msg = (
                f"unexpected shape for input '{spec.name}' for model '{self.name}'. "
                f"Expected {_brackets(self.full_shape(spec))}, got {_brackets(tensor.shape)}. {note}"
            )
            raise _refusal(request, msg)
        # A batch of no rows is no batch: it is expected to hold one, as Triton has it.
        count = request.batch_size * math.prod(shape) if self.batching else math.prod(shape) if shape else 0
        itemsize = tensor.datatype.itemsize
        if not itemsize:
            self._check_elements(request, spec.name, tensor, count)
        elif count * itemsize != tensor.byte_size:
            msg = (
                f"input byte size mismatch for input '{spec.name}' for model '{self.name}'. "
                f"Expected {count * itemsize}, got {tensor.byte_size}"
            )
            raise _refusal(request, msg)

    def _check_elements(self, request: InferenceRequest, name: str, tensor: Tensor, expected: int) -> None:
        """The framing of a BYTES input: whole prefixes, whole elements, as many as the shape says."""
        view = tensor.view
        if _is_framed(view, expected):
            return
        position, end, found = 0, len(view), 0
        where = f"for inference input '{name}' for model '{self.name}'"
        while position < end:
            if position + 4 > end:
                msg = (
                    f"incomplete string length indicator {where}, expecting 4 bytes but only {end - position} bytes "
                    "available. Please make sure the string length indicator is in one buffer."
                )
                raise _refusal(request, msg)
            if found == expected:
                msg = f"unexpected number of string elements {expected + 1} {where}, expecting {expected}"
                raise _refusal(request, msg)
            length = int.from_bytes(view[position : position + 4], "little")
            position += 4
            if length > end - position:
                msg = (
                    f"incomplete string data {where}, expecting string of length {length} "
                    f"but only {end - position} bytes available"
                )
                raise _refusal(request, msg)
            position += length
            found += 1
        if found != expected:
            raise _refusal(request, f"expected {expected} string elements {where}, got {found}")


def _is_framed(view: memoryview, expected: int) -> bool:
    """Whether a buffer holds exactly so many length-prefixed elements.

    PERF: a million elements of one length take 10 ms, of different lengths 300 ms; the loop waits meanwhile.
    """
    position, end, found = 0, len(view), 0
    if expected > _MANY and end >= _PREFIX.size:
        stride = _PREFIX.size + _PREFIX.unpack_from(view)[0]
        if stride * expected == end:
            prefixes = np.ascontiguousarray(np.frombuffer(view, np.uint8).reshape(expected, stride)[:, : _PREFIX.size])
            if (prefixes.view("<u4") == stride - _PREFIX.size).all():
                return True
    unpack, last = _PREFIX.unpack_from, end - _PREFIX.size
    while position <= last:
        position += _PREFIX.size + unpack(view, position)[0]
        found += 1
    return position == end and found == expected


def _fits(shape: tuple[int, ...], dims: tuple[int, ...]) -> bool:
    return len(shape) == len(dims) and all(
        size == dim or (dim == -1 and size >= 0) for size, dim in zip(shape, dims, strict=True)
    )


def _brackets(shape: tuple[int, ...] | list[int]) -> str:
    return "[" + ",".join(map(str, shape)) + "]"


def _refusal(request: InferenceRequest, message: str) -> InvalidArgument:
    return InvalidArgument(f"[request id: {request.request_id or '<id_unknown>'}] {message}")
