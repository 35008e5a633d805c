"""A request's JSON is read in Triton's order and refused in Triton's words."""

from __future__ import annotations

from typing import Any

import pytest

from infer.backends.api.datatypes import Datatype
from infer.backends.api.errors import Code, InferError
from infer.backends.api.model_config import ModelConfig, TensorSpec
from infer.server.http import json_codec
from infer.server.http.json_codec import AS_BYTES, AS_JSON, DecodedRequest, OutputWish, RequestPlan
from infer.server.lifecycle.signature import ModelSignature

SIGNATURE = ModelSignature(ModelConfig("m", inputs=(TensorSpec("X", Datatype.INT32, (-1,)),)))
LIMIT = 1 << 20


def read(document: Any, tail: bytes = b"", decoded: dict[int, memoryview] | None = None) -> DecodedRequest:
    return json_codec.read_request(document, memoryview(tail), SIGNATURE, 1, LIMIT, decoded)


def entry(**members: Any) -> dict[str, Any]:
    return {"name": "X", "shape": [2], "datatype": "INT32", "data": [1, 2], **members}


def without(key: str) -> dict[str, Any]:
    made = entry()
    del made[key]
    return made


def binary(name: str = "X", size: Any = 8, **members: Any) -> dict[str, Any]:
    return {"name": name, "shape": [2], "datatype": "INT32", "parameters": {"binary_data_size": size}, **members}


def test_a_whole_request_is_read() -> None:
    decoded = read(
        {
            "id": "42",
            "model_name": "ignored",
            "parameters": {"priority": 2, "timeout": 5, "sequence_id": 9, "sequence_start": True, "mine": "x"},
            "inputs": [entry(), binary("B")],
            "outputs": [
                {"name": "A"},
                {"name": "B", "parameters": {"binary_data": True}},
                {"name": "C", "parameters": {"classification": 3}},
                {"name": "D", "parameters": {"classification": 0, "binary_data": False}},
            ],
        },
        b"\1\0\0\0\2\0\0\0",
    )
    request = decoded.request
    assert (request.model_name, request.model_version, request.request_id) == ("m", 1, "42")
    assert (request.priority, request.timeout_us, request.correlation_id, request.flags) == (2, 5, 9, 1)
    assert request.parameters == {"mine": "x"}
    assert [tensor.as_numpy().tolist() for tensor in request.inputs.values()] == [[1, 2], [1, 2]]
    assert request.requested_outputs == ("A", "B", "C", "D")
    assert decoded.wishes == {"A": AS_JSON, "B": AS_BYTES, "C": OutputWish(classes=3), "D": AS_JSON}


def test_binary_data_output_is_for_outputs_that_are_not_listed() -> None:
    decoded = read({"inputs": [], "parameters": {"binary_data_output": True}})
    assert (decoded.default, decoded.wishes) == (AS_BYTES, {})
    listed = read({"inputs": [], "parameters": {"binary_data_output": True}, "outputs": [{"name": "A"}]})
    assert listed.wishes == {"A": AS_JSON}


def test_an_empty_list_of_outputs_means_all() -> None:
    assert read({"inputs": [], "outputs": []}).request.requested_outputs == ()


def test_inputs_that_another_process_has_decoded_are_taken_by_position() -> None:
    decoded = read({"inputs": [binary("A"), binary("B")]}, b"bbbbbbbb", {0: memoryview(b"aaaaaaaa")})
    assert [bytes(tensor.view) for tensor in decoded.request.inputs.values()] == [b"aaaaaaaa", b"bbbbbbbb"]


