"""One gRPC call over HTTP/2 without TLS, as a client makes it: what ``infer call --stream`` needs and no more.

A connection carries one stream. Both windows are opened wide and topped up as data is read, so that a response of any
size flows; what is sent waits for the server's windows.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from typing import TYPE_CHECKING, Self
from urllib.parse import unquote, urlsplit

from . import http2
from .failure import ClientError, Kind

if TYPE_CHECKING:
    from collections.abc import Generator

_WINDOW = 16 << 20
"""Bytes that the server may send before we have read them."""
_STREAM = 1
_PREFIX = struct.Struct(">BI")
_LARGEST_MESSAGE = 2**31 - 1
_READ = 1 << 18

_KINDS = {
    "3": Kind.USAGE,
    "4": Kind.NOT_READY,
    "5": Kind.NOT_FOUND,
    "7": Kind.REFUSED,
    "14": Kind.NOT_READY,
    "16": Kind.REFUSED,
}
"""What gRPC's status codes stand for, as far as there is a word for it."""


class Call:
    """One call: :meth:`send` messages, :meth:`finish`, and iterate :meth:`messages`. Closes with the ``with`` block.

    ``address`` is HOST:PORT; ``timeout`` bounds in seconds how long the server may be silent. Everything raises
    ClientError: for a server that cannot be reached, breaks the protocol, or ends the call with a status.
    """

    def __init__(self, address: str, path: str, timeout: float) -> None:
        """Nothing is connected before the ``with`` block."""
        self.address = address
        self.path = path
        self.timeout = timeout
        self.windows = http2.Windows()
        self._socket: socket.socket | None = None
        self._received = bytearray()
        self._body = bytearray()
        self._block = bytearray()
        self._headers: dict[str, str] = {}
        self._unacknowledged = 0
        self._closing = False
        self._ended = False

    def __enter__(self) -> Self:
        """Connect and open the stream."""
        import hpack

        self._decoder = hpack.Decoder()
        host, port = split_address(self.address)
        headers = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", self.path),
            (":authority", self.address),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
            ("user-agent", "infer"),
        ]
        settings = http2.SETTING.pack(http2.ENABLE_PUSH, 0) + http2.SETTING.pack(http2.INITIAL_WINDOW_SIZE, _WINDOW)
        try:
            self._socket = socket.create_connection((host, port), self.timeout)
        except OSError as error:
            raise self._lost(error) from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._write(
            http2.PREFACE
            + http2.frame(http2.SETTINGS, 0, 0, settings)
            + http2.frame(http2.WINDOW_UPDATE, 0, 0, http2.WORD.pack(_WINDOW - http2.FIRST_WINDOW))
            + http2.frame(http2.HEADERS, http2.END_HEADERS, _STREAM, hpack.Encoder().encode(headers))
        )
        return self

    def __exit__(self, *_: object) -> None:
        """Cancel what is not over, and hang up."""
        if self._socket is None:
            return
        if not self._ended:
            with contextlib.suppress(OSError):  # it is gone already, and with it the call
                self._socket.sendall(http2.frame(http2.RST_STREAM, 0, _STREAM, http2.WORD.pack(http2.CANCEL)))
        self._socket.close()
        self._socket = None

    def send(self, message: bytes) -> None:
        """Send one message, as fast as the server's windows allow."""
        data = memoryview(_PREFIX.pack(0, len(message)) + message)
        while data and not self._ended:
            room = self.windows.room
            if not room:
                self._take()
                continue
            part, data = data[:room], data[room:]
            self.windows.spend(len(part))
            self._write(http2.frame(http2.DATA, 0, _STREAM, bytes(part)))

    def finish(self) -> None:
        """Say that no more messages come."""
        if not self._ended:
            self._write(http2.frame(http2.DATA, http2.END_STREAM, _STREAM))

    def messages(self) -> Generator[bytes]:
        """Messages as they come, until the server ends the call. Raises ClientError where its status is not 0."""
        while True:
            while (message := self._next_message()) is not None:
                yield message
            if self._ended:
                break
            self._take()
        self._check_status()

    def _next_message(self) -> bytes | None:
        if len(self._body) < _PREFIX.size:
            return None
        compressed, size = _PREFIX.unpack_from(self._body)
        if compressed or size > _LARGEST_MESSAGE:
            raise self._broken("it sent a message that is compressed, which was not agreed on")
        if len(self._body) < _PREFIX.size + size:
            return None
        message = bytes(memoryview(self._body)[_PREFIX.size : _PREFIX.size + size])
        del self._body[: _PREFIX.size + size]
        return message

    def _check_status(self) -> None:
        http, status = self._headers.get(":status", "200"), self._headers.get("grpc-status")
        if status == "0":
            return
        if status is None:
            raise self._broken(f"it ended the call without a status (HTTP {http}); is this a gRPC port?")
        why = unquote(self._headers.get("grpc-message", "")) or "it gave no reason"
        raise ClientError(
            f"the server ended the call with gRPC status {status}", why, kind=_KINDS.get(status, Kind.FAILED)
        )

    # Frames

    def _take(self) -> None:
        """Read one frame and act on it."""
        word, flags, stream = http2.HEAD.unpack(self._read(http2.HEAD.size))
        kind, payload = word & 0xFF, self._read(word >> 8)
        if kind == http2.DATA:
            self._take_data(payload, flags)
        elif kind in (http2.HEADERS, http2.CONTINUATION):
            self._take_headers(kind, payload, flags)
        elif kind == http2.SETTINGS and not flags & http2.ACK:
            self.windows.settle(payload)
            self._write(http2.frame(http2.SETTINGS, http2.ACK, 0))
        elif kind == http2.PING and not flags & http2.ACK:
            self._write(http2.frame(http2.PING, http2.ACK, 0, payload))
        elif kind == http2.WINDOW_UPDATE:
            self.windows.widen(stream, http2.WORD.unpack(payload)[0])
        elif kind == http2.RST_STREAM:
            self._ended = True
            if "grpc-status" not in self._headers:
                raise self._broken(f"it reset the call with error {http2.WORD.unpack(payload)[0]}")
        elif kind == http2.GOAWAY and http2.WORD.unpack_from(payload)[0] < _STREAM:
            raise self._broken(f"it refused the connection: {payload[8:].decode('utf-8', 'replace')}")

    def _take_data(self, payload: bytes, flags: int) -> None:
        self._unacknowledged += len(payload)
        self._body += http2.unpadded(payload, flags)
        if flags & http2.END_STREAM:
            self._ended = True
        elif self._unacknowledged > _WINDOW // 2:
            # A large message is topped up while it comes: it may be larger than the window.
            increment = http2.WORD.pack(self._unacknowledged)
            self._write(
                http2.frame(http2.WINDOW_UPDATE, 0, 0, increment)
                + http2.frame(http2.WINDOW_UPDATE, 0, _STREAM, increment)
            )
            self._unacknowledged = 0

    def _take_headers(self, kind: int, payload: bytes, flags: int) -> None:
        import hpack

        if kind == http2.HEADERS:
            payload = http2.unpadded(payload, flags)
            payload = payload[http2.PRIORITY_SIZE :] if flags & http2.PRIORITY else payload
            self._closing = bool(flags & http2.END_STREAM)
        self._block += payload
        if flags & http2.END_HEADERS:
            try:
                self._headers |= {str(name): str(value) for name, value in self._decoder.decode(bytes(self._block))}
            except hpack.HPACKError as error:
                raise self._broken("its headers cannot be read") from error
            self._block.clear()
            self._ended = self._closing

    def _read(self, count: int) -> bytes:
        while len(self._received) < count:
            try:
                data = self._connected.recv(_READ)
            except TimeoutError as error:
                raise ClientError(
                    f"no answer from {self.address}",
                    f"the server was silent for {self.timeout:g} seconds",
                    "give it longer: --timeout SECONDS",
                    kind=Kind.NOT_READY,
                    late=True,
                ) from error
            except OSError as error:
                raise self._lost(error) from error
            if not data:
                raise self._broken("it closed the connection in the middle of the call")
            self._received += data
        taken = bytes(memoryview(self._received)[:count])
        del self._received[:count]
        return taken

    def _write(self, data: bytes) -> None:
        try:
            self._connected.sendall(data)
        except OSError as error:
            raise self._lost(error) from error

    @property
    def _connected(self) -> socket.socket:
        if self._socket is None:
            raise self._broken("the call is closed")
        return self._socket

    def _lost(self, error: OSError) -> ClientError:
        return ClientError(
            f"cannot reach a gRPC server at {self.address}",
            str(error) or type(error).__name__,
            "name its gRPC port: --grpc-url HOST:PORT",
            kind=Kind.NO_CONNECTION,
        )

    def _broken(self, why: str) -> ClientError:
        return ClientError(
            f"the gRPC server at {self.address} broke off", why, "name its gRPC port: --grpc-url HOST:PORT"
        )


def split_address(text: str) -> tuple[str, int]:
    """Host and port of ``HOST:PORT``, ``[HOST]:PORT`` or ``grpc://HOST:PORT``. Raises ClientError for anything else."""
    try:
        parts = urlsplit(text if "//" in text else f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = None, None, None
    if parts is None or not host or port is None or parts.scheme not in ("", "grpc", "http"):
        raise ClientError(
            f"'{text}' is no address of a gRPC port",
            "it must be HOST:PORT; TLS is not spoken here",
            "for example: --grpc-url 127.0.0.1:8001",
            kind=Kind.USAGE,
        )
    return host, port
