"""Header blocks are read as hpack writes them, also from memory, and what a call says is found in them."""

from __future__ import annotations

import contextlib
import urllib.parse

import hpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer.server.grpc.transport import headers
from infer.server.grpc.transport.frames import ErrorCode, ProtocolViolation
from infer.server.grpc.transport.headers import HeaderReader, RequestHead, read_fields, read_timeout

NAMES = st.sampled_from(["a", "b", "authorization", "x-long-name-of-a-header"])
VALUES = st.text("abc ", max_size=3)
REQUESTS = st.lists(st.tuples(NAMES, VALUES), max_size=3)


def request(*more: tuple[str, str]) -> list[tuple[str, str]]:
    return [(":method", "POST"), (":path", "/s/m"), ("content-type", "application/grpc"), *more]


@given(st.lists(st.tuples(REQUESTS, st.booleans(), st.none() | st.integers(0, 4096)), max_size=12))
def test_blocks_say_what_was_written_while_the_table_changes(
    requests: list[tuple[list[tuple[str, str]], bool, int | None]],
) -> None:
    encoder, reader = hpack.Encoder(), HeaderReader()
    for metadata, huffman, size in requests:
        if size is not None:
            encoder.header_table_size = size
        for _ in range(2):
            block = encoder.encode(request(*metadata), huffman=huffman)
            assert reader.read(block).metadata == tuple(metadata)


def indexed(name: bytes, value: bytes) -> bytes:
    """A field that enters the table."""
    return b"\x40" + headers.literal(name, value)[1:]


NEWEST = b"\xbe"
"""The field that entered the table last."""


def test_a_block_that_comes_again_is_the_same_head() -> None:
    reader, encoder = HeaderReader(), hpack.Encoder()
    first, second, third = (reader.read(encoder.encode(request(("a", "b")))) for _ in range(3))
    assert first == second == third
    assert second is third


def test_a_known_block_means_something_else_when_the_table_has_changed() -> None:
    reader = HeaderReader()
    reader.read(indexed(b"who", b"one"))
    assert reader.read(NEWEST).metadata == reader.read(NEWEST).metadata == (("who", "one"),)
    reader.read(indexed(b"who", b"two"))
    assert reader.read(NEWEST).metadata == (("who", "two"),)


def test_a_known_block_means_something_else_though_the_table_has_as_many_entries() -> None:
    # A table for one entry: the first of two new ones lies where the old one lay, or the second.
    reader = HeaderReader()
    reader.read(b"\x3f\x1b")  # 58 bytes
    for round_ in range(200):
        values = [b"%020d" % (3 * round_ + place) for place in range(3)]
        reader.read(indexed(b"who", values[0]))
        assert reader.read(NEWEST).metadata == (("who", values[0].decode()),)
        reader.read(indexed(b"who", values[1]) + indexed(b"who", values[2]))
        assert reader.read(NEWEST).metadata == (("who", values[2].decode()),)


def test_a_size_update_makes_known_blocks_unknown() -> None:
    reader = HeaderReader()
    reader.read(indexed(b"who", b"one"))
    reader.read(NEWEST)
    reader.read(b"\x20\x3f\xe1\x1f")  # to nothing, and back to 4096
    with pytest.raises(ProtocolViolation, match="cannot be read"):
        reader.read(NEWEST)


def test_only_so_many_blocks_and_only_small_ones_are_remembered() -> None:
    reader = HeaderReader()
    large = headers.literal(b"a", b"x" * 2000)
    assert reader.read(large) is not reader.read(large)
    for number in range(1000):
        reader.read(headers.literal(b"a", b"%d" % number))
        assert len(reader._heads) <= 128


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(block: bytes) -> None:
    with contextlib.suppress(ProtocolViolation):
        HeaderReader().read(block)


def test_a_header_list_that_is_too_large_is_refused_though_its_block_is_small() -> None:
    reader = HeaderReader()
    reader.read(indexed(b"a", b"x" * 4000))
    with pytest.raises(ProtocolViolation) as raised:
        reader.read(NEWEST * 20)
    assert raised.value.code is ErrorCode.ENHANCE_YOUR_CALM


def fields(**changed: str | None) -> list[tuple[bytes, bytes]]:
    given = {":method": "POST", ":path": "/s/m", "content-type": "application/grpc", **changed}
    return [(key.replace("_", "-").encode(), value.encode()) for key, value in given.items() if value is not None]


