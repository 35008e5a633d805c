"""The ``data`` of a tensor in JSON: elements to the tensor's bytes and back."""

from __future__ import annotations

import array
import itertools
import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from ...backends.api import datatypes
from ...backends.api.datatypes import Datatype
from ...backends.api.errors import Internal, InvalidArgument
from .json_text import DEPTH_EXCEEDED, MAX_DEPTH

if TYPE_CHECKING:
    from ...backends.api.tensor import Tensor

MAX_COUNT = 2**63 - 1
_NO_JSON = frozenset({Datatype.FP16, Datatype.BF16})
_SIGNED = frozenset({Datatype.INT8, Datatype.INT16, Datatype.INT32, Datatype.INT64})
_UNSIGNED = frozenset({Datatype.UINT8, Datatype.UINT16, Datatype.UINT32, Datatype.UINT64})
_ARRAY_CODES = {
    Datatype.UINT8: "B",
    Datatype.UINT16: "H",
    Datatype.UINT32: "I",
    Datatype.UINT64: "Q",
    Datatype.INT8: "b",
    Datatype.INT16: "h",
    Datatype.INT32: "i",
    Datatype.INT64: "q",
    Datatype.FP32: "f",
    Datatype.FP64: "d",
}
_INT: set[type] = {int}
_BOOL: set[type] = {bool}
_STR: set[type] = {str}
_NUMBERS: set[type] = {int, float}

TOO_FEW = "Failed to parse 'data' field: shape does not match true shape"
TOO_MANY = "Unable to parse 'data': Shape does not match true shape of 'data' field"


def decode(name: str, datatype: Datatype, shape: tuple[int, ...], data: object, limit: int) -> Any:  # noqa: ANN401  JSON
    """The bytes of input ``name`` from its JSON ``data``, flat or nested.

    :param limit: the most bytes that the elements may take as their datatype.

    Raises InvalidArgument for a datatype that JSON cannot carry, for a claim that is too large and for nesting that
    is too deep; Internal, as Triton does, for elements of the wrong type and for a number of them that differs from
    the shape's. A number that does not fit is cut to the datatype's width.
    """
    if datatype in _NO_JSON:
        msg = f"receiving {datatype} data via JSON is not supported. Please use the binary data format for input {name}"
        raise InvalidArgument(msg)
    count = _count(name, datatype, shape, limit)
    if not isinstance(data, list):
        msg = "Unable to parse 'data': attempt to access JSON non-array as array"
        raise Internal(msg)
    if count == 0:
        return b""
    flat, kinds = _flatten(data)  # pyright: ignore[reportUnknownArgumentType]
    if datatype is Datatype.BYTES:
        return _decode_strings(name, flat, kinds, limit)
    if len(flat) != count:
        raise Internal(TOO_FEW if len(flat) < count else TOO_MANY)
    _check_kinds(datatype, flat, kinds)
    if datatype is Datatype.BOOL:
        return bytes(flat)
    try:
        return array.array(_ARRAY_CODES[datatype], flat)
    except OverflowError:
        return _decode_wide(datatype, flat)


def encode(tensor: Tensor, name: str) -> bytes:
    """The JSON array of a tensor's elements, flat.

    Raises InvalidArgument for a datatype that JSON cannot carry.
    """
    datatype = tensor.datatype
    if datatype in _NO_JSON:
        msg = f"sending {datatype} data via JSON is not supported. Please use the binary data format for output {name}"
        raise InvalidArgument(msg)
    if datatype is Datatype.BYTES:
        return _encode_strings(datatypes.split_bytes(tensor.view))
    values = np.frombuffer(tensor.view, dtype=datatype.numpy)
    if datatype is Datatype.FP32:
        # Triton prints the double nearest to the float: 0.1f is 0.10000000149011612.
        values = values.astype(np.float64)
    elif not values.flags.aligned:
        values = values.copy()
    text = orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY)
    if datatype in (Datatype.FP32, Datatype.FP64) and b"null" in text:
        return json.dumps(values.tolist(), separators=(",", ":")).encode()
    return text


