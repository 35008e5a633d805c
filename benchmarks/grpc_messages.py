"""The few protobuf messages of the gRPC door that load needs, as bytes, without protobuf.

Requests are made once and sent again and again; of an answer only what tells that it is right is read. Field numbers
are the protocol's (``inference.GRPCInferenceService``).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SERVICE = "/inference.GRPCInferenceService"
UNARY = f"{SERVICE}/ModelInfer"
STREAM = f"{SERVICE}/ModelStreamInfer"

_VARINT, _FIXED64, _BYTES = 0, 1, 2
_SEVEN_BITS, _MORE = 0x7F, 0x80

Tensor = tuple[str, str, list[int], bytes]
"""Name, datatype, shape, raw bytes."""


@dataclass
class Answer:
    """What a response says about itself. ``final`` is None where the server does not say."""

    error: str = ""
    request_id: str = ""
    final: bool | None = None
    outputs: list[bytes] = field(default_factory=list[bytes])


def infer_request(model: str, tensors: Iterable[Tensor], request_id: str = "", *, empty_final: bool = False) -> bytes:
    """A ModelInferRequest with raw contents; ``empty_final`` asks for a last response also where it has no data."""
    tensors = list(tensors)
    message = _text(1, model)
    if request_id:
        message += _text(3, request_id)
    if empty_final:
        parameter = _number(1, 1)
        message += _bytes(4, _text(1, "triton_enable_empty_final_response") + _bytes(2, parameter))
    for name, datatype, shape, _ in tensors:
        message += _bytes(5, _text(1, name) + _text(2, datatype) + _bytes(3, b"".join(_varint(size) for size in shape)))
    return message + b"".join(_bytes(7, raw) for *_, raw in tensors)


def framed(message: bytes) -> bytes:
    """A message as gRPC carries it: not compressed, its length, itself."""
    return struct.pack(">BI", 0, len(message)) + message


def infer_answer(message: bytes) -> Answer:
    """What a ModelInferResponse says."""
    answer = Answer()
    for number, value in _fields(message):
        if not isinstance(value, bytes):
            continue
        if number == 3:  # noqa: PLR2004  the field's number
            answer.request_id = value.decode()
        elif number == 4:  # noqa: PLR2004
            entry = dict(_fields(value))
            if entry.get(1) == b"triton_final_response":
                answer.final = _truth(entry.get(2, b""))
        elif number == 6:  # noqa: PLR2004
            answer.outputs.append(value)
    return answer


def stream_answer(message: bytes) -> Answer:
    """What a ModelStreamInferResponse says."""
    parts = dict(_fields(message))
    inner, error = parts.get(2, b""), parts.get(1, b"")
    answer = infer_answer(inner if isinstance(inner, bytes) else b"")
    answer.error = error.decode() if isinstance(error, bytes) else ""
    return answer


def _truth(parameter: bytes | int) -> bool:
    return isinstance(parameter, bytes) and bool(dict(_fields(parameter)).get(1, 0))


def _fields(message: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Number and value of each field. Raises ValueError for a message that is cut off."""
    at = 0
    while at < len(message):
        key, at = _read_varint(message, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _read_varint(message, at)
            yield key >> 3, value
            continue
        if kind == _BYTES:
            size, at = _read_varint(message, at)
        else:
            size = 8 if kind == _FIXED64 else 4
        if at + size > len(message):
            raise ValueError(f"field {key >> 3} goes beyond the message's end")
        yield key >> 3, message[at : at + size]
        at += size


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message):
        byte = message[at]
        at += 1
        value |= (byte & _SEVEN_BITS) << shift
        if byte < _MORE:
            return value, at
        shift += 7
    raise ValueError("a number goes beyond the message's end")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > _SEVEN_BITS:
        out.append(value & _SEVEN_BITS | _MORE)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3 | _VARINT) + _varint(value)


def _bytes(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(value)) + value


def _text(number: int, value: str) -> bytes:
    return _bytes(number, value.encode())
