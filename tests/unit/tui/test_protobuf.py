"""Protobuf's wire format, held against the library that clients use."""

from __future__ import annotations

import pytest
from google.protobuf import struct_pb2
from hypothesis import given
from hypothesis import strategies as st

from infer.tui import protobuf

NUMBERS = st.integers(-(2**63), 2**63 - 1)


@given(NUMBERS)
def test_a_number_comes_back(number: int) -> None:
    data = protobuf.varint(number)
    read, position = protobuf.read_varint(memoryview(data), 0)
    assert (protobuf.signed(read), position) == (number, len(data))
    assert len(data) <= 10


@given(st.lists(NUMBERS, max_size=8))
def test_packed_numbers_come_back(numbers: list[int]) -> None:
    assert protobuf.unpacked(memoryview(protobuf.packed(numbers))) == numbers


def test_numbers_that_are_not_packed_come_one_by_one() -> None:
    ((number, value),) = protobuf.fields(memoryview(protobuf.field(3, 7)))
    assert (number, protobuf.unpacked(value)) == (3, [7])


@given(st.text("aä€😀", max_size=80), st.binary(max_size=300))
def test_texts_and_bytes_come_back(text: str, data: bytes) -> None:
    message = protobuf.field(1, text) + protobuf.field(200, data)
    (first, one), (second, two) = protobuf.fields(memoryview(message))
    assert isinstance(one, memoryview)
    assert isinstance(two, memoryview)
    assert (first, str(one, "utf-8"), second, bytes(two)) == (1, text, 200, data)


def test_what_the_library_writes_is_read() -> None:
    message = struct_pb2.Value(number_value=0.5).SerializeToString()
    ((number, value),) = protobuf.fields(memoryview(message))
    assert isinstance(value, memoryview)
    assert (number, len(value)) == (2, 8)


def test_what_is_written_the_library_reads() -> None:
    message = struct_pb2.Value()
    message.ParseFromString(protobuf.field(3, "häh"))
    assert message.string_value == "häh"


@pytest.mark.parametrize("value", [True, False, 0, -5, 2**40, 0.25, "text", ""])
def test_a_parameter_comes_back_with_its_type(value: bool | float | str) -> None:
    name, read = protobuf.read_parameter(memoryview(protobuf.parameter("key", value)))
    assert (name, read, type(read)) == ("key", value, type(value))


@pytest.mark.parametrize(
    ("data", "phrase"),
    [
        (b"\x80", "does not end"),
        (b"\xff" * 11, "does not end"),
        (b"\x0a\x05ab", "in the middle of a field"),
        (b"\x0d\x00", "in the middle of a field"),
        (b"\x0b", "of kind 3"),
    ],
)
def test_what_is_no_message_is_refused(data: bytes, phrase: str) -> None:
    with pytest.raises(ValueError, match=phrase):
        list(protobuf.fields(memoryview(data)))