def _count(name: str, datatype: Datatype, shape: tuple[int, ...], limit: int) -> int:
    """The number of elements that ``shape`` claims; no dimensions count as none."""
    count = math.prod(shape) if shape else 0
    if count > MAX_COUNT:
        if max(shape) > MAX_COUNT:
            msg = f"shape for input '{name}' contains one or more invalid dimensions"
        else:
            msg = f"shape for input '{name}' causes total element count to exceed maximum size of {MAX_COUNT}"
        raise InvalidArgument(msg)
    nbytes = count * datatype.itemsize
    if nbytes > MAX_COUNT:
        msg = f"byte size overflow for input '{name}': {count} elements of {datatype.itemsize} bytes"
        raise InvalidArgument(msg)
    if nbytes > limit:
        raise _over_limit(name, nbytes, limit)
    return count


def _over_limit(name: str, nbytes: int, limit: int) -> InvalidArgument:
    return InvalidArgument(
        f"JSON input '{name}' has a byte_size ({nbytes} bytes) that exceeds the maximum allowed value of "
        f"{limit} bytes. Use --http-max-input-size to increase the limit."
    )


def _flatten(data: list[Any]) -> tuple[list[Any], set[type]]:
    """The elements in row-major order, and their types. Nesting need not match the shape."""
    kinds = set(map(type, data))
    depth = 1
    while list in kinds:
        depth += 1
        if depth > MAX_DEPTH:
            raise InvalidArgument(DEPTH_EXCEEDED)
        if len(kinds) == 1:
            data = list(itertools.chain.from_iterable(data))
        else:
            data = list(itertools.chain.from_iterable(map(_as_list, data)))
        kinds = set(map(type, data))
    return data, kinds


def _as_list(item: Any) -> list[Any]:  # noqa: ANN401  JSON
    return item if type(item) is list else [item]  # pyright: ignore[reportUnknownVariableType]


def _check_kinds(datatype: Datatype, flat: list[Any], kinds: set[type]) -> None:
    """Raises Internal where an element is not of the JSON type that the datatype needs."""
    if datatype in _SIGNED:
        if kinds != _INT or max(flat) > MAX_COUNT or min(flat) < -MAX_COUNT - 1:
            raise _wrong_type("signed-integer")
    elif datatype in _UNSIGNED:
        if kinds != _INT or min(flat) < 0 or max(flat) > 2 * MAX_COUNT + 1:
            raise _wrong_type("unsigned-integer")
    elif datatype is Datatype.BOOL:
        if kinds != _BOOL:
            raise _wrong_type("boolean")
    elif not kinds <= _NUMBERS:
        msg = "Unable to parse 'data': attempt to access JSON non-number as double"
        raise Internal(msg)


def _wrong_type(expected: str) -> Internal:
    return Internal(f"Unable to parse 'data': attempt to access JSON non-{expected} as {expected}")


def _decode_wide(datatype: Datatype, flat: list[Any]) -> bytes:
    """Integers that do not all fit: each is cut to the width, as a C cast does."""
    wide = np.array(flat, dtype=np.uint64 if datatype in _UNSIGNED else np.int64)
    return wide.astype(datatype.numpy).tobytes()


def _decode_strings(name: str, flat: list[Any], kinds: set[type], limit: int) -> bytes:
    """Length-prefixed elements; their number is for the core to check."""
    if kinds - _STR:
        msg = "Unable to parse JSON bytes array: attempt to access JSON non-string as string"
        raise Internal(msg)
    parts: list[bytes] = []
    for item in flat:
        element = item.encode("utf-8", "surrogateescape")
        parts.append(len(element).to_bytes(4, "little"))
        parts.append(element)
    encoded = b"".join(parts)
    if len(encoded) > limit:
        raise _over_limit(name, len(encoded), limit)
    return encoded


def _encode_strings(elements: list[bytes]) -> bytes:
    try:
        return orjson.dumps([element.decode() for element in elements])
    except UnicodeDecodeError:
        return b"[" + b",".join(_encode_string(element) for element in elements) + b"]"


def _encode_string(element: bytes) -> bytes:
    """One element as a string literal, bytes that are no UTF-8 as they are."""
    # Latin-1 maps every byte to one character, so only what JSON must escape is changed.
    return json.dumps(element.decode("latin-1"), ensure_ascii=False).encode("latin-1")
