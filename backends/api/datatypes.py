"""The one table of tensor element types: wire name, config name and number, size, numpy type.

Facts from the KServe v2 protocol and Triton's ``model_config.proto``.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Datatype(enum.Enum):
    """An element type. ``value`` is the wire name (``FP32``), which is also ``str(datatype)``."""

    BOOL = "BOOL"
    UINT8 = "UINT8"
    UINT16 = "UINT16"
    UINT32 = "UINT32"
    UINT64 = "UINT64"
    INT8 = "INT8"
    INT16 = "INT16"
    INT32 = "INT32"
    INT64 = "INT64"
    FP16 = "FP16"
    FP32 = "FP32"
    FP64 = "FP64"
    BYTES = "BYTES"
    BF16 = "BF16"

    # Filled from _TABLE below; plain attributes, because the hot path reads them.
    config_name: str
    """The name in config.pbtxt, e.g. ``TYPE_FP32`` (``TYPE_STRING`` for BYTES)."""
    number: int
    """The number of the enum ``inference.DataType``."""
    itemsize: int
    """Bytes of one element; 0 for BYTES, whose elements carry their own length."""

    def __str__(self) -> str:
        return self.value

    @property
    def numpy(self) -> np.dtype[Any]:
        """The numpy dtype; ``object`` (of ``bytes``) for BYTES, ``ml_dtypes.bfloat16`` for BF16."""
        return _numpy_dtype(self)

    @classmethod
    def from_config(cls, config_name: str) -> Datatype:
        """``TYPE_FP32`` → FP32. Raises KeyError for an unknown name and for ``TYPE_INVALID``."""
        return _BY_CONFIG_NAME[config_name]

    @classmethod
    def from_numpy(cls, dtype: np.dtype[Any]) -> Datatype:
        """The element type of a numpy array; bytes and object arrays are BYTES.

        Raises TypeError for a dtype that has no wire form (``<U5``, complex, datetime).
        """
        found = _BY_DTYPE.get(dtype)
        if found is not None:
            return found
        # PERF: numpy makes `dtype.name` anew each time (several µs), so it is asked for once a dtype.
        found = _BY_NUMPY_NAME.get(dtype.name)
        if found is not None:
            _BY_DTYPE[dtype] = found
            return found
        if dtype.kind in "SO":
            return cls.BYTES
        msg = f"numpy dtype '{dtype}' has no tensor datatype; use a numeric, bool, bytes or object array"
        raise TypeError(msg)


_TABLE: tuple[tuple[Datatype, str, int, int, str], ...] = (
    (Datatype.BOOL, "TYPE_BOOL", 1, 1, "bool"),
    (Datatype.UINT8, "TYPE_UINT8", 2, 1, "uint8"),
    (Datatype.UINT16, "TYPE_UINT16", 3, 2, "uint16"),
    (Datatype.UINT32, "TYPE_UINT32", 4, 4, "uint32"),
    (Datatype.UINT64, "TYPE_UINT64", 5, 8, "uint64"),
    (Datatype.INT8, "TYPE_INT8", 6, 1, "int8"),
    (Datatype.INT16, "TYPE_INT16", 7, 2, "int16"),
    (Datatype.INT32, "TYPE_INT32", 8, 4, "int32"),
    (Datatype.INT64, "TYPE_INT64", 9, 8, "int64"),
    (Datatype.FP16, "TYPE_FP16", 10, 2, "float16"),
    (Datatype.FP32, "TYPE_FP32", 11, 4, "float32"),
    (Datatype.FP64, "TYPE_FP64", 12, 8, "float64"),
    (Datatype.BYTES, "TYPE_STRING", 13, 0, "object"),
    (Datatype.BF16, "TYPE_BF16", 14, 2, "bfloat16"),
)

for _member, _config_name, _number, _itemsize, _ in _TABLE:
    _member.config_name = _config_name
    _member.number = _number
    _member.itemsize = _itemsize

BY_WIRE_NAME: dict[str, Datatype] = {member.value: member for member in Datatype}
"""Wire name → datatype; names are case-sensitive, as on the wire."""

_BY_CONFIG_NAME = {row[1]: row[0] for row in _TABLE}
_BY_NUMPY_NAME = {row[4]: row[0] for row in _TABLE}
_BY_DTYPE: dict[np.dtype[Any], Datatype] = {}
_DTYPES: dict[Datatype, np.dtype[Any]] = {row[0]: np.dtype(row[4]) for row in _TABLE if row[4] != "bfloat16"}


def _numpy_dtype(datatype: Datatype) -> np.dtype[Any]:
    found = _DTYPES.get(datatype)
    if found is None:
        import ml_dtypes  # noqa: PLC0415  imported when the first BF16 tensor needs it

        found = _DTYPES[datatype] = np.dtype(ml_dtypes.bfloat16)
    return found


def encode_bytes(array: NDArray[Any]) -> bytes:
    """An object or bytes array as BYTES elements: each a little-endian uint32 length, then the bytes.

    Elements that are not bytes are encoded as UTF-8 text, as the official clients do.
    """
    parts: list[bytes] = []
    for item in array.ravel(order="C").tolist():
        element: bytes = item if isinstance(item, bytes) else str(item).encode()
        parts.append(len(element).to_bytes(4, "little"))
        parts.append(element)
    return b"".join(parts)


def split_bytes(buffer: memoryview | bytes) -> list[bytes]:
    """The elements of a BYTES buffer, in order.

    Raises ValueError for a length prefix that is cut off or that reaches past the end.
    """
    view = memoryview(buffer)
    elements: list[bytes] = []
    position, end = 0, len(view)
    while position < end:
        start = position + 4
        if start > end:
            msg = "incomplete string length indicator"
            raise ValueError(msg)
        length = int.from_bytes(view[position:start], "little")
        position = start + length
        if position > end:
            msg = f"incomplete string data, expecting string of length {length} but only {end - start} bytes available"
            raise ValueError(msg)
        elements.append(bytes(view[start:position]))
    return elements


def decode_bytes(buffer: memoryview | bytes, shape: tuple[int, ...]) -> NDArray[np.object_]:
    """The inverse of :func:`encode_bytes`: an object array of ``bytes`` of the given shape.

    Raises ValueError for a malformed buffer and for a number of elements that differs from the shape's.
    """
    elements = split_bytes(buffer)
    array: NDArray[np.object_] = np.empty(len(elements), dtype=np.object_)
    array[:] = elements
    return array.reshape(shape)