REFUSALS: list[tuple[Any, Code, str]] = [
    ([], Code.INTERNAL, "Unable to parse 'inputs': attempt to access non-existing object member 'inputs'"),
    (5, Code.INTERNAL, "Unable to parse 'inputs': attempt to access non-existing object member 'inputs'"),
    ({}, Code.INTERNAL, "Unable to parse 'inputs': attempt to access non-existing object member 'inputs'"),
    ({"inputs": {}}, Code.INTERNAL, "Unable to parse 'inputs': attempt to access JSON non-array as array"),
    ({"inputs": None}, Code.INTERNAL, "Unable to parse 'inputs': attempt to access JSON non-array as array"),
    ({"inputs": [], "id": 5}, Code.INTERNAL, "Unable to parse 'id': attempt to access JSON non-string as string"),
    ({"inputs": [5]}, Code.INVALID_ARG, "But no field is set"),
    ({"inputs": [without("data")]}, Code.INVALID_ARG, "Input must set only one of the following fields"),
    (
        {"inputs": [entry(parameters={"binary_data_size": 8})]},
        Code.INVALID_ARG,
        "But set 'data' 'binary_data_size'",
    ),
    ({"inputs": [without("name")]}, Code.INTERNAL, "Unable to parse 'name': attempt to access non-existing"),
    ({"inputs": [without("shape")]}, Code.INTERNAL, "Unable to parse 'shape': attempt to access non-existing"),
    ({"inputs": [without("datatype")]}, Code.INTERNAL, "Unable to parse 'datatype': attempt to access non-existing"),
    ({"inputs": [entry(name=5)]}, Code.INTERNAL, "Unable to parse 'name': attempt to access JSON non-string as string"),
    ({"inputs": [entry(datatype=5)]}, Code.INTERNAL, "Unable to parse 'datatype': attempt to access JSON non-string"),
    ({"inputs": [entry(shape="2")]}, Code.INTERNAL, "Unable to parse 'shape': attempt to access JSON non-array as"),
    *[
        (
            {"inputs": [entry(shape=[dim])]},
            Code.INTERNAL,
            "Unable to parse 'shape': attempt to access JSON non-unsigned-integer as unsigned-integer",
        )
        for dim in (-1, "2", 2.0, True, None)
    ],
    ({"inputs": [entry(datatype="FOO")]}, Code.INVALID_ARG, "invalid datatype for input X"),
    ({"inputs": [entry(datatype="int32")]}, Code.INVALID_ARG, "invalid datatype for input X"),
    (
        {"inputs": [binary(datatype="STRING")]},
        Code.INVALID_ARG,
        "inference input 'X' data-type is '<invalid>', but model 'm' expects 'INT32'",
    ),
    (
        {"inputs": [entry(), entry()], "id": "7"},
        Code.INVALID_ARG,
        "[request id: 7] input 'X' already exists in request",
    ),
    ({"inputs": [binary(size=-1)]}, Code.INTERNAL, "Unable to parse 'binary_data_size': attempt to access JSON non-un"),
    ({"inputs": [binary(size="8")]}, Code.INTERNAL, "Unable to parse 'binary_data_size'"),
    (
        {"inputs": [binary(size=2**62)]},
        Code.INVALID_ARG,
        f"unexpected size for input 'X', expecting {2**62 - 8} additional bytes for model 'm'",
    ),
    ({"inputs": [binary(size=4)]}, Code.INVALID_ARG, "unexpected additional input data for model 'm'"),
    (
        {"inputs": [without("data") | {"parameters": {"shared_memory_region": "r", "shared_memory_byte_size": 8}}]},
        Code.NOT_FOUND,
        "Unable to find shared memory region: 'r'",
    ),
    ({"inputs": [binary()], "parameters": []}, Code.INTERNAL, "failed to get request params."),
    ({"inputs": [binary()], "parameters": {"x": {}}}, Code.INVALID_ARG, "parameter 'x' has invalid type"),
    ({"inputs": [binary()], "parameters": {"triton_x": 1}}, Code.INVALID_ARG, "reserved for Triton usage"),
    (
        {"inputs": [binary()], "parameters": {"priority": -1}},
        Code.INTERNAL,
        "Unable to parse 'priority': attempt to access JSON non-unsigned-integer as unsigned-integer",
    ),
    ({"inputs": [binary()], "outputs": {}}, Code.INTERNAL, "Unable to parse 'outputs'"),
    ({"inputs": [binary()], "outputs": [{}]}, Code.INTERNAL, "Unable to parse 'name': attempt to access non-existing"),
    (
        {"inputs": [binary()], "outputs": [{"name": "A"}, {"name": "A"}]},
        Code.INVALID_ARG,
        "[request id: <id_unknown>] output 'A' already exists in request",
    ),
    (
        {"inputs": [binary()], "outputs": [{"name": "A", "parameters": {"classification": -1}}]},
        Code.INTERNAL,
        "Unable to set 'classification': attempt to access JSON non-unsigned-integer as unsigned-integer",
    ),
    (
        {"inputs": [binary()], "outputs": [{"name": "A", "parameters": {"binary_data": 1}}]},
        Code.INTERNAL,
        "Unable to parse 'binary_data': attempt to access JSON non-boolean as boolean",
    ),
    (
        {"inputs": [binary()], "outputs": [{"name": "A", "parameters": {"shared_memory_region": "r"}}]},
        Code.NOT_FOUND,
        "Unable to find shared memory region: 'r'",
    ),
]


