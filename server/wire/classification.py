"""The classification extension: the k highest values of an output, with their labels, as text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ...backends.api.datatypes import Datatype
from ...backends.api.errors import InvalidArgument
from ...backends.api.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MAX_CLASSES = 1_000_000
_UNSUPPORTED = frozenset({Datatype.FP16, Datatype.BF16, Datatype.BOOL, Datatype.BYTES})
_FLOATS = frozenset({Datatype.FP32, Datatype.FP64})


def classify(tensor: Tensor, count: int, labels: Sequence[str] = (), *, batching: bool) -> Tensor:
    """The ``count`` highest elements of each row as a BYTES tensor of ``value:index[:label]``.

    The result's shape is [rows, min(count, classes)] for a model that batches, else without the rows. Equal values
    come with the lowest index first, not-a-number last. Raises InvalidArgument for a datatype without an order and
    for rows of more than a million elements.
    """
    if tensor.datatype in _UNSUPPORTED:
        msg = f"class result not available for output due to unsupported type '{tensor.datatype}'"
        raise InvalidArgument(msg)
    shape = tensor.shape
    row_shape = shape[1:] if batching else shape
    classes = math.prod(row_shape)
    if classes > MAX_CLASSES:
        msg = f"classification output tensor too large: {classes} elements, the most is {MAX_CLASSES}"
        raise InvalidArgument(msg)
    rows = shape[0] if batching and shape else 1
    top = min(count, classes)
    is_float = tensor.datatype in _FLOATS
    parts: list[bytes] = []
    for row in tensor.as_numpy().reshape(rows, classes):
        for index in _highest(row, top):
            element = _text(row[index].item(), int(index), labels, is_float=is_float)
            parts.append(len(element).to_bytes(4, "little"))
            parts.append(element)
    return Tensor(Datatype.BYTES, (rows, top) if batching else (top,), b"".join(parts))


def _highest(row: NDArray[np.generic], count: int) -> NDArray[np.intp]:
    """Indices of the ``count`` highest values, descending, the lower index first among equals."""
    # A stable ascending sort of the reversed row, reversed again, is a stable descending one without negating
    # values, which unsigned integers and the lowest signed one do not survive.
    size = len(row)
    if row.dtype.kind == "f":
        row = np.where(np.isnan(row), np.array(-np.inf, dtype=row.dtype), row)
    order = np.argsort(row[::-1], kind="stable")[::-1][:count]
    return size - 1 - order


def _text(value: float, index: int, labels: Sequence[str], *, is_float: bool) -> bytes:
    text = f"{value:f}:{index}" if is_float else f"{value}:{index}"
    if index < len(labels) and labels[index]:
        text = f"{text}:{labels[index]}"
    return text.encode()
