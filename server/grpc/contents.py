"""Typed contents: tensors whose elements a client sends as protobuf's numbers, turned into the bytes of the wire."""

from __future__ import annotations

import struct
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from ...backends.api.datatypes import Datatype
from ...backends.api.errors import InvalidArgument
from .wire_format import read_length

if TYPE_CHECKING:
    from collections.abc import Sequence

_LENGTH = struct.Struct("<I")
_CHUNK = 10_000
"""Elements that are turned at once: the interpreter's lock is not given away meanwhile."""
_PACKED = frozenset({Datatype.BOOL, Datatype.FP32, Datatype.FP64})
"""Datatypes whose elements protobuf writes as the tensor holds them, one behind the other."""

_FIELDS: dict[str, tuple[str, str]] = {
    "bool_contents": ("BOOL", "?"),
    "int_contents": ("INT32", "<i4"),
    "int64_contents": ("INT64", "<i8"),
    "uint_contents": ("UINT32", "<u4"),
    "uint64_contents": ("UINT64", "<u8"),
    "fp32_contents": ("FP32", "<f4"),
    "fp64_contents": ("FP64", "<f8"),
    "bytes_contents": ("BYTES", ""),
}
"""Each field, what an error calls its elements, and their numpy type."""

_FIELD_OF: dict[Datatype, str] = {
    Datatype.BOOL: "bool_contents",
    Datatype.INT8: "int_contents",
    Datatype.INT16: "int_contents",
    Datatype.INT32: "int_contents",
    Datatype.INT64: "int64_contents",
    Datatype.UINT8: "uint_contents",
    Datatype.UINT16: "uint_contents",
    Datatype.UINT32: "uint_contents",
    Datatype.UINT64: "uint64_contents",
    Datatype.FP32: "fp32_contents",
    Datatype.FP64: "fp64_contents",
    Datatype.BYTES: "bytes_contents",
}
"""Where the elements of a datatype stand; FP16 and BF16 are only sent raw."""


def to_bytes(contents: Any, datatype: Datatype, name: str, model: str) -> bytes:  # noqa: ANN401  protobuf
    """The bytes of an ``InferTensorContents``; none where no field is set.

    Integers narrower than their field lose the bytes above, as in Triton. Raises InvalidArgument for elements in
    another field than the datatype's, and in two fields.
    """
    given = [field.name for field, _ in contents.ListFields()]
    if not given:
        return b""
    expected = _FIELD_OF.get(datatype)
    for field in given:
        if field != expected:
            kind = _FIELDS[field][0] if field in _FIELDS else field
            if expected in given:
                msg = f"binary data was already supplied for input tensor '{name}' for model '{model}'"
            else:
                msg = (
                    f"unexpected explicit tensor data for input tensor '{name}' for model '{model}' of type '{kind}', "
                    f"expected datatype '{datatype}'"
                )
            raise InvalidArgument(msg)
    if datatype in _PACKED:
        return _packed(contents)
    values = getattr(contents, given[0])
    if datatype is Datatype.BYTES:
        return _prefixed(values)
    array = np.empty(len(values), dtype=_FIELDS[given[0]][1])
    for start in range(0, len(values), _CHUNK):
        array[start : start + _CHUNK] = values[start : start + _CHUNK]
    return array.astype(datatype.numpy, copy=False).tobytes()


def _packed(contents: Any) -> bytes:  # noqa: ANN401  protobuf
    """The one field of a message as it is written, which is as the tensor is.

    PERF: a million floats take 2 ms so, and 370 ms one by one.
    """
    data: bytes = contents.SerializeToString()
    span = read_length(data, 1)
    return b"" if span is None else data[span[0] : span[1]]


def _prefixed(elements: Sequence[bytes]) -> bytes:
    """Each element behind its length."""
    chunks: list[bytes] = []
    for start in range(0, len(elements), _CHUNK):
        texts = elements[start : start + _CHUNK]
        chunks.append(b"".join(chain.from_iterable(zip(map(_LENGTH.pack, map(len, texts)), texts, strict=True))))
    return b"".join(chunks)
