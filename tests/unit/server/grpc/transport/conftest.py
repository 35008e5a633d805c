"""A running gRPC server with small methods, and a client that says whatever a test wants, frame by frame."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import hpack
import pytest

from infer.server.grpc.transport import frames
from infer.server.grpc.transport.limits import ConnectionLimits
from infer.server.grpc.transport.methods import direct, streaming, unary
from infer.server.grpc.transport.server import GrpcServer
from infer.server.grpc.transport.status import Abort, StatusCode

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator

    from infer.server.grpc.transport.call import Call
    from infer.server.grpc.transport.methods import Context
    from infer.server.loop import ServingLoop

TIMEOUT_S = 20
END_HEADERS, END_STREAM = frames.END_HEADERS, frames.END_STREAM


class Frame(NamedTuple):
    """One frame of the server's."""

    kind: int
    flags: int
    stream: int
    payload: bytes


class Peer:
    """A client that sends what it is told to, whether HTTP/2 allows it or not."""

    def __init__(self, port: int, *, greet: bool = True, receive_buffer: int = 0) -> None:
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.connect(("127.0.0.1", port))
        self.encoder = hpack.Encoder()
        self.decoder = hpack.Decoder()
        self._buffer = b""
        if greet:
            self.send(frames.PREFACE + frames.settings_frame({}))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    # Sending

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def frame(self, kind: int, flags: int, stream: int, payload: bytes = b"") -> None:
        self.send(frames.frame(kind, flags, stream, payload))

    def block(self, path: str = "/t/Echo", *more: tuple[str, str], **changed: str) -> bytes:
        """A request's header block; ``content_type`` and ``method`` may be changed."""
        fields = [
            (":method", changed.get("method", "POST")),
            (":scheme", "http"),
            (":path", path),
            (":authority", "here"),
            ("content-type", changed.get("content_type", "application/grpc")),
            ("te", "trailers"),
            *more,
        ]
        return self.encoder.encode(fields, huffman=False)

    def open(self, stream: int, path: str = "/t/Echo", *more: tuple[str, str], last: bool = False) -> None:
        flags = END_HEADERS | (END_STREAM if last else 0)
        self.frame(frames.HEADERS, flags, stream, self.block(path, *more))

    def data(self, stream: int, payload: bytes, *, last: bool = False) -> None:
        self.frame(frames.DATA, END_STREAM if last else 0, stream, payload)

    def message(self, stream: int, message: bytes, *, last: bool = False, flag: int = 0) -> None:
        self.data(stream, grpc_message(message, flag), last=last)

    def call(self, stream: int, message: bytes, path: str = "/t/Echo", *more: tuple[str, str]) -> Answer:
        """A whole unary call."""
        self.open(stream, path, *more)
        self.message(stream, message, last=True)
        return self.answer(stream)

    # Receiving

    def next(self) -> Frame:
        """The next frame. Raises EOFError at the end of the connection."""
        head = self._take(frames.HEAD_SIZE)
        length, kind, flags, stream = frames.read_head(head, 0)
        return Frame(kind, flags, stream, self._take(length))

    def until(self, kind: int, stream: int | None = None) -> Frame:
        """The next frame of a kind; those before it are dropped, though header blocks are read."""
        while True:
            found = self.next()
            if found.kind == kind and stream in {None, found.stream}:
                return found
            if found.kind == frames.HEADERS:
                self.decoder.decode(found.payload)

    def answer(self, stream: int) -> Answer:
        """Everything that comes for a stream, up to its end."""
        headers: dict[str, str] = {}
        data = b""
        while True:
            found = self.next()
            if found.kind == frames.HEADERS:
                fields: Any = self.decoder.decode(found.payload)
                if found.stream == stream:
                    headers.update(fields)
            elif found.kind == frames.RST_STREAM and found.stream == stream:
                return Answer(headers, data, struct.unpack(">I", found.payload)[0])
            elif found.kind == frames.DATA and found.stream == stream:
                data += found.payload
            if found.stream == stream and found.flags & END_STREAM and found.kind in {frames.HEADERS, frames.DATA}:
                return Answer(headers, data, None)

    def goaway(self) -> tuple[int, int, str]:
        """The last stream, the code and the message of the next GOAWAY."""
        payload = self.until(frames.GOAWAY).payload
        last, code = struct.unpack(">II", payload[:8])
        return last, code, payload[8:].decode()

    def closed_with(self) -> tuple[int, str]:
        """Code and message with which the server closes the connection."""
        _, code, message = self.goaway()
        assert self.is_closed()
        return code, message

    def is_closed(self) -> bool:
        """Whether the server has closed the connection; what it still sent is dropped."""
        try:
            while self.socket.recv(1 << 16):
                pass
        except ConnectionResetError:
            pass
        except TimeoutError:
            return False
        return True

    def settle(self, mark: bytes = b"settled!") -> list[Frame]:
        """Everything that the server sends before it has read what was sent so far."""
        self.frame(frames.PING, 0, 0, mark)
        found: list[Frame] = []
        while True:
            found.append(self.next())
            if found[-1].kind == frames.PING and found[-1].payload == mark:
                return found[:-1]

    def _take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            more = self.socket.recv(1 << 20)
            if not more:
                raise EOFError
            self._buffer += more
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken


