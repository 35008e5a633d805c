"""Protobuf's wire format, as far as large tensors need it: cutting them out of requests and joining them to replies.

protobuf copies every tensor that passes through its messages. Here the raw contents of a request stay where they were
received, and those of a reply are joined once. Everything else is still protobuf's: what is left of a request when its
raw contents are cut out is parsed by it, and what stands before them in a reply is written by it.

A request that is written in an unusual way is not cut (``None``); the caller then has protobuf read the whole.
"""

from __future__ import annotations

from dataclasses import dataclass

_LENGTH_DELIMITED = 2
_WIRE_TYPE = 7
_ID_TAG = 3 << 3 | _LENGTH_DELIMITED
_RAW_INPUT_TAG = 7 << 3 | _LENGTH_DELIMITED
_ONE_BYTE = 0x80
_GROUP_BITS = 7
_MAX_LENGTH_BITS = 35
"""A length has at most 31 bits: five groups of seven."""


@dataclass(slots=True)
class Cut:
    """A ModelInferRequest in parts.

    ``rest`` is the message without ``id`` and ``raw_input_contents``; ``request_id`` the bytes of the id, and
    ``id_start`` where they start, -1 where there are none; ``raw`` where each of the raw contents starts and ends in
    the received bytes; ``prefix`` how many bytes stand before the first of them, or -1 where something else stands
    between or behind them.
    """

    rest: bytes
    request_id: bytes
    id_start: int
    raw: list[tuple[int, int]]
    prefix: int


def cut_request(data: bytes | bytearray) -> Cut | None:
    """Cut a serialised ModelInferRequest; None where that takes more than its top-level fields and their lengths."""
    position = kept_from = 0
    end = len(data)
    kept: list[bytes | bytearray] = []
    request_id: bytes | bytearray | None = None
    id_start = -1
    raw: list[tuple[int, int]] = []
    prefix = end
    while position < end:
        tag = data[position]
        if tag >= _ONE_BYTE or tag & _WIRE_TYPE != _LENGTH_DELIMITED:
            return None
        length = read_length(data, position + 1)
        if length is None or length[1] > end:
            return None
        start, stop = length
        if tag == _RAW_INPUT_TAG:
            if not raw:
                prefix = position
            raw.append((start, stop))
        elif raw:
            prefix = -1
        if tag in (_RAW_INPUT_TAG, _ID_TAG):
            kept.append(data[kept_from:position])
            kept_from = stop
            if tag == _ID_TAG:
                if request_id is not None:
                    return None
                request_id, id_start = data[start:stop], start
        position = stop
    kept.append(data[kept_from:])
    return Cut(b"".join(kept), bytes(request_id or b""), id_start if request_id else -1, raw, prefix)


def read_length(data: bytes | bytearray, position: int) -> tuple[int, int] | None:
    """Where a length-delimited field whose length stands at ``position`` starts and ends; None for a broken length."""
    size = bits = 0
    while position < len(data) and bits < _MAX_LENGTH_BITS:
        group = data[position]
        position += 1
        size |= (group & ~_ONE_BYTE) << bits
        if group < _ONE_BYTE:
            return position, position + size
        bits += _GROUP_BITS
    return None


def varint(number: int) -> bytes:
    """A number of at least 0, seven bits a byte, the lowest first."""
    groups = bytearray()
    while number >= _ONE_BYTE:
        groups.append(number & ~_ONE_BYTE & 0xFF | _ONE_BYTE)
        number >>= _GROUP_BITS
    groups.append(number)
    return bytes(groups)


def field_head(number: int, size: int) -> bytes:
    """What stands before the ``size`` bytes of a length-delimited field."""
    return varint(number << 3 | _LENGTH_DELIMITED) + varint(size)