def test_what_a_call_says_is_found_in_its_fields() -> None:
    assert read_fields(
        [
            *fields(te="trailers", grpc_timeout="20m", grpc_encoding="gzip", user_agent="me"),
            (b"grpc-accept-encoding", b"identity, deflate,gzip"),
            (b"grpc-trace-bin", b"x"),
            (b"b", b"2"),
            (b"a", b"\xff"),
            (b"b", b"3"),
        ]
    ) == RequestHead(
        "/s/m",
        20_000_000,
        "gzip",
        (("b", "2"), ("a", "\xff"), ("b", "3")),
        "",
        is_grpc=True,
        accepted=frozenset({"identity", "deflate", "gzip"}),
    )
    assert read_fields(fields(grpc_encoding="identity")).encoding == ""


@pytest.mark.parametrize(
    ("changed", "is_grpc"),
    [
        ({}, True),
        ({"content-type": "application/grpc+proto"}, True),
        ({"content-type": "application/grpc;x=y"}, True),
        ({"content-type": "application/grpc-web"}, False),
        ({"content-type": "application/json"}, False),
        ({"content-type": None}, False),
        ({":method": "GET"}, False),
        ({":method": None}, False),
    ],
)
def test_what_is_no_call_is_known(changed: dict[str, str | None], is_grpc: bool) -> None:
    assert read_fields(fields(**changed)).is_grpc is is_grpc


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0n", 0),
        ("1n", 1),
        ("2u", 2_000),
        ("3m", 3_000_000),
        ("4S", 4_000_000_000),
        ("5M", 300_000_000_000),
        ("99999999H", 99_999_999 * 3600 * 10**9),
        ("007S", 7_000_000_000),
        ("100000000n", None),
        ("", None),
        ("5", None),
        ("S", None),
        ("-1S", None),
        ("1.5S", None),
        ("1s", None),
        ("1S ", None),
        ("1S\n", None),
        ("\u0661S", None),
    ],
)
def test_a_timeout_is_a_number_and_a_unit(text: str, expected: int | None) -> None:
    assert read_timeout(text.encode()) == expected
    problem = read_fields(fields(grpc_timeout=text)).problem
    assert (problem == "") == (expected is not None)


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), st.text(st.characters(codec="ascii"), max_size=400)))
def test_a_literal_is_read_by_hpack_and_leaves_the_table_alone(given: dict[str, str]) -> None:
    decoder = hpack.Decoder()
    block = b"".join(headers.literal(name.encode(), value.encode()) for name, value in given.items())
    assert dict(decoder.decode(block, raw=True)) == {k.encode(): v.encode() for k, v in given.items()}
    assert not decoder.header_table.dynamic_entries


@pytest.mark.parametrize("size", [0, 126, 127, 128, 253, 254, 255, 256, 16_510, 16_511, 40_000])
def test_a_literal_of_any_length_is_read_by_hpack(size: int) -> None:
    assert list(hpack.Decoder().decode(headers.literal(b"a", b"x" * size), raw=True)) == [(b"a", b"x" * size)]


def decoded(block: bytes) -> dict[str, str]:
    return dict(hpack.Decoder().decode(block))  # type: ignore[arg-type]


def test_the_blocks_that_answer_are_what_grpc_asks_for() -> None:
    opening = {
        ":status": "200",
        "content-type": "application/grpc",
        "grpc-accept-encoding": "identity, deflate, gzip",
    }
    assert decoded(headers.RESPONSE_HEAD) == opening
    assert decoded(headers.response_head("gzip")) == {**opening, "grpc-encoding": "gzip"}
    assert decoded(headers.OK_TRAILERS) == {"grpc-status": "0"}
    assert decoded(headers.trailers(5, "no", alone=False)) == {"grpc-status": "5", "grpc-message": "no"}
    assert decoded(headers.trailers(5, "", alone=True)) == {**opening, "grpc-status": "5"}
    assert decoded(headers.NOT_GRPC) == {":status": "415"}


@given(st.text(max_size=200))
def test_a_message_is_percent_encoded_as_urllib_reads_it(text: str) -> None:
    coded = headers.percent_encoded(text)
    assert urllib.parse.unquote(coded.decode("ascii")) == text.encode(errors="replace").decode()
    assert all(0x20 <= byte <= 0x7E for byte in coded)


@pytest.mark.parametrize("text", ["x" * 10_000, "é" * 10_000, "%" * 10_000, "x" * 5999 + "é"])
def test_a_long_message_is_cut_between_its_bytes(text: str) -> None:
    coded = headers.percent_encoded(text)
    assert headers.MAX_DETAILS * 3 // 4 < len(coded) <= headers.MAX_DETAILS
    assert text.startswith(urllib.parse.unquote(coded.decode("ascii"), errors="ignore"))
