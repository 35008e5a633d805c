"""Messages are cut out of a stream's bytes however these are divided, and decompressed within bounds."""

from __future__ import annotations

import gzip
import itertools
import struct
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer.server.grpc.transport import framing
from infer.server.grpc.transport.framing import MAX_MESSAGE, Message, MessageReader, TooLarge
from infer.server.grpc.transport.status import Abort, StatusCode

MESSAGES = st.lists(st.tuples(st.booleans(), st.binary(max_size=60)), max_size=6)


def stream_of(messages: list[tuple[bool, bytes]]) -> bytes:
    return b"".join(framing.prefix(len(data), compressed=flag) + data for flag, data in messages)


def read(reader: MessageReader, *pieces: bytes) -> list[Message]:
    return [Message(m.compressed, bytes(m.data)) for piece in pieces for m in reader.feed(piece, 0, len(piece))]


@given(MESSAGES, st.lists(st.integers(0, 400), max_size=12))
def test_every_way_of_dividing_the_bytes_gives_the_same_messages(
    messages: list[tuple[bool, bytes]], cuts: list[int]
) -> None:
    data = stream_of(messages)
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [data[start:stop] for start, stop in itertools.pairwise(places)]
    reader = MessageReader()
    assert read(reader, *pieces) == messages
    assert reader.is_between


@given(MESSAGES)
def test_bytes_that_come_one_by_one_give_the_same_messages(messages: list[tuple[bool, bytes]]) -> None:
    data = stream_of(messages)
    assert read(MessageReader(), *(data[place : place + 1] for place in range(len(data)))) == messages


def test_only_the_part_that_is_named_is_read() -> None:
    data = b"xx" + framing.prefix(3) + b"abc" + b"yy"
    assert [m.data for m in MessageReader().feed(data, 2, len(data) - 2)] == [b"abc"]


@pytest.mark.parametrize("size", [1, 4, 5, 6, 9])
def test_a_reader_within_a_message_knows_it(size: int) -> None:
    reader = MessageReader()
    assert reader.is_between
    read(reader, (framing.prefix(5) + b"12345")[:size])
    assert not reader.is_between


def test_a_large_message_in_many_parts_is_whole() -> None:
    body = bytes(range(256)) * 4096
    data = framing.prefix(len(body)) + body
    pieces = [data[start : start + 10_007] for start in range(0, len(data), 10_007)]
    assert read(MessageReader(), *pieces) == [Message(compressed=False, data=body)]


def test_a_length_alone_takes_no_memory() -> None:
    reader = MessageReader()
    tracemalloc.start()
    try:
        assert read(reader, framing.prefix(MAX_MESSAGE), b"x" * 1000) == []
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", [MAX_MESSAGE + 1, 2**32 - 1])
def test_a_message_larger_than_grpc_knows_is_refused(size: int) -> None:
    with pytest.raises(Abort, match=f"a message of {size} bytes is larger") as raised:
        read(MessageReader(), struct.pack(">BI", 0, size))
    assert raised.value.status is StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.parametrize("flag", [2, 255])
def test_a_flag_that_means_nothing_is_refused(flag: int) -> None:
    with pytest.raises(Abort, match=f"has the flag {flag}") as raised:
        read(MessageReader(), struct.pack(">BI", flag, 0))
    assert raised.value.status is StatusCode.INTERNAL


def test_messages_before_a_bad_one_are_given_first() -> None:
    reader = MessageReader()
    found: list[bytes] = []
    data = framing.prefix(1) + b"a" + b"\7\0\0\0\0"

    def take() -> None:
        found.extend(bytes(message.data) for message in reader.feed(data, 0, len(data)))

    with pytest.raises(Abort):
        take()
    assert found == [b"a"]


@given(st.binary(max_size=2000), st.sampled_from(["gzip", "deflate"]), st.integers(1, 9))
def test_what_is_compressed_comes_back(data: bytes, encoding: str, level: int) -> None:
    coded = framing.deflate(data, encoding, level)
    assert framing.inflate(coded, encoding, max(len(data), 1)) == data
    assert (gzip.decompress if encoding == "gzip" else zlib.decompress)(coded) == data


@pytest.mark.parametrize(
    ("data", "encoding", "status", "words"),
    [
        (b"x", "", StatusCode.INTERNAL, "grpc-encoding does not say how"),
        (b"x", "snappy", StatusCode.UNIMPLEMENTED, "'snappy' cannot be read; send gzip, deflate or identity"),
        (b"no gzip", "gzip", StatusCode.INTERNAL, "is not compressed as gzip"),
        (zlib.compress(b"abc"), "gzip", StatusCode.INTERNAL, "is not compressed as gzip"),
        (gzip.compress(b"abc", mtime=0)[:-3], "gzip", StatusCode.INTERNAL, "ends too early"),
        (b"", "gzip", StatusCode.INTERNAL, "ends too early"),
        (zlib.compress(b"abc") + b"more", "deflate", StatusCode.INTERNAL, "something behind its end"),
        (gzip.compress(bytes(101), mtime=0), "gzip", StatusCode.RESOURCE_EXHAUSTED, "larger than 100 bytes"),
    ],
)
def test_a_compressed_message_that_cannot_be_read_says_why(
    data: bytes, encoding: str, status: StatusCode, words: str
) -> None:
    with pytest.raises(Abort, match=words) as raised:
        framing.inflate(data, encoding, 100)
    assert raised.value.status is status


def test_a_bomb_is_not_made_whole() -> None:
    bomb = gzip.compress(bytes(50 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge):
            framing.inflate(bomb, "gzip", 1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
