"""Headers of gRPC calls: what a request's say, and the blocks that answer them (HPACK, RFC 7541; gRPC over HTTP/2)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import hpack
from hpack.exceptions import HPACKError, OversizedHeaderListError

from .frames import ErrorCode, ProtocolViolation

MAX_HEADER_LIST = 64 << 10
"""Bytes of the headers of one call, as HPACK counts them."""
MAX_DETAILS = 6000
"""Bytes of a status' message that are sent: clients take 8 KiB of trailers and fail the call beyond that."""
_MAX_HEADS = 128
_MAX_KNOWN = 1024
"""How many blocks are remembered, and up to which size in bytes."""
_TIMEOUT = re.compile(rb"([0-9]{1,8})([HMSmun])")
_UNITS = {b"H": 3_600_000_000_000, b"M": 60_000_000_000, b"S": 1_000_000_000, b"m": 1_000_000, b"u": 1000, b"n": 1}
_ONE_BYTE = 0x7F
_CONTENT_TYPE = b"application/grpc"
_GRPC_TYPES = (b"", b"+", b";")
"""What may stand behind it: nothing, a format, or parameters."""
_PLAIN = frozenset(range(0x20, 0x7F)) - {ord("%")}
_NOT_METADATA = (b":", b"grpc-")
_TRANSPORT = frozenset({b"te", b"content-type", b"user-agent"})


@dataclass(frozen=True, slots=True)
class RequestHead:
    """What the headers of a call say.

    ``timeout_ns`` is None for none; ``encoding`` names the compression of its messages, "" for none; ``accepted`` are
    those that it can read; ``metadata`` is what remains for the application, in order. ``problem`` is what is wrong
    with them, or "".
    """

    path: str
    timeout_ns: int | None = None
    encoding: str = ""
    metadata: tuple[tuple[str, str], ...] = ()
    problem: str = ""
    is_grpc: bool = True
    accepted: frozenset[str] = frozenset()


class HeaderReader:
    """Reads the header blocks of one connection, in the order in which they come.

    A block that changes nothing in HPACK's table means the same when it comes again, until the table changes; clients
    send such blocks all the time.
    """

    __slots__ = ("_decoder", "_heads")

    def __init__(self) -> None:
        self._decoder: Any = hpack.Decoder(max_header_list_size=MAX_HEADER_LIST)
        self._heads: dict[bytes, RequestHead] = {}

    def read(self, block: bytes) -> RequestHead:
        """What a block says. Raises ProtocolViolation for one that cannot be read: the table is then lost."""
        known = self._heads.get(block)
        if known is not None:
            return known
        count, newest, size = self._table()
        try:
            fields: list[tuple[bytes, bytes]] = self._decoder.decode(block, raw=True)
        except OversizedHeaderListError as exc:
            raise ProtocolViolation(ErrorCode.ENHANCE_YOUR_CALM, str(exc)) from exc
        except HPACKError as exc:
            raise ProtocolViolation(ErrorCode.COMPRESSION_ERROR, f"a header block cannot be read: {exc}") from exc
        head = read_fields(fields)
        now = self._table()
        # Entries are made anew and held here meanwhile, so a table whose newest one is the same has got none.
        if now[0] != count or now[1] is not newest or now[2] != size or len(self._heads) >= _MAX_HEADS:
            self._heads.clear()
        elif len(block) <= _MAX_KNOWN:
            self._heads[block] = head
        return head

    def _table(self) -> tuple[int, object, int]:
        """The table's number of entries, its newest one, and its size: one is another when the table has changed."""
        table = self._decoder.header_table
        entries = table.dynamic_entries
        return len(entries), entries[0] if entries else None, table.maxsize


def read_fields(fields: list[tuple[bytes, bytes]]) -> RequestHead:
    """What the headers of a call say, as names in lower case and values."""
    path = method = content_type = b""
    timeout, encoding, accepted, problem = None, "", b"", ""
    metadata: list[tuple[str, str]] = []
    for name, value in fields:
        if name == b":path":
            path = value
        elif name == b":method":
            method = value
        elif name == b"content-type":
            content_type = value
        elif name == b"grpc-timeout":
            timeout = read_timeout(value)
            problem = problem or ("" if timeout is not None else f"grpc-timeout '{value.decode('latin-1')}' is no time")
        elif name == b"grpc-encoding":
            encoding = "" if value == b"identity" else value.decode("latin-1")
        elif name == b"grpc-accept-encoding":
            accepted = value
        elif not name.startswith(_NOT_METADATA) and name not in _TRANSPORT:
            metadata.append((name.decode("latin-1"), value.decode("latin-1")))
    base, behind = content_type[: len(_CONTENT_TYPE)], content_type[len(_CONTENT_TYPE) :][:1]
    is_grpc = method == b"POST" and base == _CONTENT_TYPE and behind in _GRPC_TYPES
    readable = frozenset(accepted.decode("latin-1").replace(" ", "").split(","))
    return RequestHead(path.decode("latin-1"), timeout, encoding, tuple(metadata), problem, is_grpc, readable)


def read_timeout(value: bytes) -> int | None:
    """The time that a client gives a call in nanoseconds; None for what is no time."""
    match = _TIMEOUT.fullmatch(value)
    return int(match[1]) * _UNITS[match[2]] if match else None


def _text(value: bytes) -> bytes:
    """A string literal, not Huffman coded."""
    size = len(value)
    if size < _ONE_BYTE:
        return bytes((size,)) + value
    size -= _ONE_BYTE
    head = bytearray((_ONE_BYTE,))
    while size > _ONE_BYTE:
        head.append(size & _ONE_BYTE | 0x80)
        size >>= 7
    head.append(size)
    return bytes(head) + value


def literal(name: bytes, value: bytes) -> bytes:
    """A header that leaves HPACK's table as it is."""
    return b"\0" + _text(name) + _text(value)


_STATUS_200 = b"\x88"
_GRPC_HEAD = _STATUS_200 + literal(b"content-type", _CONTENT_TYPE)
ENCODINGS: Final = b"identity, deflate, gzip"
RESPONSE_HEAD: Final = _GRPC_HEAD + literal(b"grpc-accept-encoding", ENCODINGS)
"""The headers before a call's first message."""
OK_TRAILERS: Final = literal(b"grpc-status", b"0")
NOT_GRPC: Final = literal(b":status", b"415")
"""The answer to what is no call at all."""


def response_head(encoding: str) -> bytes:
    """The headers before the first message of a call whose messages are compressed so."""
    return RESPONSE_HEAD + literal(b"grpc-encoding", encoding.encode())


def trailers(status: int, details: str, *, alone: bool) -> bytes:
    """The block that ends a call; ``alone`` where nothing was sent before it."""
    block = literal(b"grpc-status", b"%d" % status)
    if details:
        block += literal(b"grpc-message", percent_encoded(details))
    return RESPONSE_HEAD + block if alone else block


def percent_encoded(text: str) -> bytes:
    """A message as gRPC's headers carry it: printable ASCII, everything else and ``%`` as ``%XX``."""
    data = text.encode(errors="replace")[:MAX_DETAILS]
    if all(byte in _PLAIN for byte in data):
        return data
    coded = [b"%c" % byte if byte in _PLAIN else b"%%%02X" % byte for byte in data]
    while sum(map(len, coded)) > MAX_DETAILS:
        del coded[-max(len(coded) // 8, 1) :]
    return b"".join(coded)
