"""The connection: uvicorn's httptools protocol, with limits, deadlines and disconnects that reach the request.

uvicorn alone takes headers of any size, keeps half-sent requests for ever, waits for ever on a reader that stalls,
and stops reading behind a pipelined request, so it misses that the client is gone. This subclass

- hands a request to the application when its body is there, so one task start serves it and nothing waits inside;
- bounds headers, bodies, chunks (incoming) and pipelined requests (pipeline), and answers what is over a bound with
  a JSON error;
- keeps one lazy timer a connection (deadlines);
- keeps reading while a request executes, and turns ``connection_lost`` into the request's ``on_disconnect``.

Written against uvicorn 0.54 (the pinned minor): it relies on ``HttpToolsProtocol.__init__``, ``connection_made`` and
``FlowControl``, and replaces the rest.
"""

from __future__ import annotations

import logging
from math import inf
from typing import TYPE_CHECKING, Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .cycle import Cycle
from .deadlines import Deadlines
from .errors import header_too_large, refusal
from .incoming import Incoming, Refused
from .limits import Phase
from .pipeline import Pipeline
from .repeat import Exchange
from .scope import make_scope

if TYPE_CHECKING:
    import asyncio

    from uvicorn.config import Config
    from uvicorn.server import ServerState

    from .cycle import Application
    from .limits import Limits
    from .repeat import Repeat

