"""The request that a connection is reading: what the parser has found of it so far, and whether that is too much.

The parser hands over headers and body piece by piece, and takes them in any size. So each piece is counted when it
comes: what is over a bound is refused before it is kept, and a header that only claims too much before its body comes.
"""

from __future__ import annotations

from .errors import header_too_large, too_large
from .limits import MAX_CHUNKS, MAX_INT32, Limits, Phase

_INT32_DIGITS = 10
_GROW_IN_PLACE = 1 << 20
"""Bodies from this size on grow in place, so that no single join holds the loop."""


class Refused(Exception):  # a signal through the parser, not an error of ours
    """Raised inside a parser callback: this request will not be read further."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def content_length(value: bytes) -> int:
    """The number in a Content-Length. Raises Refused where it is none, or does not fit an int32."""
    text = value.strip()
    if not text.isdigit():
        raise Refused(400, f"Unable to parse Content-Length, got: {text.decode('latin-1')}")
    if len(text.lstrip(b"0")) > _INT32_DIGITS or int(text) > MAX_INT32:
        msg = f"Unable to parse Content-Length, value is out of range [ 0, {MAX_INT32} ], got: {text.decode()}"
        raise Refused(400, msg)
    return int(text)


class Incoming:
    """The request that is read, one after the other on a connection.

    ``untraced`` counts bytes fed to the parser since it last showed something for them: the connection adds to it, and
    headers, trailers and chunk extensions are too large when it is. ``received`` counts bytes of the body.
    """

    __slots__ = (
        "_body",
        "_chunks",
        "_content_length",
        "_limits",
        "_parts",
        "expects_continue",
        "headers",
        "phase",
        "received",
        "untraced",
        "url",
    )

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._content_length = -1
        self._chunks = 0
        self._parts: list[bytes] = []
        self._body: bytearray | None = None
        self.phase = Phase.IDLE
        self.untraced = 0
        self.received = 0
        self.url = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.expects_continue = False

    # Parser callbacks

    def on_message_begin(self) -> None:
        """A request begins."""
        self.url = b""
        self.headers = []
        self.phase = Phase.HEADERS
        self._content_length = -1
        self._chunks = 0
        self.received = 0
        self.expects_continue = False

    def on_url(self, url: bytes) -> None:
        """A piece of the request's target."""
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header, or one trailer, which is dropped. Raises Refused for a Content-Length that is none."""
        if self.phase is not Phase.HEADERS:
            return
        name = name.lower()
        if name == b"content-length":
            self._content_length = content_length(value)
        elif name == b"expect":
            self.expects_continue = value.lower() == b"100-continue"
        self.headers.append((name, value))

    def on_chunk_header(self) -> None:
        """A chunk begins; the last one, which is empty, too."""
        self._chunks += 1

    # What the connection passes on

    def end_headers(self) -> None:
        """Check what the headers claim before any of the body is kept. Raises Refused."""
        limits = self._limits
        if self.untraced > limits.max_header_size:
            # What was fed may hold some of the body too, so only now it is worth counting.
            size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
            if size > limits.max_header_size:
                raise Refused(431, header_too_large(limits.max_header_size))
        if self._content_length > limits.max_input_size and not self._is_inference():
            raise Refused(400, too_large(self._content_length, limits.max_input_size))
        self.untraced = 0
        self.phase = Phase.BODY

    def add(self, body: bytes) -> None:
        """Keep a piece of the body, without a copy while it is small. Raises Refused for a chunk too many."""
        self.untraced = 0
        self.received += len(body)
        if self._chunks:
            self._check_chunks()
        if self._body is not None:
            self._body += body
        elif self.received >= _GROW_IN_PLACE:
            self._body = bytearray().join(self._parts)
            self._body += body
            self._parts.clear()
        else:
            self._parts.append(body)

    def end(self) -> bytes | bytearray:
        """The body of a request that is whole. One that came in one piece is that piece."""
        self.untraced = 0
        self.phase = Phase.IDLE
        grown, self._body = self._body, None
        if grown is not None:
            return grown
        body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        return body

    def drop(self) -> None:
        """Let go of the body that came so far."""
        self._parts.clear()
        self._body = None

    def _is_inference(self) -> bool:
        return self.url.partition(b"?")[0].endswith(b"/infer")

    def _check_chunks(self) -> None:
        if self._chunks > MAX_CHUNKS:
            msg = f"Chunked request body exceeds maximum of {MAX_CHUNKS} non-empty chunks"
            raise Refused(400, msg)
        limit = MAX_INT32 if self._is_inference() else self._limits.max_input_size
        if self.received > limit:
            raise Refused(400, too_large(self.received, limit))