class Answer(NamedTuple):
    """How a stream was answered: headers and trailers in one, its data, and the code of a reset."""

    headers: dict[str, str]
    data: bytes
    reset: int | None

    @property
    def status(self) -> int:
        return int(self.headers["grpc-status"])

    @property
    def message(self) -> bytes:
        """The one message. Raises AssertionError for data that is not one whole message."""
        flag, size = struct.unpack(">BI", self.data[:5])
        assert (flag, size) == (0, len(self.data) - 5)
        return self.data[5:]


def grpc_message(message: bytes, flag: int = 0) -> bytes:
    """A message with its prefix."""
    return struct.pack(">BI", flag, len(message)) + message


class Served:
    """A server with the methods that tests call, and what they saw."""

    def __init__(self, serving: ServingLoop, limits: ConnectionLimits, tls: ssl.SSLContext | None = None) -> None:
        self.serving = serving
        self.held: list[Call] = []
        self.cancelled: list[str] = []
        self.taken: list[bytes] = []
        methods = {
            "/t/Echo": direct(lambda call, message: call.reply(bytes(message))),
            "/t/Hold": direct(self._hold),
            "/t/Break": direct(self._break),
            "/t/Slow": unary(self._slow),
            "/t/Stream": streaming(self._stream),
            "/t/Count": streaming(self._count),
            "/t/Deaf": streaming(self._deaf),
            "/t/Refuse": streaming(self._refuse),
            "/t/Fault": streaming(self._fault),
            "/t/Open": self._open,
        }
        self.server = GrpcServer(methods, limits, serving.loop)
        _, self.port = serving.run(self.server.start("127.0.0.1", 0, tls=tls))

    def _hold(self, call: Call, _message: bytes | bytearray) -> None:
        self.held.append(call)
        call.on_cancel = lambda: self.cancelled.append("Hold")

    def _break(self, _call: Call, message: bytes | bytearray) -> None:
        raise ValueError(bytes(message))

    def _open(self, _call: Call) -> None:
        raise ValueError("open")

    async def _slow(self, message: bytes | bytearray) -> bytes:
        try:
            await self.serving.loop.create_future()
        except BaseException:
            self.cancelled.append("Slow")
            raise
        return bytes(message)

    async def _stream(self, context: Context) -> None:
        while (message := await context.read()) is not None:
            self.taken.append(bytes(message))
            await context.write(bytes(message))

    async def _count(self, context: Context) -> None:
        """So many messages of so many bytes as the first message says."""
        message = await context.read()
        assert message is not None
        count, size = map(int, bytes(message).split())
        for _ in range(count):
            await context.write(b"\0" * size)
            self.taken.append(b"")

    async def _deaf(self, _context: Context) -> None:
        await self.serving.loop.create_future()

    async def _refuse(self, context: Context) -> None:
        await context.read()
        raise Abort(StatusCode.FAILED_PRECONDITION, "not today: 50 % off, Käse")

    async def _fault(self, context: Context) -> None:
        await context.read()
        raise ValueError("fault")

    def on_loop(self, function: Callable[[], Any]) -> Any:
        async def run() -> Any:
            return function()

        return self.serving.run(run())

    def counts(self) -> tuple[int, int]:
        """Connections and calls there are."""
        return self.on_loop(lambda: (self.server.connection_count, self.server.call_count))

    def wait_until(self, condition: Callable[[], bool], seconds: float = 10) -> None:
        """Let the loop turn until the condition holds; fails when it does not in time."""

        async def wait() -> None:
            async with asyncio.timeout(seconds):
                while not condition():  # noqa: ASYNC110  what a client or the kernel does sets no event
                    await asyncio.sleep(0.001)

        self.serving.run(wait())


@pytest.fixture
def serve(serving: ServingLoop) -> Iterator[Callable[..., Served]]:
    """Servers with limits of their own, stopped behind the test; pings may come at any time unless one is said."""
    servers: list[Served] = []

    def make(tls: ssl.SSLContext | None = None, **limits: Any) -> Served:
        servers.append(Served(serving, ConnectionLimits(**{"max_ping_strikes": 0, **limits}), tls))
        return servers[-1]

    yield make
    for served in servers:
        serving.run(served.server.stop(0.0))


@pytest.fixture
def served(serve: Callable[..., Served]) -> Served:
    """A server with ordinary limits."""
    return serve()


@pytest.fixture
def connect(served: Served) -> Iterator[Callable[..., Peer]]:
    """Clients of the ordinary server, or of another one, closed behind the test."""
    peers: list[Peer] = []

    def make(to: Served | None = None, **options: Any) -> Peer:
        peers.append(Peer((to or served).port, **options))
        return peers[-1]

    yield make
    for peer in peers:
        peer.socket.close()


@pytest.fixture
def peer(connect: Callable[..., Peer]) -> Peer:
    """A client that has greeted the ordinary server."""
    return connect()
