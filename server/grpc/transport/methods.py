"""How a method answers its calls: at once on the loop, by a coroutine, or message by message."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from .guard import Guard
from .status import Abort, StatusCode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from .call import Call

    Method = Callable[[Call], None]

MAX_UNSENT = 1 << 20
"""Bytes that wait for the client, above which :meth:`Context.write` waits too."""


def direct(answer: Callable[[Call, bytes | bytearray], None]) -> Method:
    """A unary method that answers on the loop, now or in a callback: no task, no future."""

    def open_call(call: Call) -> None:
        _Unary(call, answer)

    return open_call


def unary(answer: Callable[[bytes | bytearray], Awaitable[bytes]]) -> Method:
    """A unary method answered by a coroutine, which is cancelled with the call."""

    def begin(call: Call, message: bytes | bytearray) -> None:
        async def run() -> None:
            call.reply(await answer(message))

        start_task(call, run)

    return direct(begin)


def streaming(serve: Callable[[Context], Awaitable[None]]) -> Method:
    """A method served by a coroutine that reads and writes messages, and which is cancelled with the call."""

    def open_call(call: Call) -> None:
        context = Context(call)

        async def run() -> None:
            await serve(context)
            call.end()

        start_task(call, run)

    return open_call


class _Unary:
    """Waits for the one message of a unary call."""

    __slots__ = ("_answer", "_call", "_message")

    def __init__(self, call: Call, answer: Callable[[Call, bytes | bytearray], None]) -> None:
        self._call = call
        self._answer = answer
        self._message: bytes | bytearray | None = None
        call.on_message = self._take
        call.on_half_close = self._complete

    def _take(self, message: bytes | bytearray) -> None:
        if self._message is not None:
            self._call.abort(StatusCode.INTERNAL, "a unary call has one message, and a second one came")
            return
        self._message = message

    def _complete(self) -> None:
        message, self._message = self._message, None
        if message is None:
            self._call.abort(StatusCode.INTERNAL, "a unary call has one message, and none came")
            return
        with Guard(self._call):
            self._answer(self._call, message)


class Context:
    """A call, as the coroutine that serves it sees it."""

    __slots__ = ("_call", "_closed", "_inbox", "_reader", "_writer")

    def __init__(self, call: Call) -> None:
        self._call = call
        self._inbox: deque[bytes | bytearray] = deque()
        self._closed = False
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        call.on_message = self._take
        call.on_half_close = self._close
        call.on_room = self._has_room

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What the client sent with the call, in order."""
        return self._call.head.metadata

    async def read(self) -> bytes | bytearray | None:
        """The next message of the client, or None where it sends nothing more."""
        while not self._inbox:
            if self._closed or self._call.over:
                return None
            self._reader = self._call.connection.loop.create_future()
            await self._reader
        message = self._inbox.popleft()
        self._call.release(message)
        return message

    async def write(self, message: bytes) -> None:
        """Send a message; waits while the client does not read what was sent before."""
        call = self._call
        call.send(message)
        while call.queued > MAX_UNSENT and not call.over:
            self._writer = call.connection.loop.create_future()
            await self._writer

    def write_at_once(self, message: bytes) -> bool:
        """Send a message if none that was sent before is still waiting for the client; False where it is not sent."""
        call = self._call
        if call.queued or call.over:
            return False
        call.send(message)
        return True

    def _take(self, message: bytes | bytearray) -> None:
        self._inbox.append(message)
        self._call.hold(message)
        self._wake()

    def _close(self) -> None:
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None and not reader.done():
            reader.set_result(None)

    def _has_room(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None and not writer.done():
            writer.set_result(None)


def start_task(call: Call, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a call's coroutine in a task that ends with the call, and the call with it."""
    task = call.connection.loop.create_task(_guarded(call, work))
    call.on_cancel = task.cancel


async def _guarded(call: Call, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """A call ends in a status whatever happens: the one that was raised, or INTERNAL for a fault of ours."""
    with Guard(call):
        try:
            await work()
        except Abort as exc:
            # Behind what the coroutine has sent.
            call.end(exc.status, exc.details)
        except asyncio.CancelledError:
            call.abort(StatusCode.CANCELLED, "the call was cancelled")
            raise