@pytest.mark.parametrize(("document", "code", "phrase"), REFUSALS)
def test_a_wrong_request_is_refused(document: Any, code: Code, phrase: str) -> None:
    with pytest.raises(InferError) as caught:
        read(document, bytes(8))
    assert phrase in str(caught.value)
    assert caught.value.code is code


def test_id_comes_before_parameters_before_inputs() -> None:
    with pytest.raises(InferError, match="'id'"):
        read({"id": 1, "parameters": [], "inputs": {}})
    with pytest.raises(InferError, match="request params"):
        read({"parameters": [], "inputs": {}})


def test_a_raw_request_over_the_limit_is_refused() -> None:
    with pytest.raises(InferError, match=r"Raw input has a byte_size \(1048577 bytes\) that exceeds"):
        json_codec.read_raw_request(memoryview(bytes(LIMIT + 1)), SIGNATURE, 1, LIMIT)


def test_a_raw_request_wants_its_outputs_as_bytes() -> None:
    decoded = json_codec.read_raw_request(memoryview(bytes(8)), SIGNATURE, 1, LIMIT)
    assert decoded.default == AS_BYTES
    assert decoded.request.inputs["X"].shape == (2,)


def test_a_plan_repeats_a_request_with_other_tensors() -> None:
    document = {
        "inputs": [binary("A"), binary("B", shape=[1], datatype="INT64")],
        "parameters": {"mine": 1, "priority": 2, "binary_data_output": True},
        "outputs": [{"name": "C", "parameters": {"binary_data": True}}],
    }
    first = read(document, bytes(16))
    assert RequestPlan.suits(first, 16)
    plan = RequestPlan(first, 16)
    tail = bytes(range(16))
    again, expected = plan.read(memoryview(tail)), read(document, tail)
    assert again is not None
    assert [
        (name, tensor.datatype, tensor.shape, bytes(tensor.view)) for name, tensor in again.request.inputs.items()
    ] == [(name, tensor.datatype, tensor.shape, bytes(tensor.view)) for name, tensor in expected.request.inputs.items()]
    again.request.inputs, expected.request.inputs = {}, {}
    assert again.request.form is plan
    again.request.form = None
    assert again == expected
    assert plan.read(memoryview(bytes(15))) is None


def test_what_one_request_changes_does_not_reach_the_next() -> None:
    first = read({"inputs": [binary()], "parameters": {"mine": 1}}, bytes(8))
    plan = RequestPlan(first, 8)
    one = plan.read(memoryview(bytes(8)))
    assert one is not None
    one.request.parameters["mine"] = 2
    one.request.batch_size = 5
    two = plan.read(memoryview(bytes(8)))
    assert two is not None
    assert (two.request.parameters, two.request.batch_size) == ({"mine": 1}, 1)


@pytest.mark.parametrize(
    "members",
    [
        {"inputs": [entry()]},
        {"inputs": [binary()], "id": "7"},
        {"inputs": [binary()], "parameters": {"sequence_id": 1}},
    ],
)
def test_a_request_that_is_one_of_its_kind_has_no_plan(members: dict[str, Any]) -> None:
    tail = bytes(8) if "data" not in members["inputs"][0] else b""
    assert not RequestPlan.suits(read(members, tail), len(tail))
