"""HTTP/2's frames and windows, as far as one call of a client needs them (RFC 9113). Pure."""

from __future__ import annotations

import struct
from dataclasses import dataclass

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM = ACK = 0x1
END_HEADERS, PADDED, PRIORITY = 0x4, 0x8, 0x20
PRIORITY_SIZE = 5
ENABLE_PUSH, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE = 2, 4, 5
FIRST_WINDOW = 65_535
CANCEL = 8
HEAD = struct.Struct(">IBI")
SETTING = struct.Struct(">HI")
WORD = struct.Struct(">I")
_FRAME = 16_384


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """A whole frame."""
    return HEAD.pack(len(payload) << 8 | kind, flags, stream) + payload


@dataclass(slots=True)
class Windows:
    """How many bytes may still be sent, on the connection and on the stream, and what the server says of both."""

    connection: int = FIRST_WINDOW
    stream: int = FIRST_WINDOW
    initial: int = FIRST_WINDOW
    largest_frame: int = _FRAME

    @property
    def room(self) -> int:
        """Bytes that the next DATA frame may carry."""
        return max(0, min(self.connection, self.stream, self.largest_frame))

    def spend(self, count: int) -> None:
        """Bytes were sent."""
        self.connection -= count
        self.stream -= count

    def settle(self, payload: bytes) -> None:
        """Take the server's settings; a new initial window also moves that of the open stream."""
        for key, value in SETTING.iter_unpack(payload):
            if key == INITIAL_WINDOW_SIZE:
                self.stream += value - self.initial
                self.initial = value
            elif key == MAX_FRAME_SIZE:
                self.largest_frame = value

    def widen(self, stream: int, increment: int) -> None:
        """Take a WINDOW_UPDATE."""
        if stream:
            self.stream += increment
        else:
            self.connection += increment


def unpadded(payload: bytes, flags: int) -> bytes:
    """What a frame carries without its padding."""
    return payload[1 : len(payload) - payload[0]] if flags & PADDED and payload else payload
