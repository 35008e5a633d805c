"""``ModelStreamInfer``: any number of requests on one call, and their responses as they come.

Ordinary models answer in the order of the requests; decoupled ones whenever they have something. A small message goes
out as it comes where nothing waits for the client. All others wait in a queue for the stream's one writer, its handler,
beside which there is one reader: so a client that reads slowly delays nobody else. Where much waits, the senders of
decoupled responses are paused until the client has read. Failures are messages of the stream, unless the client asked
for statuses.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING

from ...backends.api.errors import InferError, Internal, Unavailable
from . import reply
from .expansion import expanded, is_heavy
from .reply import LAST, MORE
from .transport.status import BROKEN

if TYPE_CHECKING:
    import asyncio

    from ...backends.api.response import InferenceResponse
    from ..engine import Engine
    from ..scheduling.ticket import Ticket
    from .codec import Decoded
    from .requests import RequestReader
    from .transport.methods import Context

log = logging.getLogger("infer.grpc")

STATUS_MODE = ("triton_grpc_error", "true")
"""The metadata with which a client asks for the first failure as the status of the call."""
SHUTTING_DOWN = "GRPC server is shutting down and has stopped accepting new requests."
MAX_UNSENT = 64 << 20
"""Bytes that wait for a client to read them, above which its further requests wait too."""
MAX_WAITING = 1 << 20
"""Bytes that wait for a client to read them, above which decoupled requests are paused."""
AT_ONCE = 64 << 10
"""Bytes of the largest message that need not wait for the writer's turn."""
_MESSAGE_COST = 64
"""Bytes that a message costs besides its own."""


class Turn:
    """The place of an ordinary request among those of its stream; ``message`` is its answer once that is there."""

    __slots__ = ("message",)

    def __init__(self, message: bytes | InferError | None = None) -> None:
        self.message = message


class Exchange:
    """One request of a stream that was let in. ``turn`` is None where its responses go out as they come."""

    __slots__ = ("_stream", "decoded", "ticket", "turn")

    def __init__(self, stream: InferStream, decoded: Decoded, turn: Turn | None) -> None:
        self._stream = stream
        self.decoded = decoded
        self.turn = turn
        self.ticket: Ticket | None = None

    def on_response(self, response: InferenceResponse) -> None:
        """A response, on the loop."""
        message: bytes | InferError | None = None
        try:
            if not self._stream.over:
                message = self._message(response)
        except InferError as error:
            message = self._failure(error, final=response.final)
        except Exception:
            # A fault of ours is this request's, not the scheduler's that called.
            log.exception("a response of model '%s' could not be written", self.decoded.request.model_name)
            message = self._failure(Internal(BROKEN), final=response.final)
        finally:
            response.release()
        self._stream.deliver(self, message, final=response.final)

    def _message(self, response: InferenceResponse) -> bytes | InferError | None:
        decoded = self.decoded
        request, facts = decoded.request, decoded.facts
        if response.error is not None:
            return self._failure(response.error, final=response.final)
        if facts.decoupled and response.final and response.is_empty:
            if not decoded.empty_final:
                return None
            return reply.empty_final(request.model_name, decoded.version, request.request_id)
        kind = LAST if response.final else MORE
        return facts.writer.write(response, request.request_id, decoded.classes, kind, decoded.replies)

    def _failure(self, error: InferError, *, final: bool) -> bytes | InferError:
        if self._stream.wants_status:
            return error
        request = self.decoded.request
        return reply.failed(error, request.model_name, self.decoded.version, request.request_id, final=final)


