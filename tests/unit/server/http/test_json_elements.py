"""Elements in JSON become a tensor's bytes and come back, for every datatype."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from infer.backends.api import datatypes
from infer.backends.api.datatypes import Datatype
from infer.backends.api.errors import Code, InferError
from infer.backends.api.tensor import Tensor
from infer.server.http import json_elements

LIMIT = 1 << 26


def decode(datatype: str, data: Any, shape: tuple[int, ...] | None = None) -> Tensor:
    kind = Datatype(datatype)
    shape = (len(data),) if shape is None else shape
    return Tensor(kind, shape, json_elements.decode("X", kind, shape, data, LIMIT))


NUMERIC: list[tuple[str, list[Any]]] = [
    ("BOOL", [True, False]),
    ("UINT8", [0, 255]),
    ("UINT16", [0, 65535]),
    ("UINT32", [0, 2**32 - 1]),
    ("UINT64", [0, 2**64 - 1]),
    ("INT8", [-128, 127]),
    ("INT16", [-(2**15), 2**15 - 1]),
    ("INT32", [-(2**31), 2**31 - 1]),
    ("INT64", [-(2**63), 2**63 - 1]),
    ("FP32", [1, 0.5, -2.0]),
    ("FP64", [1, 0.1, 1e300]),
]


@pytest.mark.parametrize(("datatype", "values"), NUMERIC)
def test_numbers_round_trip_exactly(datatype: str, values: list[Any]) -> None:
    tensor = decode(datatype, values)
    assert tensor.byte_size == len(values) * Datatype(datatype).itemsize
    assert json.loads(json_elements.encode(tensor, "X")) == values


@pytest.mark.parametrize(
    "data", [[[1, 2], [3, 4]], [1, 2, 3, 4], [[[1], [2, 3]], 4], [[], [1, 2, 3, 4]], [1, [2, [3, [4]]]]]
)
def test_nesting_need_not_match_the_shape(data: list[Any]) -> None:
    assert decode("INT32", data, (2, 2)).as_numpy().tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(("depth", "accepted"), [(50, True), (100, True), (101, False), (120, False), (900, False)])
def test_nesting_is_limited(depth: int, accepted: bool) -> None:
    data: Any = 7
    for _ in range(depth):
        data = [data]
    if accepted:
        assert decode("INT32", data, (1,)).as_numpy().tolist() == [7]
        return
    with pytest.raises(InferError, match=r"JSON nesting depth exceeds maximum allowed limit \(100\)") as caught:
        decode("INT32", data, (1,))
    assert caught.value.code is Code.INVALID_ARG


@pytest.mark.parametrize(
    ("datatype", "data", "phrase"),
    [
        ("INT32", ["1"], "non-signed-integer as signed-integer"),
        ("INT32", [1.0], "non-signed-integer as signed-integer"),
        ("INT32", [True], "non-signed-integer as signed-integer"),
        ("INT32", [None], "non-signed-integer as signed-integer"),
        ("INT64", [2**63], "non-signed-integer as signed-integer"),
        ("INT64", [-(2**63) - 1], "non-signed-integer as signed-integer"),
        ("UINT8", [-1], "non-unsigned-integer as unsigned-integer"),
        ("UINT64", [2**64], "non-unsigned-integer as unsigned-integer"),
        ("BOOL", [1], "non-boolean as boolean"),
        ("BOOL", [0.0], "non-boolean as boolean"),
        ("FP32", ["x"], "non-number as double"),
        ("FP64", [False], "non-number as double"),
        ("FP64", [{}], "non-number as double"),
    ],
)
def test_an_element_of_the_wrong_type_is_named(datatype: str, data: list[Any], phrase: str) -> None:
    with pytest.raises(InferError) as caught:
        decode(datatype, data)
    assert str(caught.value) == f"Unable to parse 'data': attempt to access JSON {phrase}"
    assert caught.value.code is Code.INTERNAL


def test_too_few_and_too_many_elements_have_tritons_whole_messages() -> None:
    with pytest.raises(InferError) as caught:
        decode("INT32", list(range(15)), (1, 16))
    assert str(caught.value) == "Failed to parse 'data' field: shape does not match true shape"
    assert caught.value.code is Code.INTERNAL
    with pytest.raises(InferError) as caught:
        decode("INT32", list(range(18)), (1, 16))
    assert str(caught.value) == "Unable to parse 'data': Shape does not match true shape of 'data' field"


@pytest.mark.parametrize(
    ("datatype", "value", "kept"), [("UINT8", 300, 44), ("INT8", 200, -56), ("INT32", 2**31, -(2**31))]
)
def test_an_integer_too_wide_for_its_type_is_cut(datatype: str, value: int, kept: int) -> None:
    assert decode(datatype, [value, 1]).as_numpy().tolist() == [kept, 1]


def test_a_double_too_large_for_a_float_is_infinite() -> None:
    assert decode("FP32", [1e39]).as_numpy().tolist() == [math.inf]


@pytest.mark.parametrize("shape", [(0,), (0, 16), (1, 0), ()])
def test_a_shape_of_no_elements_ignores_its_data(shape: tuple[int, ...]) -> None:
    assert json_elements.decode("X", Datatype.INT32, shape, [1, "x"], LIMIT) == b""


@pytest.mark.parametrize("datatype", ["FP16", "BF16"])
def test_half_floats_travel_in_binary_only(datatype: str) -> None:
    with pytest.raises(InferError, match=rf"receiving {datatype} data via JSON is not supported.*for input X"):
        decode(datatype, [1])
    with pytest.raises(InferError, match=rf"sending {datatype} data via JSON is not supported.*for output Y"):
        json_elements.encode(Tensor(Datatype(datatype), (1,), bytes(2)), "Y")


@pytest.mark.parametrize("data", [1, "x", {"a": 1}, None, True])
def test_data_that_is_no_array_is_refused(data: Any) -> None:
    with pytest.raises(InferError, match="Unable to parse 'data'"):
        json_elements.decode("X", Datatype.INT32, (1,), data, LIMIT)


@pytest.mark.parametrize(
    ("shape", "phrase"),
    [
        ((16, 2**60 + 2), "causes total element count to exceed maximum size of"),
        ((4, 2**60 + 2), "byte size overflow for input 'X'"),
        ((2**63,), "contains one or more invalid dimensions"),
        ((1 << 25,), r"JSON input 'X' has a byte_size \(134217728 bytes\) that exceeds the maximum allowed value"),
    ],
)
def test_a_claim_that_is_too_large_is_refused_before_it_is_believed(shape: tuple[int, ...], phrase: str) -> None:
    with pytest.raises(InferError, match=phrase) as caught:
        decode("FP32", [1.0], shape)
    assert caught.value.code is Code.INVALID_ARG


def test_strings_become_length_prefixed_elements_and_come_back() -> None:
    values = ["", "abc", "grüße", "\0", '"\\']
    tensor = decode("BYTES", values)
    assert datatypes.split_bytes(tensor.view) == [value.encode() for value in values]
    assert json.loads(json_elements.encode(tensor, "X")) == values


def test_strings_that_are_no_utf8_pass_through_as_bytes() -> None:
    elements = [b"abc", b'\xff\0"\\\n', b""]
    tensor = Tensor(Datatype.BYTES, (3,), datatypes.encode_bytes(np.array(elements, dtype=object)))
    assert json_elements.encode(tensor, "X") == b'["abc","\xff\\u0000\\"\\\\\\n",""]'


def test_the_number_of_strings_is_left_to_the_core() -> None:
    assert decode("BYTES", ["a"], (2,)).byte_size == 5


def test_strings_over_the_limit_are_refused() -> None:
    with pytest.raises(InferError, match=r"has a byte_size .* that exceeds"):
        json_elements.decode("X", Datatype.BYTES, (1,), ["x" * 20], 20)


def test_a_number_among_strings_is_refused() -> None:
    with pytest.raises(
        InferError, match="Unable to parse JSON bytes array: attempt to access JSON non-string as string"
    ):
        decode("BYTES", ["a", 5])


def test_floats_are_printed_as_the_shortest_double() -> None:
    assert json_elements.encode(Tensor.from_numpy(np.array([0.1, 1.0], dtype=np.float32)), "X") == (
        b"[0.10000000149011612,1.0]"
    )
    assert json_elements.encode(Tensor.from_numpy(np.array([0.1, 1.0])), "X") == b"[0.1,1.0]"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_no_number_is_printed_bare(dtype: Any) -> None:
    values = np.array([np.nan, np.inf, -np.inf, 1.5], dtype=dtype)
    assert json_elements.encode(Tensor.from_numpy(values), "X") == b"[NaN,Infinity,-Infinity,1.5]"


def test_a_buffer_at_an_odd_address_is_read() -> None:
    raw = memoryview(b"x" + np.array([1, -2], dtype=np.int64).tobytes())[1:]
    assert json_elements.encode(Tensor(Datatype.INT64, (2,), raw), "X") == b"[1,-2]"
