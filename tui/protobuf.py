"""Protobuf's wire format, as far as a streamed inference needs it: no library, no generated code. Pure.

Field numbers are those of Triton's ``grpc_service.proto``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..backends.api.datatypes import Datatype

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_MORE = 0x80
_MOST_SHIFT = 63
_INT64 = 1 << 64


def varint(number: int) -> bytes:
    """A number of 64 bits; negative ones in two's complement."""
    number %= _INT64
    out = bytearray()
    while number >= _MORE:
        out.append(number & 0x7F | _MORE)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number: int, value: int | str | bytes) -> bytes:
    """One field: a number, or a text, bytes or a message with its length before it."""
    if isinstance(value, int):
        return varint(number << 3 | VARINT) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | BYTES) + varint(len(data)) + data


def read_varint(data: memoryview, position: int) -> tuple[int, int]:
    """A number and where the next thing begins. Raises ValueError for one that does not end."""
    number = shift = 0
    while position < len(data):
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < _MORE:
            return number % _INT64, position
        shift += 7
        if shift > _MOST_SHIFT:
            break
    msg = "a number in the message does not end"
    raise ValueError(msg)


def fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Number and value of each field in turn; the parts of a message are views of it. Raises ValueError."""
    position = 0
    while position < len(data):
        key, position = read_varint(data, position)
        kind = key & 7
        if kind == VARINT:
            value, position = read_varint(data, position)
            yield key >> 3, value
            continue
        if kind == BYTES:
            size, position = read_varint(data, position)
        elif kind in (FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
        else:
            msg = f"the message holds a field of kind {kind}"
            raise ValueError(msg)
        if position + size > len(data):
            msg = "the message ends in the middle of a field"
            raise ValueError(msg)
        yield key >> 3, data[position : position + size]
        position += size


def packed(values: Iterable[int]) -> bytes:
    """Numbers one after another, as a repeated field carries them."""
    return b"".join(varint(value) for value in values)


def unpacked(value: int | memoryview) -> list[int]:
    """The numbers of a repeated field, whether it came packed or one by one; signed."""
    if isinstance(value, int):
        return [signed(value)]
    numbers: list[int] = []
    position = 0
    while position < len(value):
        number, position = read_varint(value, position)
        numbers.append(signed(number))
    return numbers


def signed(number: int) -> int:
    """A number of 64 bits as an int64."""
    return number - _INT64 if number >= _INT64 // 2 else number


def parameter(name: str, value: bool | float | str) -> bytes:  # noqa: FBT001  a value
    """An entry of ``map<string, InferParameter>``."""
    import struct

    if isinstance(value, bool):
        inner = field(1, int(value))
    elif isinstance(value, int):
        inner = field(2, value)
    elif isinstance(value, float):
        inner = varint(4 << 3 | FIXED64) + struct.pack("<d", value)
    else:
        inner = field(3, value)
    return field(1, name) + field(2, inner)


def tensor_head(name: str, datatype: Datatype | str, shape: Iterable[int]) -> bytes:
    """An InferInputTensor whose contents are raw."""
    return field(1, name) + field(2, str(datatype)) + field(3, packed(shape))


def read_parameter(data: memoryview) -> tuple[str, Any]:
    """Name and value of an entry of ``map<string, InferParameter>``."""
    import struct

    name, value = "", None
    for number, part in fields(data):
        if isinstance(part, int):
            continue
        if number == 1:
            name = str(part, "utf-8")
        elif number == 2:  # noqa: PLR2004  the map's value
            for choice, inner in fields(part):
                if isinstance(inner, int):
                    value = bool(inner) if choice == 1 else signed(inner)
                else:
                    value = str(inner, "utf-8") if choice == 3 else struct.unpack("<d", inner)[0]  # noqa: PLR2004  the text
    return name, value
