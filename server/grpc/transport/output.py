"""What goes out on a connection: frames in order, as far as both windows allow, one write a turn of the loop."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from . import frames, framing, headers
from .frames import ErrorCode, ProtocolViolation

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

    from .call import Call

_AT_ONCE = 256 << 10
"""Bytes that are handed to the transport without waiting for the turn of the loop to end."""
_JOINED = 64 << 10
"""Up to this size one buffer is cheaper than several without a copy."""
MAX_UNREAD = 32 << 20
"""Bytes that may wait for a client to read them. Messages stop long before; answers to a client's frames do not."""
_FIRST_TABLE = 4096
_EMPTY_TABLE = b"\x20"
"""Says that our header blocks use no table, which a client that wants a small one has to be told."""
_HEADERS = frames.END_HEADERS
_TRAILERS = frames.END_HEADERS | frames.END_STREAM
_ANSWER = struct.Struct(f">IBI{len(headers.RESPONSE_HEAD)}sIBIBI")
"""Before the message of a small reply: headers, the head of its DATA frame, and its prefix."""
_ANSWER_HEAD = len(headers.RESPONSE_HEAD) << 8 | frames.HEADERS
_MESSAGE = struct.Struct(">IBIBI")
"""Before a small message of a stream: the head of its DATA frame, and its prefix."""
_END = struct.Struct(f">IBI{len(headers.OK_TRAILERS)}s")
_END_HEAD = len(headers.OK_TRAILERS) << 8 | frames.HEADERS


