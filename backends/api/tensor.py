"""A tensor: datatype, shape, device, buffer, release.

On the host the buffer is what the wire carries: little-endian, row-major, unpadded bytes, and for BYTES the
length-prefixed elements. So a tensor that passes through the server is never converted, only pointed at.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from . import datatypes
from .datatypes import Datatype
from .errors import InvalidArgument, Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Device:
    """Where a buffer lives, in DLPack's numbering: 1 is the host, 2 CUDA, 3 pinned host memory."""

    kind: int
    index: int = 0

    @property
    def is_host(self) -> bool:
        """Whether the CPU can read the buffer."""
        return self.kind in (1, 3)


HOST = Device(1)
PINNED = Device(3)


class Tensor:
    """One tensor, anywhere on its way through the server.

    :param datatype: element type.
    :param shape: sizes of all dimensions, the batch dimension included.
    :param buffer: the bytes (C-contiguous, any bytes-like object); on another device, that device's handle.
    :param device: where the buffer lives.
    :param release: called once when the server is done with the buffer, or None.
    """

    __slots__ = ("_release", "buffer", "datatype", "device", "shape")

    def __init__(
        self,
        datatype: Datatype,
        shape: Shape,
        buffer: Any,  # noqa: ANN401  bytes-like on the host, a foreign handle elsewhere
        *,
        device: Device = HOST,
        release: Callable[[], None] | None = None,
    ) -> None:
        self.datatype = datatype
        self.shape = shape
        self.buffer = buffer
        self.device = device
        self._release = release

    def __repr__(self) -> str:
        return f"Tensor({self.datatype}, {list(self.shape)}, {self.byte_size} bytes)"

    @property
    def element_count(self) -> int:
        """The product of the shape; 1 for a shape of no dimensions."""
        return math.prod(self.shape)

    @property
    def byte_size(self) -> int:
        """Length of the buffer in bytes."""
        return memoryview(self.buffer).nbytes

    @property
    def view(self) -> memoryview:
        """The buffer as a flat view of bytes. Raises Unsupported for a tensor that is not on the host."""
        if not self.device.is_host:
            msg = f"tensor lives on device {self.device.kind}:{self.device.index}; copy it to the host first"
            raise Unsupported(msg)
        view = memoryview(self.buffer)
        return view if view.ndim == 1 and view.format == "B" else view.cast("B")

    def release(self) -> None:
        """Give the buffer back to its owner; a second call does nothing."""
        release, self._release = self._release, None
        if release is not None:
            release()

    def as_numpy(self) -> NDArray[Any]:
        """A numpy array: a view for numbers (read-only where the buffer is), a new object array for BYTES.

        Raises InvalidArgument where buffer and shape disagree.
        """
        try:
            if self.datatype is Datatype.BYTES:
                return datatypes.decode_bytes(self.view, self.shape)
            return np.frombuffer(self.view, dtype=self.datatype.numpy).reshape(self.shape)
        except ValueError as exc:
            msg = f"{self.datatype} buffer of {self.byte_size} bytes does not hold shape {list(self.shape)}: {exc}"
            raise InvalidArgument(msg) from exc

    @classmethod
    def from_numpy(cls, array: NDArray[Any]) -> Tensor:
        """A tensor over the array's memory; arrays that are not C-contiguous or big-endian, and BYTES, are copied.

        Raises InvalidArgument for a dtype without a wire form.
        """
        try:
            datatype = Datatype.from_numpy(array.dtype)
        except TypeError as exc:
            raise InvalidArgument(str(exc)) from exc
        if datatype is Datatype.BYTES:
            return cls(datatype, array.shape, datatypes.encode_bytes(array))
        if array.dtype.byteorder == ">":
            array = array.astype(array.dtype.newbyteorder("<"))
        contiguous = array if array.flags.c_contiguous else np.ascontiguousarray(array)
        # Extension dtypes such as bfloat16 have no buffer format of their own: export the bytes.
        return cls(datatype, array.shape, contiguous.reshape(-1).view(np.uint8).data)

    def __dlpack__(self, *, stream: Any = None, **options: Any) -> Any:  # noqa: ANN401  a PyCapsule
        """A DLPack capsule over the buffer (read-only buffers are copied first).

        Raises Unsupported for BYTES and BF16, which numpy cannot export.
        """
        if self.datatype in (Datatype.BYTES, Datatype.BF16):
            msg = f"DLPack does not have support for {self.datatype} tensors here"
            raise Unsupported(msg)
        array = self.as_numpy()
        if not array.flags.writeable:
            array = array.copy()
        return array.__dlpack__(stream=stream, **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack device type and index."""
        return (self.device.kind, self.device.index)

    @classmethod
    def from_dlpack(cls, producer: Any) -> Tensor:  # noqa: ANN401  anything that speaks DLPack
        """A host tensor over a DLPack producer's memory. Raises InvalidArgument for what numpy cannot import."""
        try:
            array = np.from_dlpack(producer)
        except (BufferError, RuntimeError, TypeError, AttributeError) as exc:
            msg = f"object does not export a host tensor through DLPack: {exc}"
            raise InvalidArgument(msg) from exc
        return cls.from_numpy(array)
