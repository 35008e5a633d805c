"""Compressed bodies of inference requests and replies.

zlib runs in slices between which the loop serves others: at some 50 MB/s deflated and 300 MB/s inflated, a slice
stays under a millisecond.
"""

from __future__ import annotations

import asyncio
import zlib
from typing import TYPE_CHECKING, Any

from ...backends.api.errors import InvalidArgument, Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterable

DEFLATE_SLICE = 32 << 10
INFLATE_SLICE = 128 << 10
LEVEL = 1
_AUTO_DETECT = 47
_WINDOW_BITS = {"gzip": 31, "deflate": 15}
_CODINGS = frozenset({"identity", "gzip", "deflate"})


class UnknownCoding(Unsupported):
    """A Content-Encoding that is neither gzip nor deflate."""


async def decompress(body: bytes | bytearray, encoding: bytes, limit: int) -> bytes | bytearray:
    """The body as it was before its Content-Encoding; gzip and zlib are told apart by their first bytes.

    Raises UnknownCoding, and InvalidArgument for an empty body, for garbage, for one that is cut off and for more
    than ``limit`` bytes.
    """
    name = encoding.decode("latin-1").strip().lower()
    if name in ("", "identity"):
        return body
    if name not in _CODINGS:
        msg = "Unsupported compression type"
        raise UnknownCoding(msg)
    if not body:
        msg = "nothing to be decompressed"
        raise InvalidArgument(msg)
    try:
        plain = await _inflate(memoryview(body), limit)
    except zlib.error as exc:
        msg = f"failed to decompress the {name} request body: {exc}"
        raise InvalidArgument(msg) from exc
    if plain is None:
        msg = f"failed to decompress the {name} request body: it ends before the compressed data does"
        raise InvalidArgument(msg)
    return plain


async def _inflate(packed: memoryview, limit: int) -> bytearray | None:
    """All of the stream, or None where it is cut off."""
    inflater = zlib.decompressobj(_AUTO_DETECT)
    plain = bytearray()
    for start in range(0, packed.nbytes, DEFLATE_SLICE):
        pending: bytes | memoryview = packed[start : start + DEFLATE_SLICE]
        while pending and not inflater.eof:
            plain += inflater.decompress(pending, INFLATE_SLICE)
            if len(plain) > limit:
                msg = (
                    f"Decompressed data size exceeds the maximum allowed value of {limit} bytes. "
                    "Use --http-max-input-size to increase the limit."
                )
                raise InvalidArgument(msg)
            pending = inflater.unconsumed_tail
            if packed.nbytes > DEFLATE_SLICE or pending:
                await asyncio.sleep(0)
        if inflater.eof:
            return plain
    return None


async def compress(parts: Iterable[Any], coding: str) -> bytes:
    """The parts, one behind the other, in the given coding."""
    deflater = zlib.compressobj(LEVEL, zlib.DEFLATED, _WINDOW_BITS[coding])
    packed: list[bytes] = []
    done = 0
    for part in parts:
        view = memoryview(part)
        for start in range(0, view.nbytes, DEFLATE_SLICE):
            piece = view[start : start + DEFLATE_SLICE]
            packed.append(deflater.compress(piece))
            done += piece.nbytes
            if done >= DEFLATE_SLICE:
                done = 0
                await asyncio.sleep(0)
    packed.append(deflater.flush())
    return b"".join(packed)


def choose(accept: bytes, *, has_tensors: bool) -> str:
    """The coding for a reply, "" for none: the highest weight wins, the first among equals.

    Clients such as aiohttp offer several codings with every request without anybody having asked for them, and
    tensors hardly shrink. So a reply with binary tensors is compressed only for a client that names one coding;
    identity is always allowed.
    """
    best, best_weight, offered = "", 0.0, 0
    for entry in accept.decode("latin-1").split(","):
        name, _, rest = entry.partition(";")
        name = name.strip().lower()
        weight = _weight(rest)
        offered += 1
        if name in _CODINGS and weight is not None and weight > best_weight:
            best, best_weight = name, weight
    if best == "identity" or (has_tensors and offered > 1):
        return ""
    return best


def _weight(text: str) -> float | None:
    text = text.strip()
    if not text:
        return 1.0
    key, _, value = text.partition("=")
    if key.strip().lower() != "q":
        return None
    try:
        return float(value)
    except ValueError:
        return None
