"""Gather the inputs of several requests into one tensor, scatter one output over several requests.

The batch dimension is the leading one. On the host both are byte copies along it, so no dtype matters but BYTES,
whose elements carry their own lengths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from . import datatypes
from .datatypes import Datatype
from .errors import Internal
from .tensor import HOST, Device, Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


class StagingBuffer:
    """Host memory that one instance reuses for its gathered inputs; it grows and never shrinks.

    Belongs to one instance, which executes one batch at a time, so it needs no lock. Starts of tensors are
    multiples of 64 bytes, which every vectorised kernel accepts.
    """

    ALIGNMENT = 64

    def __init__(self) -> None:
        self._memory: NDArray[np.uint8] = np.empty(0, dtype=np.uint8)
        self._used = 0

    @property
    def capacity(self) -> int:
        """Bytes held."""
        return self._memory.nbytes

    def reset(self) -> None:
        """Forget what was taken; call before each batch."""
        self._used = 0

    def take(self, nbytes: int) -> memoryview:
        """A writable view of ``nbytes`` bytes that stays valid as long as it is referenced."""
        start = -(-self._used // self.ALIGNMENT) * self.ALIGNMENT
        if start + nbytes > self.capacity:
            # Views handed out earlier in this batch keep the old block alive.
            size = max(nbytes, 2 * self.capacity) + self.ALIGNMENT
            block = self._block(size)
            offset = -block.ctypes.data % self.ALIGNMENT
            self._memory = block[offset:]
            start = 0
        self._used = start + nbytes
        return self._memory[start : start + nbytes].data

    def _block(self, nbytes: int) -> NDArray[np.uint8]:
        """New memory. A backend with a device overrides it to have memory that the device reads faster."""
        return np.empty(nbytes, dtype=np.uint8)


def gather(tensors: Sequence[Tensor], staging: StagingBuffer, *, device: Device = HOST) -> Tensor:
    """One tensor whose leading dimension is the sum of the parts'. A batch of one is handed on as it is.

    All parts have one datatype and, but for the leading dimension, one shape (the scheduler sees to it);
    Internal is raised where they do not.
    """
    first = tensors[0]
    if len(tensors) == 1 and first.device == device:
        return first
    rows = 0
    for tensor in tensors:
        if tensor.datatype is not first.datatype or tensor.shape[1:] != first.shape[1:]:
            msg = f"cannot gather {tensor!r} with {first!r} into one batch"
            raise Internal(msg)
        rows += tensor.shape[0]
    target = staging.take(sum(tensor.byte_size for tensor in tensors))
    position = 0
    for tensor in tensors:
        view = tensor.view
        target[position : position + view.nbytes] = view
        position += view.nbytes
    return Tensor(first.datatype, (rows, *first.shape[1:]), target)


def scatter(tensor: Tensor, rows: Sequence[int]) -> list[Tensor]:
    """Views of ``tensor`` along its leading dimension, ``rows[i]`` rows each.

    Raises Internal, naming both numbers, where the rows do not add up to the leading dimension.
    """
    if not tensor.shape or tensor.shape[0] != sum(rows):
        got = list(tensor.shape)
        msg = f"the model returned an output of shape {got} for a batch of {sum(rows)}; its first dimension must match"
        raise Internal(msg)
    if len(rows) == 1:
        return [tensor]
    ends = _row_ends(tensor, rows)
    parts: list[Tensor] = []
    start = 0
    view = tensor.view
    for count, end in zip(rows, ends, strict=True):
        parts.append(Tensor(tensor.datatype, (count, *tensor.shape[1:]), view[start:end]))
        start = end
    return parts


def _row_ends(tensor: Tensor, rows: Sequence[int]) -> list[int]:
    """Byte offsets at which each request's share ends."""
    total = tensor.shape[0]
    if tensor.datatype is not Datatype.BYTES:
        per_row = tensor.byte_size // total if total else 0
        return [int(end) * per_row for end in np.cumsum(rows)]
    lengths = [len(element) + 4 for element in datatypes.split_bytes(tensor.view)]
    per_row = len(lengths) // total if total else 0
    offsets = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
    return [int(offsets[int(end) * per_row]) for end in np.cumsum(rows)]
