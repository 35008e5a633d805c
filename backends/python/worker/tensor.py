"""``pb_utils.Tensor``: a named tensor over memory that belongs to the model."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from . import datatypes, dlpack, parcels
from .errors import TritonModelException, require, text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .parcels import Item

_CPU = (1, 0)


class Tensor:
    """``Tensor(name, array)``: C-contiguous arrays are referenced until they are sent, others copied.

    Numeric dtypes, bool, object (of bytes or str) and ``S<n>`` have a wire form; anything else raises
    TritonModelException.
    """

    __slots__ = ("__weakref__", "_array", "_datatype", "_name", "_raw", "_shape")

    def __init__(self, name: str, array: NDArray[Any], /) -> None:
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            name = text(name, "Tensor", "name")
        if not isinstance(array, np.ndarray):  # pyright: ignore[reportUnnecessaryIsInstance]
            require(array, np.ndarray, "Tensor", "array")
        if not name:
            msg = "Tensor name cannot be an empty string."
            raise TritonModelException(msg)
        datatype = datatypes.WIRE_NAMES.get(array.dtype) or datatypes.wire_name(array.dtype)
        if datatype is None and not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
            datatype = datatypes.wire_name(array.dtype)
        if datatype is None:
            msg = (
                f"Unsupported NumPy dtype '{array.dtype}' for tensor '{name}'; "
                "use a numeric, bool, bytes or object array."
            )
            raise TritonModelException(msg)
        self._name = name
        self._datatype = datatype
        self._shape = array.shape
        self._array: NDArray[Any] | None = array if array.flags.c_contiguous else array.copy(order="C")
        self._raw: Any = None

    @classmethod
    def received(cls, item: Item, memory: bytearray | NDArray[np.uint8]) -> list[Tensor]:
        """The tensors of a received request or response, over the memory of its parcel."""
        plan = item.layout.derived
        if plan is None:
            plan = item.layout.derived = [
                (name, datatype, shape, size, offset, _view_dtype(datatype))
                for (name, datatype, shape, size), offset in zip(item.layout.tensors, item.layout.offsets)
            ]
        start = item.start
        tensors: list[Tensor] = []
        for name, datatype, shape, size, offset, dtype in plan:
            self = cls.__new__(cls)
            self._name = name
            self._datatype = datatype
            self._shape = shape
            if dtype is None:
                self._array = None
                self._raw = np.ndarray((size,), np.uint8, memory, start + offset)
            else:
                self._array = np.ndarray(shape, dtype, memory, start + offset)
                self._raw = None
            tensors.append(self)
        return tensors

    @classmethod
    def from_bytes(cls, name: str, datatype: str, shape: tuple[int, ...], data: NDArray[np.uint8]) -> Tensor:
        """A tensor of a datatype that numpy does not have (BF16), over its bytes. Not part of Triton's interface."""
        self = cls.__new__(cls)
        self._name = name
        self._datatype = datatype
        self._shape = tuple(shape)
        self._array = None
        self._raw = data
        return self

    def __repr__(self) -> str:
        return f"Tensor({self._name!r}, {self._datatype}, {list(self._shape)})"

    def name(self) -> str:
        """The name."""
        return self._name

    def shape(self) -> list[int]:
        """The shape."""
        return list(self._shape)

    def triton_dtype(self) -> int:
        """The number of the datatype (TYPE_BOOL is 1, TYPE_STRING 13)."""
        return datatypes.NUMBERS[self._datatype]

    def datatype(self) -> str:
        """The wire name of the datatype, e.g. ``FP32``."""
        return self._datatype

    def is_cpu(self) -> bool:
        """Whether the memory is the host's."""
        return True

    def as_numpy(self) -> NDArray[Any]:
        """A writable view on the tensor's memory; BYTES gives an object array of ``bytes``."""
        if self._array is None:
            if self._datatype == "BF16":
                msg = "Tensor dtype is BF16 and cannot be converted to NumPy; use to_dlpack()."
                raise TritonModelException(msg)
            self._array = deserialize_bytes_tensor(self._raw).reshape(self._shape)
        return self._array

    def as_bytes(self) -> NDArray[np.uint8]:
        """A writable view on the bytes as they came, of any datatype. Not part of Triton's interface."""
        return self._raw if self._array is None else self._array.reshape(-1).view(np.uint8)

    def wire(self) -> tuple[tuple[str, str, tuple[int, ...], int], Any]:
        """What a frame says of the tensor (name, datatype, shape, bytes), and the bytes."""
        datatype = self._datatype
        data: Any = self._array
        if data is None:
            data = self._raw
        elif datatype == "BYTES":
            try:
                data = serialize_elements(data)
            except UnicodeEncodeError as exc:
                msg = f"tensor '{self._name}' has an element that is no UTF-8 text: {exc}; encode it yourself"
                raise TritonModelException(msg) from exc
            return (self._name, datatype, self._shape, len(data)), data
        size = data.nbytes
        # numpy takes microseconds to export the buffer of a new array, and far less to copy a small one.
        return (self._name, datatype, self._shape, size), data.tobytes() if size <= parcels.INLINE_LIMIT else data

    def to_dlpack(self) -> Any:  # noqa: ANN401  a PyCapsule
        """A DLPack capsule over the memory; it keeps the tensor. Raises TritonModelException for BYTES."""
        return self.__dlpack__()

    def __dlpack__(self, *, stream: Any = None, **options: Any) -> Any:  # noqa: ANN401  a PyCapsule; streams are for devices
        """The same, for ``from_dlpack`` of any library."""
        if self._datatype == "BYTES":
            msg = "DLPack does not have support for string tensors."
            raise TritonModelException(msg)
        if self._array is None:
            return dlpack.exported_bfloat16(self, self._raw, self._shape, **options)
        return dlpack.exported(self, self._array, **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack device type (1: host) and index."""
        return _CPU

    @staticmethod
    def from_dlpack(name: str, tensor: Any, /) -> Tensor:  # noqa: ANN401  anything that speaks DLPack
        """A tensor over another library's memory: a capsule, or an object with ``__dlpack__``.

        Raises TritonModelException for an empty name, an object that does not speak DLPack, a tensor that is not
        C-contiguous or not on the host.
        """
        speaks = hasattr(tensor, "__dlpack__") and hasattr(tensor, "__dlpack_device__")
        if not name or not (speaks or type(tensor).__name__ == "PyCapsule"):
            msg = "from_dlpack() needs a name and a DLPack capsule or an object with __dlpack__ and __dlpack_device__."
            raise TritonModelException(msg)
        try:
            array, is_bfloat16 = dlpack.imported(tensor)
        except dlpack.CONSUMER_ERRORS as exc:
            msg = f"DLPack tensor '{name}' cannot be taken over: {exc}"
            raise TritonModelException(msg) from exc
        if not array.flags.c_contiguous:
            msg = (
                "DLPack tensor is not contiguous. Only contiguous DLPack tensors that are stored in C-Order are "
                "supported."
            )
            raise TritonModelException(msg)
        if is_bfloat16:
            return Tensor.from_bytes(name, "BF16", array.shape, array.reshape(-1).view(np.uint8))
        return Tensor(name, array)


def _view_dtype(datatype: str) -> np.dtype[Any] | None:
    """The dtype of the view that a received tensor is; None where there is none before it is decoded."""
    return None if datatype == "BYTES" else datatypes.DTYPES.get(datatype)


def serialize_elements(array: NDArray[Any]) -> bytes:
    """The elements in C order, each as a little-endian uint32 length and its bytes; text is encoded as UTF-8."""
    parts: list[bytes] = []
    for item in array.ravel(order="C").tolist():
        element = item if isinstance(item, bytes) else str(item).encode()
        parts.append(struct.pack("<I", len(element)))
        parts.append(element)
    return b"".join(parts)


def serialize_byte_tensor(input_tensor: NDArray[Any]) -> Any:  # noqa: ANN401  the interface mixes types
    """An object or bytes array as BYTES elements; ``()`` for an empty array, None for another dtype."""
    if input_tensor.size == 0:
        return ()
    if input_tensor.dtype == np.object_ or input_tensor.dtype.type == np.bytes_:
        return serialize_elements(input_tensor)
    return None


def deserialize_bytes_tensor(encoded_tensor: Any) -> NDArray[np.object_]:  # noqa: ANN401  any bytes-like object
    """The inverse: a one-dimensional object array of ``bytes``. Raises ValueError where an element is cut off."""
    data = bytes(encoded_tensor)
    elements: list[bytes] = []
    position, end = 0, len(data)
    while position < end:
        start = position + 4
        length = int.from_bytes(data[position:start], "little")
        position = start + length
        if position > end or start > end:
            msg = f"BYTES element of {length} bytes is cut off: the tensor ends {position - end} bytes before it"
            raise ValueError(msg)
        elements.append(data[start:position])
    array: NDArray[np.object_] = np.empty(len(elements), dtype=np.object_)
    array[:] = elements
    return array
