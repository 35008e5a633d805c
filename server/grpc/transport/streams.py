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
    from .headers import RequestHead
    from .limits import ConnectionLimits

MAX_RESETS = 5000
"""Calls that a client may reset, or have reset by what it does wrong, within a second.

More than may be under way at once, as all of them may run out of time together.
"""
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
        if not stream_id % 2:
            raise ProtocolViolation(ErrorCode.PROTOCOL_ERROR, f"stream {stream_id} is not a client's")
        if stream_id <= self.last_id:
            self._trailers(stream_id, head, last=last)
            return
        if self.refusing:
            return
        self.last_id = stream_id
        output = self._connection.output
        if len(self.calls) >= self._limits.max_streams:
            output.write(frames.rst_stream(stream_id, ErrorCode.REFUSED_STREAM))
            return
        call = self.calls[stream_id] = Call(self._connection, stream_id, head, output.first_window)
        call.half_closed = last
        if head.problem:
            call.abort(StatusCode.INTERNAL, head.problem)
        else:
            self._connection.dispatcher.open(call)
        if last:
            call.half_close()

    def _trailers(self, stream_id: int, head: RequestHead, *, last: bool) -> None:
        """Headers for a stream that has begun can only end the client's side of it."""
        call = self.calls.get(stream_id)
        if head.path:
            msg = f"stream {stream_id} is begun again, or behind stream {self.last_id}"
            raise ProtocolViolation(ErrorCode.PROTOCOL_ERROR, msg)
        if call is None:
            return
        if call.half_closed:
            raise ProtocolViolation(ErrorCode.STREAM_CLOSED, f"headers came for stream {stream_id} after its end")
        if last:
            call.half_close()
        else:
            self._break(call, ErrorCode.PROTOCOL_ERROR)

    def flow(self, stream_id: int, size: int) -> None:
        """Count what comes; calls that read get room for as much again."""
        output = self._connection.output
        self._received += size
        if self._received >= _REPORTED:
            output.write(frames.window_update(0, self._received))
            self._received = 0
        call = self._known(stream_id)
        if call is None:
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
        call = self._known(stream_id)
        self._count_reset()
        if call is not None:
            call.drop()

    def window(self, stream_id: int, increment: int) -> None:
        """A client lets us send more."""
        output = self._connection.output
        if not stream_id:
            if not increment:
                raise ProtocolViolation(ErrorCode.PROTOCOL_ERROR, "a window cannot grow by 0")
            if not output.widen(None, increment):
                raise ProtocolViolation(ErrorCode.FLOW_CONTROL_ERROR, f"a window cannot grow by {increment}")
            return
        call = self._known(stream_id)
        if call is None:
            return
        if not increment:
            self._break(call, ErrorCode.PROTOCOL_ERROR)
        elif not output.widen(call, increment):
            self._break(call, ErrorCode.FLOW_CONTROL_ERROR)

    def _known(self, stream_id: int) -> Call | None:
        """The call of a stream, None for one that is over. Raises ProtocolViolation for one that never began."""
        call = self.calls.get(stream_id)
        if call is None and (not stream_id % 2 or (stream_id > self.last_id and not self.refusing)):
            raise ProtocolViolation(ErrorCode.PROTOCOL_ERROR, f"a frame came for stream {stream_id}, which is idle")
        return call

    def _break(self, call: Call, code: ErrorCode) -> None:
        """End a call whose client broke the protocol on its stream alone."""
        self._connection.output.write(frames.rst_stream(call.id, code))
        call.drop()
        self._count_reset()

    def _count_reset(self) -> None:
        now = monotonic()
        if now - self._resets_since > 1:
            self._resets, self._resets_since = 0, now
        self._resets += 1
        if self._resets > MAX_RESETS:
            raise ProtocolViolation(ErrorCode.ENHANCE_YOUR_CALM, "too many streams are opened and reset")

    def forget(self, call: Call) -> None:
        """A call is over."""
        self.calls.pop(call.id, None)

    def drop_all(self) -> None:
        """The connection is gone."""
        for call in tuple(self.calls.values()):
            call.drop()
