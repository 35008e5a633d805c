"""Bodies are inflated and deflated in slices, within bounds."""

from __future__ import annotations

import gzip
import zlib

import pytest

from infer.backends.api.errors import Code, InferError
from infer.server.http import compression

PLAIN = bytes(range(256)) * 8192
LIMIT = 1 << 24


def bomb() -> bytes:
    """A gibibyte of zeros as gzip; each mebibyte begins anew, so that one is deflated for all."""
    packer = zlib.compressobj(wbits=31)
    first, block = (packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    return first + 1023 * block


@pytest.mark.parametrize("coding", [b"gzip", b"deflate", b"GZIP", b" gzip "])
@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
@pytest.mark.parametrize("plain", [b"x", PLAIN])
async def test_gzip_and_zlib_are_told_apart_by_themselves(coding: bytes, pack: object, plain: bytes) -> None:
    assert bytes(await compression.decompress(pack(plain), coding, LIMIT)) == plain  # type: ignore[operator]


@pytest.mark.parametrize("coding", [b"", b"identity"])
async def test_identity_is_nothing(coding: bytes) -> None:
    assert await compression.decompress(PLAIN, coding, 1) is PLAIN


@pytest.mark.parametrize(
    ("body", "coding", "code", "phrase"),
    [
        (b"x", b"br", Code.UNSUPPORTED, "Unsupported compression type"),
        (b"x", b"gzip, gzip", Code.UNSUPPORTED, "Unsupported compression type"),
        (b"", b"gzip", Code.INVALID_ARG, "nothing to be decompressed"),
        (b"plain", b"gzip", Code.INVALID_ARG, "failed to decompress"),
        (gzip.compress(PLAIN)[:-9], b"gzip", Code.INVALID_ARG, "it ends before the compressed data does"),
        (gzip.compress(b"x")[:12], b"gzip", Code.INVALID_ARG, "it ends before the compressed data does"),
        (gzip.compress(bytes(LIMIT + 1)), b"gzip", Code.INVALID_ARG, "Decompressed data size exceeds the maximum"),
        (bomb(), b"gzip", Code.INVALID_ARG, "Decompressed data size exceeds the maximum"),
    ],
    ids=["br", "twice", "empty", "garbage", "cut", "cut short", "over the limit", "bomb"],
)
async def test_what_cannot_be_inflated_is_refused(body: bytes, coding: bytes, code: Code, phrase: str) -> None:
    with pytest.raises(InferError, match=phrase) as caught:
        await compression.decompress(body, coding, LIMIT)
    assert caught.value.code is code


@pytest.mark.parametrize(("coding", "window"), [("gzip", 31), ("deflate", 15)])
async def test_parts_are_deflated_as_one(coding: str, window: int) -> None:
    packed = await compression.compress([b"head", memoryview(PLAIN), b""], coding)
    assert zlib.decompress(packed, window) == b"head" + PLAIN


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        (b"gzip", "gzip"),
        (b"deflate", "deflate"),
        (b"gzip, deflate", "gzip"),
        (b"gzip;q=0.5, deflate;q=0.8", "deflate"),
        (b"deflate;q=0.5,gzip;q=0.5", "deflate"),
        (b"identity, gzip", ""),
        (b"*", ""),
        (b"br", ""),
        (b"gzip;q=0", ""),
        (b"gzip;q=x, deflate;q=0.1", "deflate"),
        (b"gzip;x=1", ""),
        (b"", ""),
        (b"gzip, deflate, br", "gzip"),
    ],
)
def test_the_strictly_highest_weight_wins(accept: bytes, chosen: str) -> None:
    assert compression.choose(accept, has_tensors=False) == chosen


def test_tensors_are_compressed_for_who_names_one_coding_only() -> None:
    assert compression.choose(b"gzip", has_tensors=True) == "gzip"
    assert compression.choose(b"gzip, deflate, br", has_tensors=True) == ""
