"""One connection from the first byte to the last: settings, pings, and how it ends."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol, cast

from . import frames
from .frame_reader import FrameReader
from .frames import ErrorCode, ProtocolViolation, Setting
from .headers import MAX_HEADER_LIST
from .output import Output
from .pings import KeepAlive, PingStrikes
from .streams import Streams

if TYPE_CHECKING:
    from .call import Call
    from .limits import ConnectionLimits

log = logging.getLogger("infer.grpc")

_LINGER_S = 10.0
"""How long a client may take to read what is left when its connection ends."""
_LAST_CALLS_S = 20.0
"""How long a client may take to answer the ping after which it begins no more calls."""
_LAST_CALLS = b"leaving\0"


class Dispatcher(Protocol):
    """Where calls go to."""

    def open(self, call: Call) -> None:
        """A call has begun: set its handlers, or end it."""
        ...

    def joined(self, connection: Connection) -> None:
        """A connection is there."""
        ...

    def lost(self, connection: Connection) -> None:
        """A connection is gone."""
        ...


class Connection(asyncio.Protocol):
    """The server's side of one HTTP/2 connection. Serving loop only."""

    def __init__(self, dispatcher: Dispatcher, limits: ConnectionLimits, loop: asyncio.AbstractEventLoop) -> None:
        self.dispatcher = dispatcher
        self.loop = loop
        self.streams = Streams(self, limits)
        self.output = cast("Output", None)
        self._limits = limits
        self._reader = FrameReader(self.streams, self, limits.max_frame)
        self._strikes = PingStrikes(limits)
        self._keep_alive: KeepAlive | None = None
        self._transport = cast("asyncio.Transport", None)
        self._timer: asyncio.TimerHandle | None = None
        """Ends the wait for the preface, then the connection's age, then the grace after it."""
        self._last_calls: asyncio.TimerHandle | None = None
        """Ends the wait for a client to notice that it is to go."""
        self._leaving = False
        self._closing = False

    # asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say hello."""
        limits = self._limits
        self._transport = cast("asyncio.Transport", transport)
        self.output = Output(self._transport, self.loop)
        self.output.write(
            frames.settings_frame(
                {
                    Setting.MAX_CONCURRENT_STREAMS: limits.max_streams,
                    Setting.INITIAL_WINDOW_SIZE: limits.stream_window,
                    Setting.MAX_FRAME_SIZE: limits.max_frame,
                    Setting.MAX_HEADER_LIST_SIZE: MAX_HEADER_LIST,
                }
            )
            + frames.window_update(0, frames.WIDEST_WINDOW - frames.FIRST_WINDOW)
        )
        self._timer = self.loop.call_later(limits.preface_timeout_s, self.abort)
        self.dispatcher.joined(self)

    def data_received(self, data: bytes) -> None:
        """Take what a client sent."""
        if self._closing:
            return
        try:
            self._reader.feed(data)
        except ProtocolViolation as exc:
            self.shut(exc.code, str(exc))
            return
        if self._keep_alive is not None:
            self._keep_alive.alive = True
        elif self._reader.greeted:
            self._greeted()

    def pause_writing(self) -> None:
        """The client does not read."""
        self.output.pause()

    def resume_writing(self) -> None:
        """The client reads again."""
        self.output.resume()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  whatever it was, it is gone
        """The client is gone."""
        self._closing = True
        if self._keep_alive is not None:
            self._keep_alive.stop()
        self._stop_timer()
        if self._last_calls is not None:
            self._last_calls.cancel()
        self.streams.drop_all()
        self.dispatcher.lost(self)

    # What the client says of the connection

    def settings(self, values: dict[int, int]) -> None:
        """The client's settings."""
        # They hold for what is sent behind the acknowledgement.
        self.output.write(frames.frame(frames.SETTINGS, frames.ACK, 0))
        self.output.apply(values, self.streams.calls.values())

    def ping(self, payload: bytes) -> None:
        """The client wants a sign of life. Raises ProtocolViolation where it wants too many."""
        if self._strikes.too_many(self.loop.time(), self.output.data_count, calls=bool(self.streams.calls)):
            raise ProtocolViolation(ErrorCode.ENHANCE_YOUR_CALM, "too_many_pings")
        self.output.write(frames.ping(payload, ack=True))

    def pong(self, payload: bytes) -> None:
        """The client has given a sign of life."""
        if payload == _LAST_CALLS and self._leaving:
            self.refuse()
        elif self._keep_alive is not None:
            self._keep_alive.answered()

    # Calls

    def forget(self, call: Call) -> None:
        """A call is over; a connection that takes no more ends with its last one."""
        self.streams.forget(call)
        self.output.forget(call)
        if self.streams.refusing and not self.streams.calls:
            self._close_behind()

    # The end

    def go_away(self, message: str = "", grace_s: float = 0.0) -> None:
        """Take no more calls, and close when the last one is over; after ``grace_s`` (0: never) close all the same.

        Calls that are on their way are taken still: the client is told, and has noticed when it answers a ping.
        """
        if self._closing or self._leaving:
            return
        self._leaving = True
        self._stop_timer()
        if self._keep_alive is None:
            self._close_behind()
            return
        if grace_s:
            self._timer = self.loop.call_later(grace_s, self.abort)
        self.output.write(frames.goaway(frames.STREAM_MASK, ErrorCode.NO_ERROR, message) + frames.ping(_LAST_CALLS))
        self._last_calls = self.loop.call_later(_LAST_CALLS_S, self.refuse)

    def refuse(self, message: str = "") -> None:
        """Take no call that begins from now on, whether the client has noticed or not."""
        if self._closing or self.streams.refusing:
            return
        self.streams.refusing = self._leaving = True
        if self._last_calls is not None:
            self._last_calls.cancel()
        self.output.write(frames.goaway(self.streams.last_id, ErrorCode.NO_ERROR, message))
        if not self.streams.calls:
            self._close_behind()

    def shut(self, code: ErrorCode, message: str) -> None:
        """Close because the client broke the protocol; say why."""
        if self._closing:
            return
        log.debug("a gRPC connection is closed: %s", message)
        self.output.write(frames.goaway(self.streams.last_id, code, message))
        self._close_behind()
        self.streams.drop_all()

    def abort(self) -> None:
        """Close at once."""
        self._closing = True
        self._transport.abort()

    def _close_behind(self) -> None:
        """Close when everything is written."""
        if not self._closing:
            self._closing = True
            self.output.flush()
            self._transport.close()
            self._stop_timer()
            self._timer = self.loop.call_later(_LINGER_S, self.abort)

    def _greeted(self) -> None:
        """The client speaks HTTP/2: its connection may grow old."""
        limits = self._limits
        self._keep_alive = KeepAlive(self, limits)
        self._stop_timer()
        if limits.max_age_s:
            self._timer = self.loop.call_later(limits.max_age_s, self.go_away, "max_age", limits.max_age_grace_s)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
