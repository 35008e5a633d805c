"""The binary tensor extension: cutting the bytes behind the JSON into tensors, on views and without a copy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...backends.api.datatypes import Datatype
from ...backends.api.errors import InvalidArgument
from ...backends.api.tensor import Tensor

if TYPE_CHECKING:
    from ...backends.api.model_config import TensorSpec
    from ..lifecycle.signature import ModelSignature

LENGTH_PREFIX = 4


def request_prefix(request_id: str) -> str:
    """How errors of the core begin: ``[request id: 42] ``."""
    return f"[request id: {request_id or '<id_unknown>'}] "


class BinaryTail:
    """The bytes behind the JSON of a request, taken from the front in the order of the inputs."""

    __slots__ = ("_model_name", "_position", "_view")

    def __init__(self, view: memoryview, model_name: str) -> None:
        self._view = view
        self._model_name = model_name
        self._position = 0

    def take(self, name: str, size: int) -> memoryview:
        """The next ``size`` bytes, for input ``name``. Raises InvalidArgument where they are not there."""
        start = self._position
        end = start + size
        if end > self._view.nbytes:
            missing = end - self._view.nbytes
            msg = (
                f"unexpected size for input '{name}', expecting {missing} additional bytes "
                f"for model '{self._model_name}'"
            )
            raise InvalidArgument(msg)
        self._position = end
        return self._view[start:end]

    def finish(self) -> None:
        """Raises InvalidArgument where bytes are left over."""
        if self._position != self._view.nbytes:
            msg = f"unexpected additional input data for model '{self._model_name}'"
            raise InvalidArgument(msg)


def raw_input(signature: ModelSignature, body: memoryview) -> Tensor:
    """The one input of a raw binary request, its shape deduced from the body's size.

    Raises InvalidArgument for a model with several inputs or whose shape cannot be deduced. A body that does not
    fill whole elements gives a tensor whose size the core's check refuses.
    """
    if len(signature.inputs) != 1:
        msg = (
            f"{request_prefix('')}Raw request must only have 1 input (found 1) to be deduced but got "
            f"{len(signature.inputs)} inputs in '{signature.name}' model configuration"
        )
        raise InvalidArgument(msg)
    spec = next(iter(signature.inputs.values()))
    leading = (1,) if signature.batching else ()
    if spec.datatype is Datatype.BYTES:
        return _raw_bytes(spec, leading, body)
    return Tensor(spec.datatype, leading + _deduced(spec, body.nbytes), body)


def _raw_bytes(spec: TensorSpec, leading: tuple[int, ...], body: memoryview) -> Tensor:
    if spec.dims != (1,):
        msg = (
            f"{request_prefix('')}For BYTE datatype raw input '{spec.name}', the model must have input shape [1], "
            f"got {list(spec.dims)}"
        )
        raise InvalidArgument(msg)
    element = body.nbytes.to_bytes(LENGTH_PREFIX, "little") + body
    return Tensor(spec.datatype, (*leading, 1), element)


def _deduced(spec: TensorSpec, nbytes: int) -> tuple[int, ...]:
    unknown = [index for index, dim in enumerate(spec.dims) if dim < 0]
    if len(unknown) > 1:
        msg = (
            f"{request_prefix('')}The shape of Raw input '{spec.name}' can not be deduced because there are more than "
            f"one variable-sized dimension in {list(spec.dims)}"
        )
        raise InvalidArgument(msg)
    if not unknown:
        return spec.dims
    known = math.prod(dim for dim in spec.dims if dim >= 0) * spec.datatype.itemsize
    size = nbytes // known if known else 0
    return tuple(size if dim < 0 else dim for dim in spec.dims)
