"""Typed contents become the bytes that raw contents would have been."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from infer.backends.api.datatypes import Datatype
from infer.backends.api.errors import InvalidArgument
from infer.server.grpc.contents import to_bytes
from infer.server.grpc.messages import message


def contents(**fields: Any) -> Any:
    return message("InferTensorContents")(**fields)


@pytest.mark.parametrize(
    ("datatype", "field", "values"),
    [
        ("BOOL", "bool_contents", [True, False]),
        ("INT8", "int_contents", [-128, 127]),
        ("INT16", "int_contents", [-(2**15), 5]),
        ("INT32", "int_contents", [-(2**31), 2**31 - 1]),
        ("INT64", "int64_contents", [-(2**63), 2**63 - 1]),
        ("UINT8", "uint_contents", [0, 255]),
        ("UINT16", "uint_contents", [0, 65535]),
        ("UINT32", "uint_contents", [0, 2**32 - 1]),
        ("UINT64", "uint64_contents", [0, 2**64 - 1]),
        ("FP32", "fp32_contents", [0.5, float("inf")]),
        ("FP64", "fp64_contents", [0.1, 1e300]),
    ],
)
def test_numbers_of_every_datatype(datatype: str, field: str, values: list[Any]) -> None:
    expected = np.array(values, dtype=Datatype(datatype).numpy).tobytes()
    assert to_bytes(contents(**{field: values}), Datatype(datatype), "X", "m") == expected


def test_texts_get_their_lengths() -> None:
    assert to_bytes(contents(bytes_contents=[b"a", b"", b"\xff\0"]), Datatype.BYTES, "X", "m") == (
        b"\1\0\0\0a\0\0\0\0\2\0\0\0\xff\0"
    )


def test_a_number_too_wide_for_its_datatype_loses_what_is_above() -> None:
    assert to_bytes(contents(int_contents=[200, -129]), Datatype.INT8, "X", "m") == b"\xc8\x7f"
    assert to_bytes(contents(uint_contents=[300]), Datatype.UINT8, "X", "m") == b"\x2c"


def test_a_false_value_alone_keeps_its_byte() -> None:
    assert to_bytes(contents(bool_contents=[False]), Datatype.BOOL, "X", "m") == b"\0"
    assert to_bytes(contents(fp64_contents=[0.0] * 40), Datatype.FP64, "X", "m") == bytes(320)


def test_no_field_is_no_bytes() -> None:
    assert to_bytes(contents(), Datatype.FP32, "X", "m") == b""


@pytest.mark.parametrize(
    ("datatype", "field", "named"),
    [
        ("INT32", "fp32_contents", "FP32"),
        ("FP16", "fp32_contents", "FP32"),
        ("BF16", "uint_contents", "UINT32"),
        ("BOOL", "int_contents", "INT32"),
    ],
)
def test_another_field_is_refused_with_both_types(datatype: str, field: str, named: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        to_bytes(contents(**{field: [1]}), Datatype(datatype), "X", "m")
    assert str(caught.value) == (
        f"unexpected explicit tensor data for input tensor 'X' for model 'm' of type '{named}', "
        f"expected datatype '{datatype}'"
    )


def test_two_fields_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="binary data was already supplied for input tensor 'X' for model 'm'"):
        to_bytes(contents(int_contents=[1], fp32_contents=[1]), Datatype.INT32, "X", "m")
