"""Compressed messages of a call, in their order. Small ones are coded on the loop, large ones by a pool thread."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from . import framing, headers
from .framing import TooLarge
from .guard import Guard

if TYPE_CHECKING:
    import asyncio

    from .call import Call
    from .framing import Message
    from .status import StatusCode

INLINE = 16 << 10
"""Bytes of a message up to which it is coded on the loop."""
_INLINE_LIMIT = 1 << 20
"""What a small message may become there; a thread goes on with one that becomes more."""


class Compression:
    """How the messages of a call are compressed: ``encoding`` is gzip or deflate, ``level`` zlib's."""

    __slots__ = ("encoding", "head", "level")

    def __init__(self, encoding: str, level: int) -> None:
        self.encoding = encoding
        self.level = level
        self.head = headers.response_head(encoding)


class Inflating:
    """Decompresses what a client sends. What comes behind a message that a thread works on waits for it."""

    __slots__ = ("_call", "_task", "_waiting")

    def __init__(self, call: Call) -> None:
        self._call = call
        self._waiting: deque[Message | None] = deque()
        self._task: asyncio.Task[None] | None = None

    def take(self, message: Message | None) -> None:
        """A message, or None for the half-close. Raises Abort."""
        call = self._call
        if self._waiting or (message is not None and message.compressed and len(message.data) > INLINE):
            self._wait(message)
        elif message is None:
            call.on_half_close()
        elif message.compressed:
            try:
                plain = framing.inflate(message.data, call.head.encoding, _INLINE_LIMIT)
            except TooLarge:
                self._wait(message)
                return
            call.on_message(plain)
        else:
            call.on_message(message.data)

    def _wait(self, message: Message | None) -> None:
        self._waiting.append(message)
        if message is not None:
            self._call.hold(message.data)
        if self._task is None:
            self._task = self._call.connection.loop.create_task(self._run())

    async def _run(self) -> None:
        call, loop = self._call, self._call.connection.loop
        with Guard(call):
            while self._waiting and not call.over:
                message = self._waiting[0]
                if message is None:
                    call.on_half_close()
                    break
                plain = message.data
                if message.compressed:
                    work = (framing.inflate, message.data, call.head.encoding, framing.MAX_MESSAGE)
                    plain = await loop.run_in_executor(None, *work)
                if not call.over:
                    call.release(message.data)
                    call.on_message(plain)
                self._waiting.popleft()
        self._task = None


class Deflating:
    """Compresses what is sent to a client. ``waiting_bytes`` of it wait for a thread."""

    __slots__ = ("_call", "_ending", "_task", "_waiting", "compression", "waiting_bytes")

    def __init__(self, call: Call, compression: Compression) -> None:
        self.compression = compression
        self._call = call
        self._waiting: deque[bytes] = deque()
        self.waiting_bytes = 0
        self._ending: tuple[StatusCode, str] | None = None
        self._task: asyncio.Task[None] | None = None

    def take(self, message: bytes) -> None:
        """Send a message."""
        if self._waiting or len(message) > INLINE:
            self._waiting.append(message)
            self.waiting_bytes += len(message)
            if self._task is None:
                self._task = self._call.connection.loop.create_task(self._run())
        else:
            coded = framing.deflate(message, self.compression.encoding, self.compression.level)
            self._call.put(coded, compressed=True)

    def keeps_end(self, status: StatusCode, details: str) -> bool:
        """Whether the end of the call has to wait for messages; it then follows them."""
        if self._task is None:
            return False
        self._ending = (status, details)
        return True

    async def _run(self) -> None:
        call, loop = self._call, self._call.connection.loop
        with Guard(call):
            while self._waiting and not call.over:
                work = (framing.deflate, self._waiting[0], self.compression.encoding, self.compression.level)
                coded = await loop.run_in_executor(None, *work)
                self.waiting_bytes -= len(self._waiting[0])
                if not call.over:
                    call.put(coded, compressed=True)
                self._waiting.popleft()
        self._task = None
        if self._ending is not None:
            call.end(*self._ending)
