"""HTTP/2's frames and the numbers in them (RFC 9113). Pure."""

from __future__ import annotations

import enum
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD_SIZE = 9
FIRST_WINDOW = 65_535
"""What both windows of a connection begin with."""
WIDEST_WINDOW = 2**31 - 1
SMALLEST_MAX_FRAME = 16_384
LARGEST_MAX_FRAME = 2**24 - 1
STREAM_MASK = 2**31 - 1

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
HAS_PRIORITY = 0x20

_HEAD = struct.Struct(">IBI")
_SETTING = struct.Struct(">HI")
_WORD = struct.Struct(">I")
_TWO_WORDS = struct.Struct(">II")
WORD_SIZE = 4
PING_SIZE = 8
PRIORITY_SIZE = 5


class Setting(enum.IntEnum):
    """Settings by number."""

    HEADER_TABLE_SIZE = 1
    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6


class ErrorCode(enum.IntEnum):
    """Why a stream or a connection ends."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    ENHANCE_YOUR_CALM = 11


class ProtocolViolation(Exception):
    """The peer broke the protocol in a way that ends the connection; ``code`` and the message go into the GOAWAY."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    """A whole frame."""
    return _HEAD.pack(len(payload) << 8 | kind, flags, stream_id) + payload


def frame_head(kind: int, flags: int, stream_id: int, size: int) -> bytes:
    """What stands before a payload of ``size`` bytes."""
    return _HEAD.pack(size << 8 | kind, flags, stream_id)


def read_head(data: bytes | bytearray, position: int) -> tuple[int, int, int, int]:
    """Length, kind, flags and stream of the frame that begins at ``position``."""
    word, flags, stream_id = _HEAD.unpack_from(data, position)
    return word >> 8, word & 0xFF, flags, stream_id & STREAM_MASK


def settings_frame(values: dict[Setting, int]) -> bytes:
    """Our settings."""
    return frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(key, value) for key, value in values.items()))


def read_settings(payload: bytes) -> dict[int, int]:
    """The peer's settings by number, unknown ones included. Raises ProtocolViolation for values that none may have."""
    if len(payload) % _SETTING.size:
        raise ProtocolViolation(ErrorCode.FRAME_SIZE_ERROR, "a SETTINGS frame does not hold whole settings")
    values: dict[int, int] = dict(_SETTING.iter_unpack(payload))
    if values.get(Setting.INITIAL_WINDOW_SIZE, 0) > WIDEST_WINDOW:
        raise ProtocolViolation(ErrorCode.FLOW_CONTROL_ERROR, "INITIAL_WINDOW_SIZE is larger than 2^31-1")
    size = values.get(Setting.MAX_FRAME_SIZE, SMALLEST_MAX_FRAME)
    if not SMALLEST_MAX_FRAME <= size <= LARGEST_MAX_FRAME:
        raise ProtocolViolation(ErrorCode.PROTOCOL_ERROR, f"MAX_FRAME_SIZE is {size}, not from 2^14 to 2^24-1")
    if values.get(Setting.ENABLE_PUSH, 0) > 1:
        raise ProtocolViolation(ErrorCode.PROTOCOL_ERROR, "ENABLE_PUSH is neither 0 nor 1")
    return values


def window_update(stream_id: int, increment: int) -> bytes:
    """Let the peer send so many bytes more."""
    return frame(WINDOW_UPDATE, 0, stream_id, _WORD.pack(increment))


def read_window_update(payload: bytes) -> int:
    """How many bytes more may be sent. Raises ProtocolViolation for a payload of another size."""
    check_size(payload, WORD_SIZE, "WINDOW_UPDATE")
    return _WORD.unpack(payload)[0] & STREAM_MASK


def rst_stream(stream_id: int, code: ErrorCode) -> bytes:
    """End one stream."""
    return frame(RST_STREAM, 0, stream_id, _WORD.pack(code))


def goaway(last_stream_id: int, code: ErrorCode, message: str = "") -> bytes:
    """Take no more streams than those up to ``last_stream_id``."""
    return frame(GOAWAY, 0, 0, _TWO_WORDS.pack(last_stream_id, code) + message.encode())


def ping(payload: bytes, *, ack: bool = False) -> bytes:
    """Ask for a sign of life, or give one."""
    return frame(PING, ACK if ack else 0, 0, payload)


def check_size(payload: bytes, size: int, name: str) -> None:
    """Raises ProtocolViolation for a frame of that name whose payload has another size in bytes."""
    if len(payload) != size:
        raise ProtocolViolation(ErrorCode.FRAME_SIZE_ERROR, f"a {name} frame has {len(payload)} bytes, not {size}")


def unpadded(payload: bytes, flags: int) -> bytes:
    """What a frame carries without its padding. Raises ProtocolViolation for more padding than payload."""
    if not flags & PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise ProtocolViolation(ErrorCode.PROTOCOL_ERROR, "a frame has more padding than payload")
    return payload[1 : len(payload) - payload[0]]


def header_fragment(payload: bytes, flags: int) -> bytes:
    """The header block, or its first part, in a HEADERS frame. Raises ProtocolViolation."""
    block = unpadded(payload, flags)
    if flags & HAS_PRIORITY:
        if len(block) < PRIORITY_SIZE:
            raise ProtocolViolation(ErrorCode.FRAME_SIZE_ERROR, "a HEADERS frame is too short for its priority")
        block = block[PRIORITY_SIZE:]
    return block