class InferStream:
    """One call of ModelStreamInfer. ``over`` says that nothing of it is sent any more."""

    def __init__(
        self, engine: Engine, reader: RequestReader, context: Context, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._engine = engine
        self._reader = reader
        self._context = context
        self._loop = loop
        self.wants_status = STATUS_MODE in context.metadata
        self.over = False
        self._open: set[Exchange] = set()
        self._paused: set[Ticket] = set()
        self._turns: deque[Turn] = deque()
        self._queue: deque[bytes | InferError] = deque()
        self._unsent = 0
        self._reading = True
        self._closing = False
        self._waiter: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None

    async def run(self) -> None:
        """Serve the call to its end. Raises InferError where that is its status."""
        reading = self._loop.create_task(self._read())
        try:
            await self._write()
            if reading.done():
                reading.result()
        finally:
            self.over = True
            reading.cancel()
            for exchange in tuple(self._open):
                if exchange.ticket is not None:
                    exchange.ticket.cancel()

    def close(self) -> None:
        """End the call as soon as every request on it has its answer."""
        self._closing = True
        self._wake()

    def deliver(self, exchange: Exchange, message: bytes | InferError | None, *, final: bool) -> None:
        """A response of a request as it is to be sent; None for nothing to send."""
        if final:
            self._open.discard(exchange)
        turn = exchange.turn
        if turn is not None:
            turn.message = message
            self._take_turns()
        elif message is not None:
            self._put(message)
            if self._unsent > MAX_WAITING and exchange.ticket is not None:
                exchange.ticket.pause()
                self._paused.add(exchange.ticket)
        elif not self._open:
            self._wake()

    # Reading

    async def _read(self) -> None:
        context = self._context
        try:
            while (data := await context.read()) is not None:
                self._take(await expanded(data, self._loop) if is_heavy(data) else data)
                if self._unsent > MAX_UNSENT:
                    self._room = self._loop.create_future()
                    await self._room
        finally:
            self._reading = False
            self._wake()

    def _take(self, data: bytes | bytearray) -> None:
        """Hand a request in."""
        engine = self._engine
        try:
            if engine.draining:
                raise Unavailable(SHUTTING_DOWN)
            decoded = self._reader.read(data, streamed=True)
        except InferError as error:
            engine.refuse(error)
            self._refuse(error, self._reader.request_id(data))
            return
        turn = None if decoded.facts.decoupled else Turn()
        exchange = Exchange(self, decoded, turn)
        self._open.add(exchange)
        if turn is not None:
            self._turns.append(turn)
        try:
            exchange.ticket = engine.infer(decoded.request, exchange.on_response, decoded.facts.model)
        except InferError as error:
            self.deliver(exchange, reply.refused(error, decoded.request.request_id), final=True)

    def _refuse(self, error: InferError, request_id: str) -> None:
        """Answer a request that names no model that could answer; it takes its turn as an ordinary one."""
        self._turns.append(Turn(reply.refused(error, request_id)))
        self._take_turns()

    def _take_turns(self) -> None:
        turns = self._turns
        while turns and (message := turns[0].message) is not None:
            turns.popleft()
            self._put(message)

    # Writing

    def _put(self, message: bytes | InferError) -> None:
        waiter, queue = self._waiter, self._queue
        if isinstance(message, bytes):
            # PERF: to wake the writer takes longer than to write.
            idle = waiter is not None and not waiter.done() and not queue
            if idle and len(message) <= AT_ONCE and self._context.write_at_once(message):
                if not self._open:
                    self._wake()
                return
            self._unsent += len(message) + _MESSAGE_COST
        queue.append(message)
        self._wake()

    def _wake(self) -> None:
        """Have the writer look what there is to do."""
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def _write(self) -> None:
        """Send what is queued until nothing can come any more. Raises InferError for a failure that ends the call."""
        queue, context = self._queue, self._context
        while True:
            while queue:
                message = queue.popleft()
                if isinstance(message, InferError):
                    raise message
                await context.write(message)
                self._wrote(len(message))
            if not self._open:
                if not self._reading:
                    return
                if self._closing:
                    raise Unavailable(SHUTTING_DOWN)
            self._waiter = self._loop.create_future()
            await self._waiter

    def _wrote(self, size: int) -> None:
        self._unsent -= size + _MESSAGE_COST
        if self._paused and self._unsent <= MAX_WAITING // 2:
            paused, self._paused = self._paused, set()
            for ticket in paused:
                ticket.resume()
        room = self._room
        if room is not None and self._unsent <= MAX_UNSENT // 2:
            self._room = None
            if not room.done():
                room.set_result(None)
