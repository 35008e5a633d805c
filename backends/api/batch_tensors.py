"""Tensors of a whole batch: those computed from its requests' shapes, and flat ones that no batch dimension divides.

A ragged input reaches the model as one flat tensor, the elements of all requests one after the other. ``batch_input``
tells the model where each request's share begins, ``batch_output`` tells us how to divide a flat output. All is pure.
Shapes are those that the requests' inputs have for the backend, the batch dimension included where the model batches.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import BackendFailure, InvalidArgument
from .model_config import BatchInputKind
from .tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from .model_config import BatchInput
    from .request import InferenceRequest
    from .tensor import Shape


def flat(tensor: Tensor) -> Tensor:
    """The same elements as a tensor of one dimension, over the same buffer."""
    return Tensor(tensor.datatype, (tensor.element_count,), tensor.buffer, device=tensor.device)


def source_shapes(source: str, requests: Iterable[InferenceRequest]) -> list[Shape]:
    """The shape of the input ``source`` in each request. Raises InvalidArgument where a request leaves it out."""
    shapes: list[Shape] = []
    for request in requests:
        tensor = request.inputs.get(source)
        if tensor is None:
            msg = (
                f"model '{request.model_name}' computes batch tensors from the shape of input '{source}', "
                "which the request leaves out; send it"
            )
            raise InvalidArgument(msg)
        shapes.append(tensor.shape)
    return shapes


def computed(spec: BatchInput, shapes: Sequence[Shape], *, batching: bool) -> NDArray[Any]:
    """What a ``batch_input`` feeds to each of its targets; one shape a request, at least one.

    Raises InvalidArgument where a number is too large for INT32.
    """
    counts = [math.prod(shape) for shape in shapes]
    dtype = spec.datatype.numpy
    try:
        match spec.kind:
            case BatchInputKind.ELEMENT_COUNT:
                return np.array(counts, dtype)
            case BatchInputKind.ACCUMULATED_ELEMENT_COUNT:
                return np.array(list(itertools.accumulate(counts)), dtype)
            case BatchInputKind.ACCUMULATED_ELEMENT_COUNT_WITH_ZERO:
                return np.array(list(itertools.accumulate(counts, initial=0)), dtype)
            case BatchInputKind.MAX_ELEMENT_COUNT_AS_SHAPE:
                # Only the shape says something. Zeros, because unset memory may hold another request.
                return np.zeros(max(counts), dtype)
            case BatchInputKind.ITEM_SHAPE:
                return _item_shapes(shapes, dtype, batching=batching)
            case BatchInputKind.ITEM_SHAPE_FLATTEN:
                return _item_shapes(shapes, dtype, batching=batching).reshape(-1)
    except OverflowError as exc:
        source = spec.source_inputs[0]
        msg = (
            f"a batch of {sum(counts)} elements of input '{source}' is too large for batch input kind "
            f"'{spec.kind.value}' of TYPE_INT32; send smaller requests, or lower max_batch_size"
        )
        raise InvalidArgument(msg) from exc


def _item_shapes(shapes: Sequence[Shape], dtype: np.dtype[Any], *, batching: bool) -> NDArray[Any]:
    """A line for each row of the batch: the row's shape. A request is one row where the model does not batch."""
    items = [(shape[0], shape[1:]) if batching else (1, shape) for shape in shapes]
    lines = [item for rows, item in items for _ in range(rows)]
    return np.array(lines, dtype).reshape(len(lines), len(items[0][1]))


def output_shape(dims: Sequence[int], source: Shape, *, batching: bool) -> Shape:
    """One request's shape of a flat output: ``dims`` whose variable sizes, the batch among them, are the source's.

    Each is taken from the same dimension of ``source``, which has to reach that far.
    """
    whole = (-1, *dims) if batching else dims
    return tuple(source[index] if dim == -1 else dim for index, dim in enumerate(whole))


def cut(array: NDArray[Any], shapes: Sequence[Shape], *, name: str, source: str) -> list[NDArray[Any]]:
    """The elements of a flat output in consecutive pieces of the given shapes; views where ``array`` is contiguous.

    ``name`` and ``source`` are the output and the input that its shapes are taken from. Raises BackendFailure that
    names both numbers where there are more or fewer elements than the shapes hold.
    """
    ends = list(itertools.accumulate(math.prod(shape) for shape in shapes))
    if array.size != ends[-1]:
        msg = (
            f"the model returned {array.size} elements as output '{name}', "
            f"but the requests' shapes of input '{source}' make it {ends[-1]}"
        )
        raise BackendFailure(msg)
    elements = array.reshape(-1)
    starts = [0, *ends[:-1]]
    return [elements[start:end].reshape(shape) for start, end, shape in zip(starts, ends, shapes, strict=True)]
