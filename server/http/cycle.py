"""One request and its response on a connection: the ASGI receive and send of the HTTP door."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Protocol

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from .errors import error_body

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from uvicorn.protocols.http.flow_control import FlowControl

    from .repeat import Repeat

    Receive = Callable[[], Awaitable[dict[str, Any]]]
    Send = Callable[[dict[str, Any]], Awaitable[None]]
    Application = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]

log = logging.getLogger("infer.http")

PIECE = 256 << 10
"""Bytes of a response that are given to the kernel in one turn of the loop."""
_JOINED = 16 << 10
"""Up to this size one buffer with the head in front is cheaper than two."""

CONNECTION = "infer.connection"
"""The scope's key for the Connection, where the server is ours."""


def response_head(status: int, headers: Iterable[tuple[bytes, bytes]], *, keep_alive: bool) -> bytes:
    """Status line and headers with the blank line behind them. Raises RuntimeError for a header with a line break."""
    lines = [STATUS_LINE[status]]
    breaks = 2
    for name, value in headers:
        lines += (name, b": ", value, b"\r\n")
        breaks += 1
    if not keep_alive:
        lines.append(b"connection: close\r\n")
        breaks += 1
    lines.append(b"\r\n")
    head = b"".join(lines)
    if head.count(b"\n") != breaks:
        msg = "a response header holds a line break"
        raise RuntimeError(msg)
    return head


class Connection(Protocol):
    """What an application may ask of a request's connection."""

    disconnected: bool
    on_disconnect: Callable[[], None] | None
    """Called once when the client goes away before its response is complete."""
    segment: bytes | None
    """All that was received with the request, where it came in one piece."""

    def may_repeat(self, repeat: Repeat) -> None:
        """The client may send this request again."""
        ...


class _Owner(Protocol):
    transport: asyncio.Transport
    flow: FlowControl

    repeat: Repeat | None

    def response_completed(self) -> None: ...

    def task_ended(self, task: asyncio.Task[None]) -> None: ...