log = logging.getLogger("infer.http")

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class DoorProtocol(HttpToolsProtocol):
    """One connection of the HTTP door."""

    def __init__(
        self, config: Config, server_state: ServerState, limits: Limits, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._limits = limits
        self._incoming = incoming = Incoming(limits)
        # The parser looks its callbacks up once, when it is made: these need nothing of the connection.
        self.on_message_begin = incoming.on_message_begin
        self.on_url = incoming.on_url
        self.on_header = incoming.on_header
        self.on_chunk_header = incoming.on_chunk_header
        super().__init__(config, server_state, {}, loop)
        self._parser: Any = self.parser
        self._deadlines = Deadlines(self, limits, loop)
        self._pipeline = Pipeline(self, limits.max_pipelined)
        self._owes_continue = False
        self._refusal: bytes | None = None
        self._last_request = False
        self._current: Cycle | Exchange | None = None
        self._segment: bytes | None = None
        self.repeat: Repeat | None = None

    # The connection's life

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start: nothing is buffered unseen, so "not paused" means "all bytes are with the kernel"."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0, low=0)
        self._deadlines.wait_for(Phase.IDLE)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  asyncio's signature
        """The client is gone: whatever executes for it is cancelled, whatever waited behind it is dropped."""
        self.connections.discard(self)
        self._deadlines.stop()
        self._pipeline.waiting.clear()
        self._incoming.drop()
        if self._current is not None:
            self._current.disconnect()
        self.flow.resume_writing()
        self.parser = self._parser = None  # type: ignore[assignment]

    def shutdown(self) -> None:
        """Close when the request that executes is answered; at once where there is none."""
        self._last_request = True
        self._pipeline.waiting.clear()
        if self._current is None or self._current.response_complete:
            self._close()
        else:
            self._current.keep_alive = False

    def pause_writing(self) -> None:
        """The client does not take what was sent: from now on it must."""
        super().pause_writing()
        self._deadlines.start_write()

    def resume_writing(self) -> None:
        """Everything is with the kernel."""
        self._deadlines.end_write()
        super().resume_writing()
        if self._incoming.phase is Phase.REFUSED:
            self._deadlines.wait_for(Phase.REFUSED)

    def read_is_late(self, phase: Phase) -> None:
        """What was waited for has not arrived in its time."""
        if phase is Phase.IDLE:
            self.transport.close()
        elif phase is Phase.REFUSED:
            if not self.flow.write_paused:
                self.transport.abort()
        else:
            what, seconds = "header" if phase is Phase.HEADERS else "body", self._limits.read_timeouts()[phase]
            self._refuse(408, f"the request's {what} did not arrive within {seconds:g} s")

    # Reading

    def data_received(self, data: bytes) -> None:
        """Feed the parser; its callbacks do the work."""
        if self._refusal is not None or self._last_request:
            return
        if self._takes_as_repeated(data):
            return
        incoming = self._incoming
        incoming.untraced += len(data)
        if self._parse(data):
            self._deadlines.follow(incoming.phase, incoming.received)
            self._pipeline.note_read(len(data))

    def _takes_as_repeated(self, data: bytes) -> bool:
        """Begin the exchange where the segment is the request that this connection had before."""
        if self._incoming.phase is not Phase.IDLE or not (self._current is None or self._current.response_complete):
            self._segment = None
            return False
        repeat = self.repeat
        if repeat is None or self.flow.write_paused or not repeat.suits(data):
            self._segment = data
            return False
        self._deadlines.read_due = inf
        self._current = exchange = Exchange(self, repeat)
        exchange.begin(data)
        return True

    def _parse(self, data: bytes) -> bool:
        """Feed the parser; whether reading goes on."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # What follows is not HTTP/1.1 any more. The request is answered as it is, then the connection ends.
            self._last_request = True
            waiting = self._pipeline.waiting
            newest = waiting[-1] if waiting else self._current
            if newest is not None:
                newest.keep_alive = False
            return False
        except httptools.HttpParserError as exc:
            reason = exc.__context__
            if isinstance(reason, Refused):
                self._refuse(reason.status, reason.message)
            elif self._refusal is None:
                self._refuse(400, f"Invalid HTTP request received: {exc}")
            return False
        if self._incoming.untraced > self._limits.max_header_size:
            self._refuse(431, header_too_large(self._limits.max_header_size))
            return False
        return True

    def on_headers_complete(self) -> None:
        """The parser has the headers: a client that asks whether to send the body is told, in its turn."""
        self._incoming.end_headers()
        if self._incoming.expects_continue:
            if self._current is None or self._current.response_complete:
                self.transport.write(_CONTINUE)
            else:
                self._owes_continue = True

    def on_body(self, body: bytes) -> None:
        """The parser has a piece of the body."""
        self._incoming.add(body)

    def on_message_complete(self) -> None:
        """The request is whole: start it, or queue it behind the one that executes."""
        body = self._incoming.end()
        self._deadlines.phase = Phase.IDLE
        self._owes_continue = False
        parser = self._parser
        keep_alive = parser.should_keep_alive() and parser.get_http_version() != "1.0"
        cycle = Cycle(self, make_scope(self._incoming, parser, self), body, keep_alive=keep_alive)
        cycle.segment, self._segment = self._segment, None
        if self._current is None or self._current.response_complete:
            self.start(cycle, self.app)  # type: ignore[arg-type]
        else:
            self._pipeline.add(cycle)

    # Requests

    def start(self, cycle: Cycle, app: Application) -> None:
        """Have the application answer a request."""
        self._current = cycle
        if self._incoming.phase is Phase.IDLE:
            self._deadlines.read_due = inf
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
        if self._pipeline.waiting:
            self.start(self._pipeline.take(), self.app)  # type: ignore[arg-type]
            return
        if self._refusal is not None:
            self._send_refusal()
        elif self._owes_continue:
            self._owes_continue = False
            self.transport.write(_CONTINUE)
        elif self._incoming.phase is Phase.IDLE:
            self._deadlines.wait_for(Phase.IDLE)

    # The end

    def _refuse(self, status: int, message: str) -> None:
        """Answer with an error behind the answers still owed, read nothing more, and close."""
        self._refusal = refusal(status, message)
        log.debug("refused a request from %s with %d: %s", self.client, status, message)
        self._incoming.drop()
        if self._current is None or self._current.response_complete:
            self._send_refusal()
        else:
            self._deadlines.read_due = inf

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
        if self._incoming.phase is Phase.IDLE and self._refusal is None and not self.flow.write_paused:
            self.transport.close()
            return
        self._incoming.phase = Phase.REFUSED
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._deadlines.wait_for(Phase.REFUSED)
