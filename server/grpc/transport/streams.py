"""The calls of a connection: how they begin, what comes for them, and how much may."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from . import frames
from .call import Call
from .frames import ErrorCode, ProtocolViolation
from .headers import HeaderReader
from .status import StatusCode

if TYPE_CHECKING:
    from .connection import Connection
    from .limits import ConnectionLimits

MAX_RESETS = 2000
"""Calls that a client may begin and reset within a second."""
_REPORTED = 1 << 30
"""Bytes received on the connection after which the client is given room for as many again."""


class Streams:
    """The receiving side of the calls of one connection."""

    __slots__ = ("_connection", "_headers", "_limits", "_received", "_resets", "_resets_since", "calls", "last_id",
                 "refusing")  # fmt: skip

    def __init__(self, connection: Connection, limits: ConnectionLimits) -> None:
        self.calls: dict[int, Call] = {}
        self.last_id = 0
        """The last stream that was taken in."""
        self.refusing = False
        """Whether calls that begin from now on are left to another connection."""
        self._connection = connection
        self._limits = limits
        self._headers = HeaderReader()
        self._received = 0
        self._resets = 0
        self._resets_since = 0.0

    def headers(self, stream_id: int, block: bytes, *, last: bool) -> None:
        """A call begins, or a client's trailers end its side of one."""
        head = self._headers.read(block)
        if stream_id <= self.last_id:
            if stream_id in self.calls:
                self.half_close(stream_id)
            return
        if not stream_id % 2:
            raise ProtocolViolation(ErrorCode.PROTOCOL_ERROR, f"stream {stream_id} is not a client's")
        if self.refusing:
            return
        self.last_id = stream_id
        output = self._connection.output
        if len(self.calls) >= self._limits.max_streams:
            output.write(frames.rst_stream(stream_id, ErrorCode.REFUSED_STREAM))
            return
        call = self.calls[stream_id] = Call(self._connection, stream_id, head, output.first_window)
        if head.problem:
            call.abort(StatusCode.INTERNAL, head.problem)
        else:
            self._connection.dispatcher.open(call)
        if last and not call.over:
            call.half_close()

    def flow(self, stream_id: int, size: int) -> None:
        """Count what comes; calls that read get room for as much again."""
        output = self._connection.output
        self._received += size
        if self._received >= _REPORTED:
            output.write(frames.window_update(0, self._received))
            self._received = 0
        call = self.calls.get(stream_id)
        if call is None:
            if stream_id > self.last_id and not self.refusing:
                raise ProtocolViolation(ErrorCode.PROTOCOL_ERROR, f"data came for stream {stream_id}, which is idle")
            return
        if call.half_closed:
            raise ProtocolViolation(ErrorCode.STREAM_CLOSED, f"data came for stream {stream_id} after its end")
        call.unacknowledged += size
        if call.unacknowledged > self._limits.stream_window:
            raise ProtocolViolation(ErrorCode.FLOW_CONTROL_ERROR, f"stream {stream_id} sends more than it may")

    def data(self, stream_id: int, data: bytes, start: int, stop: int) -> None:
        """A part of a call's messages."""
        call = self.calls.get(stream_id)
        if call is not None:
            call.receive(data, start, stop)
            if call.unacknowledged > self._limits.stream_window // 2:
                self.refill(call)

    def refill(self, call: Call) -> None:
        """Give a call's client room again, unless its handler has more than it reads."""
        if call.unacknowledged and not call.half_closed and not call.over and call.wants_more:
            self._connection.output.write(frames.window_update(call.id, call.unacknowledged))
            call.unacknowledged = 0

    def half_close(self, stream_id: int) -> None:
        """A client sends nothing more on a call."""
        call = self.calls.get(stream_id)
        if call is not None:
            call.half_close()

    def reset(self, stream_id: int) -> None:
        """A client ends a call."""
        if not stream_id:
            raise ProtocolViolation(ErrorCode.PROTOCOL_ERROR, "the connection cannot be reset as a stream")
        now = monotonic()
        if now - self._resets_since > 1:
            self._resets, self._resets_since = 0, now
        self._resets += 1
        if self._resets > MAX_RESETS:
            raise ProtocolViolation(ErrorCode.ENHANCE_YOUR_CALM, "too many streams are opened and reset")
        call = self.calls.get(stream_id)
        if call is not None:
            call.drop()

    def window(self, stream_id: int, increment: int) -> None:
        """A client lets us send more."""
        output = self._connection.output
        if not stream_id:
            if not increment or not output.widen(None, increment):
                raise ProtocolViolation(ErrorCode.FLOW_CONTROL_ERROR, f"a window cannot grow by {increment}")
            return
        call = self.calls.get(stream_id)
        if call is not None and (not increment or not output.widen(call, increment)):
            call.drop()
            output.write(frames.rst_stream(stream_id, ErrorCode.FLOW_CONTROL_ERROR))

    def forget(self, call: Call) -> None:
        """A call is over."""
        self.calls.pop(call.id, None)

    def drop_all(self) -> None:
        """The connection is gone."""
        for call in tuple(self.calls.values()):
            call.drop()