class Cycle:
    """One request and its response.

    When the ``send`` of the last body returns, every byte is with the kernel or the client is gone: buffers that
    were sent may be reused. Bodies of a response with a content length leave together, in one system call.
    """

    __slots__ = (
        "_body",
        "_head",
        "_owner",
        "_parts",
        "_remaining",
        "_streams",
        "disconnected",
        "keep_alive",
        "on_disconnect",
        "response_complete",
        "scope",
        "segment",
        "task",
    )

    def __init__(self, owner: _Owner, scope: dict[str, Any], body: bytes | bytearray, *, keep_alive: bool) -> None:
        self._owner = owner
        self._body: bytes | bytearray | None = body
        self._head: bytes | None = None
        self._parts: list[Any] = []
        self._remaining = 0
        self._streams = False
        self.scope = scope
        self.keep_alive = keep_alive
        self.disconnected = False
        self.response_complete = False
        self.on_disconnect: Callable[[], None] | None = None
        self.segment: bytes | None = None
        self.task: asyncio.Task[None] | None = None
        scope[CONNECTION] = self

    def disconnect(self) -> None:
        """The client is gone."""
        self.disconnected = True
        callback, self.on_disconnect = self.on_disconnect, None
        if callback is not None and not self.response_complete:
            callback()

    def may_repeat(self, repeat: Repeat) -> None:
        """The client may send this request again."""
        if self.keep_alive:
            self._owner.repeat = repeat

    async def run(self, app: Application) -> None:
        """Call the application; a failure of it is logged and answered."""
        try:
            await app(self.scope, self.receive, self.send)
        except Exception:
            log.exception("%s %s failed", self.scope["method"], self.scope["path"])
            await self._fail()
        else:
            if not self.response_complete and not self.disconnected:
                log.error("%s %s was left without a complete response", self.scope["method"], self.scope["path"])
                await self._fail()
        finally:
            # Scope and cycle refer to each other: without this the garbage collector would have every request.
            del self.scope[CONNECTION]
            task, self.task = self.task, None
            if task is not None:
                self._owner.task_ended(task)

    async def _fail(self) -> None:
        if self._streams or self.response_complete:
            self._owner.transport.abort()
            return
        body = error_body("internal server error; the server's log has the details")
        self._head = None
        self._parts = []
        self.keep_alive = False
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await self.send({"type": "http.response.start", "status": 500, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})

    async def receive(self) -> dict[str, Any]:
        """The whole body as one message; after it, that the client is gone."""
        body, self._body = self._body, None
        if body is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: dict[str, Any]) -> None:
        """ASGI's send. Raises RuntimeError where the application breaks the protocol."""
        if self.disconnected:
            return
        kind = message["type"]
        if kind == "http.response.start":
            self._start(message)
        elif kind == "http.response.body":
            if self._add_body(message.get("body", b""), last=not message.get("more_body", False)):
                await self._write_in_pieces()
            flow = self._owner.flow
            if flow.write_paused:
                await flow.drain()
        else:
            msg = f"unexpected ASGI message '{kind}'"
            raise RuntimeError(msg)

    def _start(self, message: dict[str, Any]) -> None:
        if self._head is not None or self._streams:
            msg = "the response was started twice"
            raise RuntimeError(msg)
        self._remaining = -1
        headers: list[tuple[bytes, bytes]] = []
        for name, value in message["headers"]:
            if name in (b"content-length", b"Content-Length"):
                self._remaining = int(value)
            elif name.lower() == b"connection" and value.lower() == b"close":
                self.keep_alive = False
                continue
            headers.append((name, value))
        if self._remaining < 0:
            headers.append((b"transfer-encoding", b"chunked"))
        head = response_head(message["status"], headers, keep_alive=self.keep_alive)
        self._head = head

    def _add_body(self, body: bytes | memoryview, *, last: bool) -> bool:
        """Take a body; True where the response is whole and too large to be written at once."""
        head = self._head
        if self.response_complete or (head is None and not self._streams):
            msg = "a body was sent before the response was started, or after its end"
            raise RuntimeError(msg)
        if self.scope["method"] == "HEAD":
            self._remaining, body = 0, b""
        if self._remaining < 0:
            self._stream(head or b"", body, last=last)
            return False
        if body:
            self._remaining -= len(body)
            self._parts.append(body)
        if not last:
            return False
        if self._remaining:
            msg = f"the response's bodies and its content-length differ by {self._remaining} bytes"
            raise RuntimeError(msg)
        if sum(map(len, self._parts)) > PIECE:
            return True
        self._write(head or b"")
        self._complete()
        return False

    async def _write_in_pieces(self) -> None:
        """Write a large response so that others get their turn of the loop between its pieces.

        The kernel copies as much as the socket's buffer takes, which for one write of 10 MB holds the loop for
        several milliseconds.
        """
        self._streams = True
        parts, self._parts = [self._head or b"", *self._parts], []
        owner = self._owner
        for part in parts:
            view = memoryview(part)
            for start in range(0, view.nbytes, PIECE):
                owner.transport.write(view[start : start + PIECE])
                await (owner.flow.drain() if owner.flow.write_paused else asyncio.sleep(0))
                if self.disconnected:
                    return
        self._complete()

    def _write(self, head: bytes) -> None:
        parts, self._parts = self._parts, []
        if len(parts) == 1 and len(parts[0]) <= _JOINED:
            self._owner.transport.write(head + parts[0])
        else:
            self._owner.transport.writelines((head, *parts))

    def _stream(self, head: bytes, body: bytes | memoryview, *, last: bool) -> None:
        """Send a piece of a response of unknown length at once."""
        self._head = None
        self._streams = True
        parts: list[bytes | memoryview] = [head] if head else []
        if body:
            parts += (b"%x\r\n" % len(body), body, b"\r\n")
        if last:
            parts.append(b"0\r\n\r\n")
        self._owner.transport.writelines(parts)
        if last:
            self._complete()

    def _complete(self) -> None:
        self._streams = True
        self.response_complete = True
        self.on_disconnect = None
        self._owner.response_completed()
