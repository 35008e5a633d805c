"""One call: the messages that come, the messages that go, and its one end."""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING

from . import framing, headers
from .coding import INLINE, Compression, Deflating, Inflating
from .guard import Guard
from .status import BROKEN, Abort, StatusCode

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from .connection import Connection
    from .headers import RequestHead

log = logging.getLogger("infer.grpc")

MAX_UNREAD = 4 << 20
"""Bytes of messages that wait to be read, above which a client is given no room for more."""
_MESSAGE_COST = 64
"""Bytes that a message costs besides its own: without them empty ones could wait in any number."""


class Call:
    """One stream of a connection. Serving loop only.

    The handler sets ``on_message`` (a whole message, decompressed), ``on_half_close`` (no more come), ``on_cancel``
    (the client is gone, or its time is up: nothing can be sent any more) and ``on_room`` (what was queued has been
    sent). What is sent is queued here as far as flow control asks for it; ``unsent`` is how many bytes that is.
    """

    __slots__ = (
        "_deflating",
        "_ending",
        "_inflating",
        "_reader",
        "_timer",
        "_unread",
        "_unsent",
        "connection",
        "half_closed",
        "head",
        "id",
        "on_cancel",
        "on_half_close",
        "on_message",
        "on_room",
        "over",
        "started",
        "unacknowledged",
        "unsent",
        "wants_more",
        "window",
    )

    def __init__(self, connection: Connection, stream_id: int, head: RequestHead, window: int) -> None:
        self.connection = connection
        self.id = stream_id
        self.head = head
        self.window = window
        """Bytes that the client lets us send on this stream."""
        self.unacknowledged = 0
        """Bytes received for which the client has not been given room again."""
        self.on_message: Callable[[bytes | bytearray], None] = _ignore
        self.on_half_close: Callable[[], None] = _nothing
        self.on_cancel: Callable[[], object] = _nothing
        self.on_room: Callable[[], None] = _nothing
        self.wants_more = True
        """Whether the client is given room to send more than has come."""
        self._unread = 0
        self.half_closed = False
        self.started = False
        """Whether the headers before the first message have been sent."""
        self.over = False
        self.unsent = 0
        self._unsent: deque[memoryview] = deque()
        self._ending = b""
        self._reader = framing.MessageReader()
        self._inflating: Inflating | None = None
        self._deflating: Deflating | None = None
        self._timer: asyncio.TimerHandle | None = None
        if head.timeout_ns is not None:
            self._timer = connection.loop.call_later(head.timeout_ns / 1e9, self._late)

    @property
    def queued(self) -> int:
        """Bytes that were sent and are not on their way yet, those that are still to be compressed included."""
        return self.unsent if self._deflating is None else self.unsent + self._deflating.waiting_bytes

    def compress(self, compression: Compression) -> None:
        """Compress the messages of this call from here on; nothing of it may have been sent."""
        self._deflating = Deflating(self, compression)

    # Receiving

    def receive(self, data: bytes, start: int, stop: int) -> None:
        """Bytes of the stream have come."""
        try:
            for message in self._reader.feed(data, start, stop):
                if message.compressed and self._inflating is None:
                    self._inflating = Inflating(self)
                if self._inflating is not None:
                    self._inflating.take(message)
                else:
                    self.on_message(message.data)
                if self.over:
                    return
        except Abort as exc:
            self.abort(exc.status, exc.details)

    def hold(self, message: bytes | bytearray) -> None:
        """A message has to wait; too many of them keep the client waiting."""
        self._unread += len(message) + _MESSAGE_COST
        if self._unread > MAX_UNREAD:
            self.wants_more = False

    def release(self, message: bytes | bytearray) -> None:
        """A message waits no more."""
        self._unread -= len(message) + _MESSAGE_COST
        if not self.wants_more and self._unread <= MAX_UNREAD // 2:
            self.wants_more = True
            self.connection.streams.refill(self)

    def half_close(self) -> None:
        """The client sends nothing more."""
        self.half_closed = True
        if self.over:
            return
        if not self._reader.is_between:
            self.abort(StatusCode.INTERNAL, "the client ended the call within a message")
        elif self._inflating is not None:
            self._inflating.take(None)
        else:
            self.on_half_close()

    # Sending

    def send(self, message: bytes) -> None:
        """Send a message with others to follow. Nothing happens once the call is over."""
        if self.over:
            return
        if self._deflating is not None:
            self._deflating.take(message)
        elif not self.connection.output.send_at_once(self, message):
            self.put(message)

    def reply(self, message: bytes) -> None:
        """Send the one message of a unary call and end it well."""
        if self.over:
            return
        if self._deflating is None and self.connection.output.reply_at_once(self, message):
            self._finish()
            return
        self.send(message)
        self.end()

    def end(self, status: StatusCode = StatusCode.OK, details: str = "") -> None:
        """End the call behind what was sent."""
        if self.over or self._ending:
            return
        if self._deflating is not None and self._deflating.keeps_end(status, details):
            return
        if status is StatusCode.OK:
            self.start()
            self._ending = headers.OK_TRAILERS
        else:
            self._ending = headers.trailers(status, details, alone=not self.started)
        self.connection.output.pump(self)

    def abort(self, status: StatusCode, details: str) -> None:
        """End the call at once, with what is still queued dropped, and tell its handler."""
        if self.over:
            return
        self.connection.output.write_end(self, headers.trailers(status, details, alone=not self.started))
        self.drop()

    def fail(self, fault: Exception, what: str = "failed") -> None:
        """Log a fault of ours, and end the call at once: it is this call's, not the connection's."""
        log.error("%s %s", self.head.path, what, exc_info=fault)
        self.abort(StatusCode.INTERNAL, BROKEN)

    def drop(self) -> None:
        """The client has reset the stream, or the connection is gone: tell the handler."""
        if self.over:
            return
        cancel = self.on_cancel
        self._finish()
        with Guard(self, "could not be cancelled"):
            cancel()

    def start(self) -> None:
        """Send the headers that stand before the first message."""
        if not self.started:
            self.started = True
            deflating = self._deflating
            block = headers.RESPONSE_HEAD if deflating is None else deflating.compression.head
            self.connection.output.write_headers(self, block)

    def put(self, message: bytes, *, compressed: bool = False) -> None:
        """Queue a message as it is to be sent, and send what may go."""
        self.start()
        head = framing.prefix(len(message), compressed=compressed)
        if len(message) <= INLINE:
            self._unsent.append(memoryview(head + message))
        else:
            self._unsent.extend((memoryview(head), memoryview(message)))
        self.unsent += len(head) + len(message)
        self.connection.output.pump(self)

    def take_unsent(self, size: int) -> memoryview:
        """Up to ``size`` bytes of what is queued."""
        first = self._unsent[0]
        if len(first) <= size:
            self._unsent.popleft()
        else:
            self._unsent[0] = first[size:]
            first = first[:size]
        self.unsent -= len(first)
        return first

    def all_sent(self) -> None:
        """Everything queued is on its way: end the call where that is due, else there is room."""
        if self._ending:
            self.connection.output.write_end(self, self._ending)
            self._finish()
        else:
            self.on_room()

    def _late(self) -> None:
        self._timer = None
        self.abort(StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")

    def _finish(self) -> None:
        self.over = True
        self.unsent = 0
        self._unsent.clear()
        # A handler knows its call: without these the two, and the messages they hold, go at once.
        self.on_message, self.on_half_close, self.on_cancel, self.on_room = _ignore, _nothing, _nothing, _nothing
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.connection.forget(self)


def _ignore(_message: bytes | bytearray) -> None:
    """A message that nobody waits for."""


def _nothing() -> None:
    """What happens where nobody listens."""
