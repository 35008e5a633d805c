"""gRPC's messages in the bytes of a stream: a flag, a length of four bytes, and that many bytes. Pure."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, NamedTuple

from .status import Abort, StatusCode

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX_SIZE = 5
_GROWTH = 4
"""A buffer is made at most so many times as large as what has come for it: a length alone costs no memory."""
MAX_MESSAGE = 2**31 - 1
"""The largest message of gRPC in bytes."""
_PREFIX = struct.Struct(">BI")
_WINDOW_BITS = {"gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


class TooLarge(Abort):
    """A message becomes larger than it may when it is decompressed."""


class Message(NamedTuple):
    """One message as it came. ``data`` is bytes-like and nobody else's."""

    compressed: bool
    data: bytes | bytearray


class MessageReader:
    """Cuts messages out of the bytes of one stream, however they are divided.

    Small messages that come whole are sliced; what comes in parts is copied once, into a buffer of its length.
    """

    __slots__ = ("_body", "_compressed", "_filled", "_prefix", "_size")

    def __init__(self) -> None:
        self._prefix = b""
        self._compressed = False
        self._size = 0
        self._body: bytearray | None = None
        self._filled = 0

    @property
    def is_between(self) -> bool:
        """Whether no message has begun that is not complete."""
        return self._body is None and not self._prefix

    def feed(self, data: bytes, start: int, stop: int) -> Iterator[Message]:
        """The messages that ``data[start:stop]`` completes. Raises Abort for one that is too large."""
        while start < stop:
            if self._body is None:
                if not self._prefix and stop - start >= PREFIX_SIZE:
                    flag, size = _PREFIX.unpack_from(data, start)
                    start += PREFIX_SIZE
                else:
                    taken = min(PREFIX_SIZE - len(self._prefix), stop - start)
                    self._prefix += data[start : start + taken]
                    start += taken
                    if len(self._prefix) < PREFIX_SIZE:
                        return
                    flag, size = _PREFIX.unpack(self._prefix)
                    self._prefix = b""
                self._compressed = _checked(flag, size)
                if size <= stop - start:
                    yield Message(self._compressed, data[start : start + size])
                    start += size
                    continue
                self._size, self._filled = size, 0
                self._body = bytearray(min(size, _GROWTH * (stop - start)))
            body = self._body
            start = self._fill(body, data, start, stop)
            if self._filled == self._size:
                self._body = None
                yield Message(self._compressed, body)

    def _fill(self, body: bytearray, data: bytes, start: int, stop: int) -> int:
        """Copy what belongs to the message that has begun; where that ends in ``data``."""
        filled = self._filled
        size = min(self._size - filled, stop - start)
        if filled + size > len(body):
            body.extend(bytes(min(self._size, _GROWTH * (filled + size)) - len(body)))
        body[filled : filled + size] = memoryview(data)[start : start + size]
        self._filled = filled + size
        return start + size


def _checked(flag: int, size: int) -> bool:
    """Whether a message is compressed. Raises Abort."""
    if size > MAX_MESSAGE:
        raise Abort(StatusCode.RESOURCE_EXHAUSTED, f"a message of {size} bytes is larger than {MAX_MESSAGE}")
    if flag > 1:
        raise Abort(StatusCode.INTERNAL, f"a message has the flag {flag}; 0 is plain, 1 is compressed")
    return bool(flag)


def prefix(size: int, *, compressed: bool = False) -> bytes:
    """What stands before a message of ``size`` bytes."""
    return _PREFIX.pack(compressed, size)


def inflate(data: bytes | bytearray, encoding: str, limit: int) -> bytes:
    """A message that was compressed as ``encoding`` says. Raises Abort. Releases the GIL."""
    if not encoding:
        raise Abort(StatusCode.INTERNAL, "a message is compressed, and grpc-encoding does not say how")
    bits = _WINDOW_BITS.get(encoding)
    if bits is None:
        msg = f"messages compressed as '{encoding}' cannot be read; send gzip, deflate or identity"
        raise Abort(StatusCode.UNIMPLEMENTED, msg)
    inflater = zlib.decompressobj(bits)
    try:
        plain = inflater.decompress(data, limit)
    except zlib.error as exc:
        raise Abort(StatusCode.INTERNAL, f"a message is not compressed as {encoding}: {exc}") from exc
    if inflater.unconsumed_tail:
        raise TooLarge(StatusCode.RESOURCE_EXHAUSTED, f"a message is larger than {limit} bytes when decompressed")
    if not inflater.eof or inflater.unused_data:
        what = "ends too early" if not inflater.eof else "has something behind its end"
        raise Abort(StatusCode.INTERNAL, f"a message compressed as {encoding} {what}")
    return plain


def deflate(data: bytes, encoding: str, level: int) -> bytes:
    """A message compressed as ``encoding`` (gzip or deflate) says. Releases the GIL."""
    deflater = zlib.compressobj(level, wbits=_WINDOW_BITS[encoding])
    return deflater.compress(data) + deflater.flush()
