"""The connection: uvicorn's httptools protocol, with limits, deadlines and disconnects that reach the request.

uvicorn alone takes headers of any size, keeps half-sent requests for ever, waits for ever on a reader that stalls,
and stops reading behind a pipelined request, so it misses that the client is gone. This subclass

- hands a request to the application when its body is there, so one task start serves it and nothing waits inside;
- bounds headers, bodies, chunks and pipelined requests, and answers what is over a bound with a JSON error;
- keeps one lazy timer a connection: a deadline that moves costs an assignment, not a timer;
- keeps reading while a request executes, and turns ``connection_lost`` into the request's ``on_disconnect``.

Written against uvicorn 0.54 (the pinned minor): it relies on ``HttpToolsProtocol.__init__``, ``connection_made`` and
``FlowControl``, and replaces the rest.
"""

from __future__ import annotations

import enum
import logging
from collections import deque
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from .cycle import Cycle
from .errors import error_body, too_large
from .repeat import Exchange

if TYPE_CHECKING:
    import asyncio

    from uvicorn.config import Config
    from uvicorn.server import ServerState

    from .cycle import Application
    from .repeat import Repeat

log = logging.getLogger("infer.http")

MAX_INT32 = 2**31 - 1
_ASGI = {"version": "3.0", "spec_version": "2.3"}
_INT32_DIGITS = 10
MAX_CHUNKS = 65536
PROGRESS_STEP = 65536
"""Bytes that must move, either way, within a body or write deadline for it to be extended."""
_FULL_READ = 200 << 10
"""A read of this size filled uvloop's buffer, so more is waiting."""
_MAX_FULL_READS = 4
_GROW_IN_PLACE = 1 << 20
"""Bodies from this size on grow in place, so that no single join holds the loop."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one connection: sizes in bytes, times in seconds."""

    max_input_size: int = 64 << 20
    max_header_size: int = 64 << 10
    max_pipelined: int = 32
    header_timeout_s: float = 60.0
    body_timeout_s: float = 60.0
    write_timeout_s: float = 60.0
    keep_alive_timeout_s: float = 300.0
    linger_s: float = 2.0


class _Phase(enum.IntEnum):
    """What the reading side waits for."""

    IDLE = 0
    HEADERS = 1
    BODY = 2
    REFUSED = 3


