from __future__ import annotations

import importlib.util
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer.backends.api.datatypes import BY_WIRE_NAME, Datatype, decode_bytes, encode_bytes, split_bytes
from infer.server.repository import schema


def test_numbers_and_names_are_those_of_the_protocol_s_own_enumeration() -> None:
    field = schema.message_class().DESCRIPTOR.fields_by_name["input"].message_type.fields_by_name["data_type"]
    theirs = {value.name: value.number for value in field.enum_type.values if value.name != "TYPE_INVALID"}
    assert {datatype.config_name: datatype.number for datatype in Datatype} == theirs


@pytest.mark.parametrize("datatype", list(Datatype), ids=str)
def test_every_datatype_is_found_by_each_of_its_names(datatype: Datatype) -> None:
    assert Datatype.from_config(datatype.config_name) is datatype
    assert BY_WIRE_NAME[str(datatype)] is datatype
    assert Datatype.from_numpy(datatype.numpy) is datatype
    if datatype is not Datatype.BYTES:
        assert datatype.numpy.itemsize == datatype.itemsize


def test_element_types_agree_with_the_official_client_s() -> None:
    found = importlib.util.find_spec("tritonclient")
    assert found is not None
    root = Path(next(iter(found.submodule_search_locations or ())))
    spec = importlib.util.spec_from_file_location("client_utils", root / "utils" / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    client = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(client)
    for datatype in Datatype:
        if datatype is not Datatype.BF16:  # the client keeps BF16 as FP32 arrays
            assert np.dtype(client.triton_to_np_dtype(datatype.value)) == datatype.numpy


def test_bf16_is_ml_dtypes_bfloat16() -> None:
    assert Datatype.BF16.numpy == np.dtype(ml_dtypes.bfloat16)


@pytest.mark.parametrize("dtype", ["S5", "S", "O"])
def test_bytes_and_object_arrays_are_bytes(dtype: str) -> None:
    assert Datatype.from_numpy(np.dtype(dtype)) is Datatype.BYTES


@pytest.mark.parametrize("dtype", ["U5", "complex64", "datetime64[s]", "V3"])
def test_a_dtype_without_a_wire_form_is_refused_by_name(dtype: str) -> None:
    with pytest.raises(TypeError, match="has no tensor datatype; use a numeric, bool, bytes or object array"):
        Datatype.from_numpy(np.dtype(dtype))


@pytest.mark.parametrize("name", ["TYPE_INVALID", "FP32", "TYPE_FP8"])
def test_an_unknown_config_name_is_a_key_error(name: str) -> None:
    with pytest.raises(KeyError):
        Datatype.from_config(name)


@given(st.lists(st.binary(max_size=20), max_size=8))
def test_bytes_elements_survive_the_wire(elements: list[bytes]) -> None:
    array = np.empty(len(elements), dtype=object)
    array[:] = elements
    wire = encode_bytes(array)
    assert split_bytes(wire) == elements
    assert decode_bytes(memoryview(wire), (len(elements),)).tolist() == elements


def test_text_is_encoded_as_utf8_and_rows_in_c_order() -> None:
    array = np.array([["ä", "b"], ["c", "d"]], dtype=object).T
    assert split_bytes(encode_bytes(array)) == ["ä".encode(), b"c", b"b", b"d"]


@pytest.mark.parametrize(
    ("buffer", "phrase"),
    [
        (b"\x01\x00\x00", "incomplete string length indicator"),
        (b"\x01\x00\x00\x00a\x00", "incomplete string length indicator"),
        (b"\x05\x00\x00\x00ab", "expecting string of length 5 but only 2 bytes available"),
        (b"\xff\xff\xff\xffab", "expecting string of length 4294967295 but only 2"),
    ],
)
def test_malformed_framing_is_an_error_with_both_numbers(buffer: bytes, phrase: str) -> None:
    with pytest.raises(ValueError, match=phrase):
        split_bytes(buffer)


@given(st.binary(max_size=64))
def test_any_buffer_is_either_split_whole_or_refused(buffer: bytes) -> None:
    try:
        elements = split_bytes(buffer)
    except ValueError:
        return
    assert sum(len(element) + 4 for element in elements) == len(buffer)


def test_a_number_of_elements_that_differs_from_the_shape_is_an_error() -> None:
    with pytest.raises(ValueError, match="reshape"):
        decode_bytes(b"\x01\x00\x00\x00a", (2,))
