"""Streamed calls: requests and responses, held against the protocol's own messages."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from infer.server.grpc.messages import message
from infer.tui import inference
from infer.tui.client import Client
from infer.tui.failure import ClientError, Kind
from infer.tui.stream import decode, encode

METADATA = {
    "inputs": [
        {"name": "A", "datatype": "INT32", "shape": [-1, 2]},
        {"name": "T", "datatype": "BYTES", "shape": [1]},
    ],
    "outputs": [{"name": "Y", "datatype": "BF16", "shape": [1]}],
}


class FixedClient(Client):
    """A client whose server knows one model."""

    def get(self, path: str) -> dict[str, Any]:
        return METADATA


def sent(given: dict[str, Any], wishes: inference.Wishes | None = None, version: str = "") -> Any:
    request = inference.prepare(FixedClient("http://h:1"), "m", version, given, wishes or inference.Wishes())
    return message("ModelInferRequest").FromString(encode(request))


def test_a_request_names_its_model_and_carries_raw_contents() -> None:
    read = sent({"A": [1, -2, 3, 4], "T": "häh"}, version="2")
    assert (read.model_name, read.model_version, read.id) == ("m", "2", "")
    assert [(one.name, one.datatype, list(one.shape)) for one in read.inputs] == [
        ("A", "INT32", [2, 2]),
        ("T", "BYTES", [1]),
    ]
    assert np.frombuffer(read.raw_input_contents[0], np.int32).tolist() == [1, -2, 3, 4]
    assert read.raw_input_contents[1] == b"\4\0\0\0h\xc3\xa4h"
    assert not read.parameters, "the form of an HTTP reply means nothing here"


def test_a_request_carries_its_id_parameters_and_outputs() -> None:
    wishes = inference.Wishes("7", {"flag": True, "priority": 3, "rate": 0.5, "name": "x"}, ("Y",))
    read = sent({"A": [1, 2]}, wishes)
    assert read.id == "7"
    assert [output.name for output in read.outputs] == ["Y"]
    given = {key: getattr(value, value.WhichOneof("parameter_choice")) for key, value in read.parameters.items()}
    assert given == {"flag": True, "priority": 3, "rate": 0.5, "name": "x"}


def test_a_whole_request_document_is_streamed_too() -> None:
    entry = {"name": "X", "datatype": "FP32", "shape": [1, 2], "data": [0.5, 1]}
    read = sent({"inputs": [entry], "id": "9", "outputs": [{"name": "Y"}], "parameters": {"k": "v"}})
    assert (read.id, read.inputs[0].name, list(read.inputs[0].shape)) == ("9", "X", [1, 2])
    assert np.frombuffer(read.raw_input_contents[0], np.float32).tolist() == [0.5, 1.0]
    assert read.parameters["k"].string_param == "v"


@pytest.mark.parametrize(
    "entry",
    [
        {"name": "X"},
        {"name": "X", "datatype": "FP99", "shape": [1], "data": [1]},
        {"name": "X", "datatype": "FP32", "shape": [3], "data": [1]},
        "X",
    ],
)
def test_a_document_without_data_of_its_own_is_refused(entry: Any) -> None:
    with pytest.raises(ClientError) as caught:
        sent({"inputs": [entry]})
    assert caught.value.kind is Kind.USAGE


def response(**fields: Any) -> bytes:
    return message("ModelStreamInferResponse")(**fields).SerializeToString()


def test_a_response_is_read_with_its_outputs_and_parameters() -> None:
    inner = message("ModelInferResponse")(model_name="m", model_version="3", id="7")
    inner.parameters["triton_final_response"].bool_param = False
    inner.parameters["count"].int64_param = -4
    for name, datatype, shape, raw in (
        ("Y", "FP32", [1, 2], np.array([0.5, 2], np.float32).tobytes()),
        ("T", "BYTES", [1], b"\2\0\0\0ok"),
        ("E", "INT64", [0], b""),
    ):
        inner.outputs.add(name=name, datatype=datatype, shape=shape)
        inner.raw_output_contents.append(raw)
    answer = decode(response(infer_response=inner))
    assert answer.head == {
        "model_name": "m",
        "model_version": "3",
        "id": "7",
        "parameters": {"triton_final_response": False, "count": -4},
    }
    assert [(one.name, one.shape, one.values) for one in answer.tensors] == [
        ("Y", (1, 2), [0.5, 2.0]),
        ("T", (1,), ["ok"]),
        ("E", (0,), []),
    ]
    assert json.dumps(answer.document())


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [("Request for unknown model: 'm' is not found", Kind.NOT_FOUND), ("enough", Kind.FAILED)],
)
def test_a_failure_in_the_stream_is_the_servers_sentence(sentence: str, kind: Kind) -> None:
    with pytest.raises(ClientError) as caught:
        decode(response(error_message=sentence))
    assert (caught.value.why, caught.value.kind) == (sentence, kind)


def test_an_empty_response_is_an_answer_without_outputs() -> None:
    assert decode(b"") == inference.Answer({}, ())


@pytest.mark.parametrize(
    "data",
    [
        b"\xff",
        response(infer_response={"outputs": [{"name": "Y", "datatype": "FP32", "shape": [1]}]}),
        response(
            infer_response={
                "outputs": [{"name": "Y", "datatype": "FP32", "shape": [2]}],
                "raw_output_contents": [b"\0\0\0\0"],
            }
        ),
        response(
            infer_response={
                "outputs": [{"name": "Y", "datatype": "FP99", "shape": [1]}],
                "raw_output_contents": [b"\0"],
            }
        ),
    ],
    ids=["no message", "no contents", "too few contents", "no datatype"],
)
def test_an_answer_that_is_none_is_an_error(data: bytes) -> None:
    with pytest.raises(ClientError, match="cannot be read"):
        decode(data)