class _Refused(Exception):  # a signal through the parser, not an error of ours
    """Raised inside a parser callback: this request will not be read further."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class DoorProtocol(HttpToolsProtocol):
    """One connection of the HTTP door."""

    def __init__(
        self, config: Config, server_state: ServerState, limits: Limits, loop: asyncio.AbstractEventLoop
    ) -> None:
        super().__init__(config, server_state, {}, loop)
        self._parser: Any = self.parser
        self._limits = limits
        self._phase = _Phase.IDLE
        self._deadline_phase = _Phase.IDLE
        self._read_due = inf
        self._write_due = inf
        self._write_mark = 0
        self._timer: asyncio.TimerHandle | None = None
        self._untraced = 0
        self._full_reads = 0
        self._content_length = -1
        self._chunks = 0
        self._received = 0
        self._received_mark = 0
        self._parts: list[bytes] = []
        self._body: bytearray | None = None
        self._owes_continue = False
        self._refusal: bytes | None = None
        self._last_request = False
        self._waiting: deque[Cycle] = deque()
        self._current: Cycle | Exchange | None = None
        self._segment: bytes | None = None
        self.repeat: Repeat | None = None

    # The connection's life

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start: nothing is buffered unseen, so "not paused" means "all bytes are with the kernel"."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0, low=0)
        self._wait_for(_Phase.IDLE)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  asyncio's signature
        """The client is gone: whatever executes for it is cancelled, whatever waited behind it is dropped."""
        self.connections.discard(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._read_due = self._write_due = inf
        self._waiting.clear()
        self._parts.clear()
        self._body = None
        if self._current is not None:
            self._current.disconnect()
        self.flow.resume_writing()
        self.parser = self._parser = None  # type: ignore[assignment]

    def shutdown(self) -> None:
        """Close when the request that executes is answered; at once where there is none."""
        self._last_request = True
        self._waiting.clear()
        if self._current is None or self._current.response_complete:
            self._close()
        else:
            self._current.keep_alive = False

    def abort(self) -> None:
        """Close now, whatever is in flight."""
        self.transport.abort()

    @property
    def is_idle(self) -> bool:
        """Whether no request executes and none is half read."""
        return self._phase is _Phase.IDLE and (self._current is None or self._current.response_complete)

    # Reading

    def data_received(self, data: bytes) -> None:
        """Feed the parser; its callbacks do the work."""
        if self._refusal is not None or self._last_request:
            return
        if self._takes_as_repeated(data):
            return
        self._untraced += len(data)
        if self._parse(data):
            self._after_parsing(len(data))

    def _parse(self, data: bytes) -> bool:
        """Feed the parser; whether reading goes on."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # What follows is not HTTP/1.1 any more. The request is answered as it is, then the connection ends.
            self._last_request = True
            newest = self._waiting[-1] if self._waiting else self._current
            if newest is not None:
                newest.keep_alive = False
            return False
        except httptools.HttpParserError as exc:
            reason = exc.__context__
            if isinstance(reason, _Refused):
                self._refuse(reason.status, reason.message)
            elif self._refusal is None:
                self._refuse(400, f"Invalid HTTP request received: {exc}")
            return False
        if self._untraced > self._limits.max_header_size:
            self._refuse(431, self._header_message())
            return False
        return True

    def _after_parsing(self, size: int) -> None:
        """Set deadlines, and let others have their turn after many full reads."""
        self._set_read_deadline()
        if size < _FULL_READ:
            self._full_reads = 0
            return
        self._full_reads += 1
        if self._full_reads >= _MAX_FULL_READS:
            self._take_turns()

    def _take_turns(self) -> None:
        """Let the loop serve others: libuv reads up to 32 buffers, eight megabytes, before it looks around."""
        self._full_reads = 0
        if not self.flow.read_paused:
            self.flow.pause_reading()
            self.loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        if not self.transport.is_closing() and len(self._waiting) < self._limits.max_pipelined:
            self.flow.resume_reading()

    def _takes_as_repeated(self, data: bytes) -> bool:
        """Begin the exchange where the segment is the request that this connection had before."""
        if self._phase is not _Phase.IDLE or not (self._current is None or self._current.response_complete):
            self._segment = None
            return False
        repeat = self.repeat
        if repeat is None or self.flow.write_paused or not repeat.suits(data):
            self._segment = data
            return False
        self._read_due = inf
        self._current = exchange = Exchange(self, repeat)
        exchange.begin(data)
        return True

    def _set_read_deadline(self) -> None:
        phase = self._phase
        if phase is _Phase.IDLE:
            return
        if phase is not self._deadline_phase or (
            phase is _Phase.BODY and self._received - self._received_mark >= PROGRESS_STEP
        ):
            self._received_mark = self._received
            self._wait_for(phase)

    def _header_message(self) -> str:
        return f"request header, chunk extension or trailer exceeds the maximum of {self._limits.max_header_size} bytes"

    # Parser callbacks

    def on_message_begin(self) -> None:
        """A request begins."""
        self.url = b""
        self.headers = []
        self._phase = _Phase.HEADERS
        self._content_length = -1
        self._chunks = 0
        self._received = self._received_mark = 0
        self.expect_100_continue = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header, or one trailer, which is dropped."""
        if self._phase is not _Phase.HEADERS:
            return
        name = name.lower()
        if name == b"content-length":
            self._content_length = self._read_length(value)
        elif name == b"expect":
            self.expect_100_continue = value.lower() == b"100-continue"
        self.headers.append((name, value))

    @staticmethod
    def _read_length(value: bytes) -> int:
        text = value.strip()
        if not text.isdigit():
            raise _Refused(400, f"Unable to parse Content-Length, got: {text.decode('latin-1')}")
        if len(text.lstrip(b"0")) > _INT32_DIGITS or int(text) > MAX_INT32:
            msg = f"Unable to parse Content-Length, value is out of range [ 0, {MAX_INT32} ], got: {text.decode()}"
            raise _Refused(400, msg)
        return int(text)

    def on_headers_complete(self) -> None:
        """Check what the headers claim before any of the body is kept."""
        limits = self._limits
        if self._untraced > limits.max_header_size:
            # What was fed may hold some of the body too, so only now it is worth counting.
            size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
            if size > limits.max_header_size:
                raise _Refused(431, self._header_message())
        if self._content_length > limits.max_input_size and not self._is_inference():
            raise _Refused(400, too_large(self._content_length, limits.max_input_size))
        self._untraced = 0
        self._phase = _Phase.BODY
        if self.expect_100_continue:
            if self._current is None or self._current.response_complete:
                self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            else:
                self._owes_continue = True

    def _is_inference(self) -> bool:
        return self.url.partition(b"?")[0].endswith(b"/infer")

    def on_chunk_header(self) -> None:
        """A chunk begins; the last one, which is empty, too."""
        self._chunks += 1

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._untraced = 0
        self._received += len(body)
        if self._chunks:
            self._check_chunks()
        if self._body is not None:
            self._body += body
        elif self._received >= _GROW_IN_PLACE:
            self._body = bytearray().join(self._parts)
            self._body += body
            self._parts.clear()
        else:
            self._parts.append(body)

    def _check_chunks(self) -> None:
        if self._chunks > MAX_CHUNKS:
            msg = f"Chunked request body exceeds maximum of {MAX_CHUNKS} non-empty chunks"
            raise _Refused(400, msg)
        limit = MAX_INT32 if self._is_inference() else self._limits.max_input_size
        if self._received > limit:
            raise _Refused(400, too_large(self._received, limit))

    def on_message_complete(self) -> None:
        """The request is whole: start it, or queue it behind the one that executes."""
        self._untraced = 0
        self._phase = self._deadline_phase = _Phase.IDLE
        self._owes_continue = False
        body: bytes | bytearray
        if self._body is not None:
            body, self._body = self._body, None
        else:
            body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
            self._parts.clear()
        cycle = Cycle(self, self._make_scope(), body, keep_alive=self._keeps_alive())
        cycle.segment, self._segment = self._segment, None
        if self._current is None or self._current.response_complete:
            self.start(cycle, self.app)  # type: ignore[arg-type]
            return
        self._waiting.append(cycle)
        if len(self._waiting) >= self._limits.max_pipelined:
            # Beyond this a client that goes away is noticed late, which costs it one answer nobody reads.
            self.flow.pause_reading()

    def _keeps_alive(self) -> bool:
        return self._parser.should_keep_alive() and self._parser.get_http_version() != "1.0"

    def _make_scope(self) -> dict[str, Any]:
        url = self.url
        query = b""
        if not url.startswith(b"/") or b"?" in url or b"#" in url:
            parsed = httptools.parse_url(url) if url != b"*" else None
            url, query = (parsed.path or b"/", parsed.query or b"") if parsed is not None else (b"*", b"")
        return {
            "type": "http",
            "asgi": _ASGI,
            "http_version": self._parser.get_http_version(),
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "method": self._parser.get_method().decode("ascii"),
            "root_path": "",
            # Triton matches the path as it was sent, so %20 stays %20.
            "path": url.decode("latin-1"),
            "raw_path": url,
            "query_string": query,
            "headers": self.headers,
        }

    # Requests

    def start(self, cycle: Cycle, app: Application) -> None:
        """Have the application answer a request."""
        self._current = cycle
        if self._phase is _Phase.IDLE:
            self._read_due = inf
        cycle.task = task = self.loop.create_task(cycle.run(app))
        self.tasks.add(task)

    def task_ended(self, task: asyncio.Task[None]) -> None:
        """A cycle's task is at its end; a done callback would cost a turn of the loop."""
        self.tasks.discard(task)

    def response_completed(self) -> None:
        """A cycle has written its whole response."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self._current is not None and not self._current.keep_alive:
            self._close()
            return
        if self._waiting:
            self.flow.resume_reading()
            self.start(self._waiting.popleft(), self.app)  # type: ignore[arg-type]
            return
        if self._refusal is not None:
            self._send_refusal()
        elif self._owes_continue:
            self._owes_continue = False
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        elif self._phase is _Phase.IDLE:
            self._wait_for(_Phase.IDLE)

    def _refuse(self, status: int, message: str) -> None:
        """Answer with an error behind the answers still owed, read nothing more, and close."""
        body = error_body(message)
        self._refusal = (
            STATUS_LINE[status]
            + b"content-type: application/json\r\nconnection: close\r\n"
            + b"content-length: %d\r\n\r\n" % len(body)
            + body
        )
        log.debug("refused a request from %s with %d: %s", self.client, status, message)
        self._parts.clear()
        self._body = None
        if self._current is None or self._current.response_complete:
            self._send_refusal()
        else:
            self._read_due = inf

    def _send_refusal(self) -> None:
        if self._refusal and not self.transport.is_closing():
            self.transport.write(self._refusal)
            self._close()

    def _close(self) -> None:
        """End the connection so that the client can still read what was sent.

        Closing a socket with unread bytes resets it, and the answer is lost; so what still comes is read and
        dropped until the client closes, too, or the time is up.
        """
        self._last_request = True
        if self._phase is _Phase.IDLE and self._refusal is None and not self.flow.write_paused:
            self.transport.close()
            return
        self._phase = _Phase.REFUSED
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._wait_for(_Phase.REFUSED)

    # Deadlines

    def _wait_for(self, phase: _Phase) -> None:
        limits = self._limits
        self._deadline_phase = phase
        if phase is _Phase.IDLE:
            seconds = limits.keep_alive_timeout_s
        elif phase is _Phase.HEADERS:
            seconds = limits.header_timeout_s
        elif phase is _Phase.BODY:
            seconds = limits.body_timeout_s
        else:
            seconds = limits.linger_s
        self._read_due = self.loop.time() + seconds
        self._arm(self._read_due)

    def pause_writing(self) -> None:
        """The client does not take what was sent: from now on it must."""
        super().pause_writing()
        self._write_mark = self.transport.get_write_buffer_size()
        self._write_due = self.loop.time() + self._limits.write_timeout_s
        self._arm(self._write_due)

    def resume_writing(self) -> None:
        """Everything is with the kernel."""
        self._write_due = inf
        super().resume_writing()
        if self._phase is _Phase.REFUSED:
            self._wait_for(_Phase.REFUSED)

    def _arm(self, due: float) -> None:
        """See to it that the timer fires at ``due`` or before; a timer that fires early is set again."""
        timer = self._timer
        if timer is not None:
            if timer.when() <= due:
                return
            timer.cancel()
        self._timer = self.loop.call_at(due, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        now = self.loop.time()
        if self._write_due <= now:
            left = self.transport.get_write_buffer_size()
            if self._write_mark - left < PROGRESS_STEP:
                log.info("closing %s: it has not read its response for %g s", self.client, self._limits.write_timeout_s)
                self.transport.abort()
                return
            self._write_mark = left
            self._write_due = now + self._limits.write_timeout_s
        if self._read_due <= now:
            self._read_due = inf
            self._on_read_deadline()
        due = min(self._read_due, self._write_due)
        if due < inf and self._timer is None and not self.transport.is_closing():
            self._timer = self.loop.call_at(due, self._on_timer)

    def _on_read_deadline(self) -> None:
        phase = self._deadline_phase
        if phase is _Phase.IDLE:
            self.transport.close()
        elif phase is _Phase.REFUSED:
            if not self.flow.write_paused:
                self.transport.abort()
        else:
            what, seconds = (
                ("header", self._limits.header_timeout_s)
                if phase is _Phase.HEADERS
                else ("body", self._limits.body_timeout_s)
            )
            self._refuse(408, f"the request's {what} did not arrive within {seconds:g} s")