class Output:
    """The sending side of one connection. ``data_count`` goes up when headers or data go out."""

    __slots__ = ("_blocked", "_first_window", "_loop", "_max_frame", "_opening", "_parts", "_scheduled", "_size",
                 "_transport", "data_count", "window", "writable")  # fmt: skip

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self.data_count = 0
        self._parts: list[bytes | memoryview] = []
        self._size = 0
        self._scheduled = False
        self._max_frame = frames.SMALLEST_MAX_FRAME
        self._first_window = frames.FIRST_WINDOW
        self._opening = b""
        """What every header block begins with."""
        self._blocked: dict[int, Call] = {}
        """Calls that have something to send and may not."""
        self.window: int = frames.FIRST_WINDOW
        """Bytes that the client lets us send on the connection."""
        self.writable = True
        """Whether the transport takes more."""

    @property
    def first_window(self) -> int:
        """What a new call may send."""
        return self._first_window

    # Frames

    def write(self, part: bytes) -> None:
        """Send a frame that no window counts."""
        self._parts.append(part)
        self._size += len(part)
        self._schedule()

    def write_headers(self, call: Call, block: bytes) -> None:
        """Send the headers before a call's first message."""
        self.data_count += 1
        self.write(frames.frame(frames.HEADERS, _HEADERS, call.id, self._opening + block))

    def write_end(self, call: Call, block: bytes) -> None:
        """Send the headers that end a call, and let the client send nothing more."""
        self.data_count += 1
        self.write(frames.frame(frames.HEADERS, _TRAILERS, call.id, self._opening + block))
        if not call.half_closed:
            self.write(frames.rst_stream(call.id, ErrorCode.NO_ERROR))

    def reply_at_once(self, call: Call, message: bytes) -> bool:
        """Send a whole small reply: headers, message, trailers. False where it has to go by parts."""
        size = len(message) + framing.PREFIX_SIZE
        if (
            call.started
            or not self.writable
            or size > self._max_frame
            or size > self.window
            or size > call.window
            or not call.half_closed
            or self._opening
        ):
            return False
        self.window -= size
        self.data_count += 1
        number, block = call.id, headers.RESPONSE_HEAD
        start = _ANSWER.pack(_ANSWER_HEAD, _HEADERS, number, block, size << 8, 0, number, 0, len(message))
        self.write(b"".join((start, message, _END.pack(_END_HEAD, _TRAILERS, number, headers.OK_TRAILERS))))
        return True

    def send_at_once(self, call: Call, message: bytes) -> bool:
        """Send a small message of a call that has begun, in one frame. False where it has to wait, or go by parts."""
        size = len(message) + framing.PREFIX_SIZE
        if (
            not call.started
            or call.unsent
            or not self.writable
            or size > self._max_frame
            or size > self.window
            or size > call.window
        ):
            return False
        self.window -= size
        call.window -= size
        self.data_count += 1
        self._parts += (_MESSAGE.pack(size << 8, 0, call.id, 0, len(message)), message)
        self._size += frames.HEAD_SIZE + size
        self._schedule()
        return True

    def pump(self, call: Call) -> None:
        """Send of a call's messages what may go; when all is on its way the call is told."""
        while call.unsent:
            size = min(call.unsent, call.window, self.window, self._max_frame)
            if size <= 0 or not self.writable:
                # Behind the others that wait, so that they take turns.
                self._blocked.pop(call.id, None)
                self._blocked[call.id] = call
                return
            self.window -= size
            call.window -= size
            self.data_count += 1
            self._parts.append(frames.frame_head(frames.DATA, 0, call.id, size))
            self._size += frames.HEAD_SIZE + size
            while size:
                part = call.take_unsent(size)
                self._parts.append(part)
                size -= len(part)
            self._schedule()
        self._blocked.pop(call.id, None)
        call.all_sent()

    def forget(self, call: Call) -> None:
        """A call is over."""
        self._blocked.pop(call.id, None)

    # Flow control

    def widen(self, call: Call | None, increment: int) -> bool:
        """The client lets us send more, on a call or (None) on the connection; False for more than a window holds."""
        if call is None:
            self.window += increment
            if self.window > frames.WIDEST_WINDOW:
                return False
            self._pump_blocked()
            return True
        call.window += increment
        if call.window > frames.WIDEST_WINDOW:
            return False
        if call.id in self._blocked:
            self.pump(call)
        return True

    def apply(self, values: dict[int, int], calls: Iterable[Call]) -> None:
        """The client's settings. Raises ProtocolViolation for a window that overflows by them."""
        self._max_frame = values.get(frames.Setting.MAX_FRAME_SIZE, self._max_frame)
        if values.get(frames.Setting.HEADER_TABLE_SIZE, _FIRST_TABLE) < _FIRST_TABLE:
            self._opening = _EMPTY_TABLE
        first = values.get(frames.Setting.INITIAL_WINDOW_SIZE, self._first_window)
        change, self._first_window = first - self._first_window, first
        if change:
            for call in calls:
                call.window += change
                if call.window > frames.WIDEST_WINDOW:
                    raise ProtocolViolation(ErrorCode.FLOW_CONTROL_ERROR, "INITIAL_WINDOW_SIZE overflows a window")
        self._pump_blocked()

    def pause(self) -> None:
        """The transport holds as much as it may."""
        self.writable = False

    def resume(self) -> None:
        """The client has read."""
        self.writable = True
        self._pump_blocked()

    def _pump_blocked(self) -> None:
        for call in tuple(self._blocked.values()):
            if not self.writable or self.window <= 0:
                return
            if not call.over:
                self.pump(call)

    # The transport

    def _schedule(self) -> None:
        if self._size > _AT_ONCE:
            self.flush()
        elif not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._scheduled = False
        self.flush()

    def flush(self) -> None:
        """Hand everything to the transport."""
        parts, self._parts = self._parts, []
        size, self._size = self._size, 0
        if not parts or self._transport.is_closing():
            return
        if len(parts) == 1:
            self._transport.write(parts[0])
        elif size <= _JOINED:
            self._transport.write(b"".join(parts))
        else:
            self._transport.writelines(parts)
        if not self.writable and self._transport.get_write_buffer_size() > MAX_UNREAD:
            self._transport.abort()
