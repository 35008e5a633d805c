"""One gRPC call on a connection of its own, with next to no cost on the client's side.

gRPC's own client spends more on a message of a stream than a server does; then the load would measure itself. This
one sends prepared requests, reads whatever the socket holds, and cuts the messages out of it without looking inside.
Flow control is opened as wide as HTTP/2 allows, so it never waits for us. The status in the trailers is not decoded
(HPACK): the caller judges by the messages.
"""

from __future__ import annotations

import collections
import socket
import struct
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from grpc_messages import framed

if TYPE_CHECKING:
    from collections.abc import Sequence

_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
_END_STREAM, _ACK, _END_HEADERS, _PADDED = 1, 1, 4, 8
_SETTING_INITIAL_WINDOW = 4
_WIDEST = 2**31 - 1
_FIRST_WINDOW = 65_535
_FRAME_LIMIT = 16_384
_FRAME_HEAD = 9
_MESSAGE_HEAD = 5
_STREAM_ID = 1
_CHUNK = 1 << 20


class CallFailed(Exception):
    """The server broke the call off; the message says how."""


@dataclass
class Reply:
    """What came back: each message's bytes, and when, in seconds after the request went out."""

    messages: list[bytes] = field(default_factory=list[bytes])
    first_s: float = 0.0
    last_s: float = 0.0


def call(port: int, method: str, message: bytes, *, pause_s: float = 0.0, timeout_s: float = 60.0) -> Reply:
    """Send one message, say that no more come, and read to the end. Raises CallFailed or OSError.

    After each read ``pause_s`` go by, so that the next one takes many messages at once: being woken for each of them
    costs far more than reading it, and takes the core from the server. Times are as exact as that.
    """
    return converse(port, method, [message], window=1, pause_s=pause_s, timeout_s=timeout_s)


def converse(  # noqa: PLR0913  a call and how it is made
    port: int, method: str, messages: Sequence[bytes], *, window: int, pause_s: float = 0.0, timeout_s: float = 60.0
) -> Reply:
    """The same with many messages, each answered by one: so many of them may be unanswered at a time."""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return _Call(connection, pause_s, messages, window).run(method)


class _Call:
    def __init__(self, connection: socket.socket, pause_s: float, messages: Sequence[bytes], window: int) -> None:
        self._connection = connection
        self._pause_s = pause_s
        self._later = collections.deque(messages)
        self._window = window
        self._begun = 0
        self._unsent = b""
        self._windows = {0: _FIRST_WINDOW, _STREAM_ID: _FIRST_WINDOW}
        self._first_window = _FIRST_WINDOW
        self._data = bytearray()
        self._reply = Reply()
        self._sent = 0.0
        self._ended = False

    def run(self, method: str) -> Reply:
        opening = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        opening += _frame(_SETTINGS, 0, 0, struct.pack(">HI", _SETTING_INITIAL_WINDOW, _WIDEST))
        opening += _frame(_WINDOW_UPDATE, 0, 0, struct.pack(">I", _WIDEST - _FIRST_WINDOW))
        opening += _frame(_HEADERS, _END_HEADERS, _STREAM_ID, _header_block(method))
        self._sent = time.perf_counter()
        self._connection.sendall(opening)
        self._top_up()
        received = bytearray()
        while not self._ended:
            chunk = self._connection.recv(_CHUNK)
            if not chunk:
                raise CallFailed("the server closed the connection in the middle of the call")
            received += chunk
            del received[: self._frames(received)]
            self._top_up()
            if self._pause_s and not self._ended:
                time.sleep(self._pause_s)
        return self._reply

    def _frames(self, received: bytearray) -> int:
        """Handle every whole frame; how many bytes they were."""
        at, end = 0, len(received)
        while end - at >= _FRAME_HEAD and not self._ended:
            size = received[at] << 16 | received[at + 1] << 8 | received[at + 2]
            if end - at < _FRAME_HEAD + size:
                break
            kind, flags = received[at + 3], received[at + 4]
            payload = received[at + _FRAME_HEAD : at + _FRAME_HEAD + size]
            if kind == _DATA:
                self._data += payload[1 : size - payload[0]] if flags & _PADDED else payload
            else:
                self._control(kind, flags, received[at + 8], bytes(payload))
            self._ended |= kind in {_DATA, _HEADERS} and bool(flags & _END_STREAM)
            at += _FRAME_HEAD + size
        self._messages()
        return at

    def _messages(self) -> None:
        """Cut whole messages out of the stream's data."""
        data, at, found = self._data, 0, self._reply.messages
        had = len(found)
        while len(data) - at >= _MESSAGE_HEAD:
            end = at + _MESSAGE_HEAD + int.from_bytes(data[at + 1 : at + _MESSAGE_HEAD], "big")
            if end > len(data):
                break
            found.append(bytes(data[at + _MESSAGE_HEAD : end]))
            at = end
        del data[:at]
        if len(found) > had:
            self._reply.last_s = time.perf_counter() - self._sent
            self._reply.first_s = self._reply.first_s or self._reply.last_s

    def _control(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == _SETTINGS and not flags & _ACK:
            for setting, value in struct.iter_unpack(">HI", payload):
                if setting == _SETTING_INITIAL_WINDOW:
                    self._windows[_STREAM_ID] += value - self._first_window
                    self._first_window = value
            self._connection.sendall(_frame(_SETTINGS, _ACK, 0, b""))
            self._send_data()
        elif kind == _PING and not flags & _ACK:
            self._connection.sendall(_frame(_PING, _ACK, 0, payload))
        elif kind == _WINDOW_UPDATE:
            self._windows[stream] += int.from_bytes(payload, "big")
            self._send_data()
        elif kind in {_RST_STREAM, _GOAWAY}:
            raise CallFailed(f"the server ended the call with frame {kind}: {payload!r}")

    def _top_up(self) -> None:
        """Begin as many messages as were answered."""
        due = min(len(self._later), self._window + len(self._reply.messages) - self._begun)
        if due > 0:
            self._begun += due
            self._unsent += b"".join([framed(self._later.popleft()) for _ in range(due)])
            self._send_data()

    def _send_data(self) -> None:
        """As much of what was begun as flow control allows, in whole frames."""
        while self._unsent:
            size = min(len(self._unsent), _FRAME_LIMIT, *self._windows.values())
            if size <= 0:
                return
            part, self._unsent = self._unsent[:size], self._unsent[size:]
            for stream in self._windows:
                self._windows[stream] -= size
            self._connection.sendall(_frame(_DATA, 0 if self._unsent or self._later else _END_STREAM, _STREAM_ID, part))


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _header_block(method: str) -> bytes:
    """The request's headers as HPACK literals that nobody has to remember."""
    headers = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", method),
        (":authority", "127.0.0.1"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
    ]
    return b"".join(
        bytes([0, len(name)]) + name.encode() + bytes([len(value)]) + value.encode() for name, value in headers
    )
