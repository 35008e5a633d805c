"""Cutting and joining agree with protobuf on everything that protobuf can write, and on much that it cannot."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from infer.server.grpc.messages import message
from infer.server.grpc.wire_format import cut_request, field_head, read_length, varint

REQUEST = message("ModelInferRequest")

names = st.text(max_size=5)
blobs = st.binary(max_size=300)


@st.composite
def requests(draw: st.DrawFn) -> Any:
    """Any ModelInferRequest."""
    made = REQUEST(model_name=draw(names), model_version=draw(names), id=draw(names))
    for key, value in draw(st.dictionaries(names, st.integers(0, 9), max_size=2)).items():
        made.parameters[key].int64_param = value
    for name in draw(st.lists(names, max_size=3)):
        made.inputs.add(name=name, datatype="INT32", shape=draw(st.lists(st.integers(-1, 2**40), max_size=3)))
    for name in draw(st.lists(names, max_size=2)):
        made.outputs.add(name=name)
    made.raw_input_contents.extend(draw(st.lists(blobs, max_size=3)))
    return made


@st.composite
def scattered(draw: st.DrawFn) -> bytes:
    """Fields of a request in any order, ids and raw contents among them, as a foreign writer may send them."""
    fields = st.tuples(st.sampled_from([1, 3, 7, 9]), st.binary(max_size=200))
    return b"".join(field_head(number, len(data)) + data for number, data in draw(st.lists(fields, max_size=6)))


def assert_same(data: bytes) -> None:
    """The parts of the cut message are what protobuf reads; nothing is cut that it would not read."""
    cut = cut_request(data)
    try:
        whole = REQUEST.FromString(data)
    except DecodeError:
        if cut is not None:
            with pytest.raises((DecodeError, UnicodeDecodeError)):
                (cut.request_id.decode(), REQUEST.FromString(cut.rest))
        return
    if cut is None:
        return
    assert [data[start:stop] for start, stop in cut.raw] == list(whole.raw_input_contents)
    assert cut.request_id.decode() == whole.id
    del whole.raw_input_contents[:]
    whole.id = ""
    assert REQUEST.FromString(cut.rest) == whole


@given(requests())
def test_what_protobuf_writes_is_cut(made: Any) -> None:
    data = made.SerializeToString()
    cut = cut_request(data)
    assert cut is not None
    assert_same(data)
    if made.raw_input_contents:
        assert 0 <= cut.prefix < cut.raw[0][0]
        assert list(REQUEST.FromString(data[: cut.prefix]).raw_input_contents) == []
        assert REQUEST.FromString(data[cut.prefix :]) == REQUEST(raw_input_contents=made.raw_input_contents)
    else:
        assert cut.prefix == len(data)


@given(scattered())
def test_fields_in_any_order_are_cut_as_protobuf_reads_them(data: bytes) -> None:
    assert_same(data)


@given(st.binary(max_size=60))
def test_rubbish_is_never_taken_for_a_request(data: bytes) -> None:
    assert_same(data)


@given(requests(), st.integers(0, 400))
def test_a_request_that_breaks_off_is_never_taken_for_a_whole_one(made: Any, size: int) -> None:
    assert_same(made.SerializeToString()[:size])


def test_what_stands_behind_the_contents_leaves_no_prefix() -> None:
    raw, name = field_head(7, 1) + b"x", field_head(1, 1) + b"m"
    for data in (raw + name, name + raw + name + raw, raw + field_head(3, 1) + b"i"):
        cut = cut_request(data)
        assert cut is not None
        assert cut.prefix == -1


@pytest.mark.parametrize(
    "data",
    [
        b"\x08\x01",  # a varint
        b"\x0d\0\0\0\0",  # a fixed number
        b"\x0b\x0c",  # a group
        b"\xba\x00\x01x",  # a tag of two bytes
        b"\x3a",  # no length
        b"\x3a\x05abc",  # fewer bytes than the length says
        b"\x3a\xff\xff\xff\xff\xff\xff",  # a length without an end
    ],
    ids=["varint", "fixed", "group", "wide tag", "no length", "short", "endless length"],
)
def test_what_is_unusual_is_left_to_protobuf(data: bytes) -> None:
    assert cut_request(data) is None


def test_a_length_may_be_padded() -> None:
    cut = cut_request(b"\x3a\x81\x80\x00x")
    assert cut is not None
    assert cut.raw == [(4, 5)]


@given(st.integers(0, 2**31 - 1))
def test_a_number_comes_back(number: int) -> None:
    written = varint(number)
    assert read_length(written, 0) == (len(written), len(written) + number)


@given(st.integers(1, 100), st.binary(max_size=300))
def test_a_field_is_written_as_protobuf_does(number: int, content: bytes) -> None:
    text = message("ModelInferResponse")(raw_output_contents=[content]).SerializeToString()
    assert field_head(6, len(content)) + content == text
    assert field_head(number, 0)[-1] == 0
