"""`infer call` fits values to a model's inputs and reads what comes back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from infer.tui import inference
from infer.tui.client import Client, Reply
from infer.tui.failure import ClientError, Kind

if TYPE_CHECKING:
    from pathlib import Path

METADATA = {
    "name": "m",
    "inputs": [
        {"name": "A", "datatype": "INT32", "shape": [-1, 4]},
        {"name": "T", "datatype": "BYTES", "shape": [1]},
        {"name": "H", "datatype": "FP16", "shape": [2]},
    ],
    "outputs": [{"name": "Y", "datatype": "FP32", "shape": [1]}],
}


class FixedClient(Client):
    """A client whose server says what a test wants."""

    def get(self, path: str) -> dict[str, Any]:
        assert path == "/v2/models/m"
        return METADATA


def prepared(given: dict[str, Any]) -> inference.Request:
    return inference.prepare(FixedClient("http://h:1"), "m", "", given, "")


def test_a_single_item_gets_a_batch_of_one() -> None:
    (entry,) = prepared({"A": [1, 2, 3, 4]}).document["inputs"]
    assert entry == {"name": "A", "shape": [1, 4], "datatype": "INT32", "data": [1, 2, 3, 4]}


def test_a_flat_list_is_folded_into_rows() -> None:
    (entry,) = prepared({"A": [1, 2, 3, 4, 5, 6, 7, 8]}).document["inputs"]
    assert entry["shape"] == [2, 4]


def test_a_text_is_a_tensor_of_one_text() -> None:
    (entry,) = prepared({"T": "häh"}).document["inputs"]
    assert entry == {"name": "T", "shape": [1], "datatype": "BYTES", "data": ["häh"]}


def test_what_json_cannot_carry_goes_as_bytes() -> None:
    request = prepared({"H": [1.5, 2]})
    assert request.document["inputs"][0]["parameters"] == {"binary_data_size": 4}
    assert np.frombuffer(request.tail[0], np.float16).tolist() == [1.5, 2.0]
    assert request.curl().startswith("#")


def test_a_large_array_goes_as_bytes() -> None:
    request = prepared({"A": np.zeros((1000, 4), np.int32)})
    assert request.document["inputs"][0]["parameters"] == {"binary_data_size": 16000}


def test_the_curl_command_does_the_same() -> None:
    assert prepared({"T": "x"}).curl().startswith("curl -s http://h:1/v2/models/m/infer -d ")


@pytest.mark.parametrize(
    ("given", "phrases"),
    [
        ({"X": 1}, ["no input 'X'", "A, T, H"]),
        ({"A": [1, 2, 3]}, ["[-1, 4]", "[3]"]),
        ({"A": [[1, 2], [3]]}, ["'A' takes INT32"]),
        ({"A": ["x", "y", "z", "w"]}, ["'A' takes INT32"]),
        ({"A": [1.5, 2, 3, 4]}, ["'A' takes INT32"]),
        ({"A": [2**40, 1, 1, 1]}, ["'A' takes INT32"]),
        ({"A": np.zeros(4)}, ["'A' takes INT32"]),
    ],
)
def test_values_that_do_not_fit_are_refused_with_both_sides(given: dict[str, Any], phrases: list[str]) -> None:
    with pytest.raises(ClientError) as caught:
        prepared(given)
    assert caught.value.kind is Kind.USAGE
    for phrase in phrases:
        assert phrase in str(caught.value)


def test_a_whole_request_document_is_sent_as_it_is() -> None:
    document = {"inputs": [{"name": "A"}], "id": "7"}
    assert prepared(document).document == document


def test_an_answer_is_read_from_json_and_from_bytes() -> None:
    outputs = [
        {"name": "J", "datatype": "INT32", "shape": [2], "data": [1, 2]},
        {"name": "B", "datatype": "FP16", "shape": [2], "parameters": {"binary_data_size": 4}},
        {"name": "T", "datatype": "BYTES", "shape": [1], "parameters": {"binary_data_size": 6}},
    ]
    head = json.dumps({"model_name": "m", "outputs": outputs}).encode()
    tail = np.array([0.5, 2], np.float16).tobytes() + b"\x02\0\0\0ok"
    answer = inference.read_answer(Reply(200, {"inference-header-content-length": str(len(head))}, head + tail))
    assert [tensor.values for tensor in answer.tensors] == [[1, 2], [0.5, 2.0], ["ok"]]
    assert answer.document()["model_name"] == "m"
    assert answer.document()["outputs"][1]["data"] == [0.5, 2.0]
    assert answer.text().splitlines()[:2] == ["J  INT32 [2]", "  [1, 2]"]


def test_a_long_output_is_cut_for_people_only() -> None:
    tensor = inference.OutputTensor("Y", "INT32", (100,), list(range(100)))
    answer = inference.Answer({}, (tensor,))
    assert "100 values" in answer.text()
    assert len(answer.document()["outputs"][0]["data"]) == 100


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"outputs":[{}]}'])
def test_an_answer_that_is_none_is_an_error(body: bytes) -> None:
    with pytest.raises(ClientError, match="cannot be read"):
        inference.read_answer(Reply(200, {}, body))


def test_what_the_caller_says_takes_the_place_of_the_metadata() -> None:
    wishes = inference.Wishes(shapes={"A": [4, 1]}, datatypes={"A": "INT64"})
    request = inference.prepare(NobodyAsked("http://h:1"), "m", "", {"A": [1, 2, 3, 4]}, wishes)
    assert request.document["inputs"] == [{"name": "A", "shape": [4, 1], "datatype": "INT64", "data": [1, 2, 3, 4]}]
    assert request.document["parameters"] == {"binary_data_output": True}


class NobodyAsked(Client):
    """A client that must not be used."""

    def get(self, path: str) -> dict[str, Any]:
        pytest.fail(f"asked for {path}")


def test_half_of_it_is_filled_in_from_the_metadata() -> None:
    wishes = inference.Wishes(shapes={"A": [2, 4]})
    request = inference.prepare(FixedClient("http://h:1"), "m", "", {"A": list(range(8)), "T": "x"}, wishes)
    assert [(one["shape"], one["datatype"]) for one in request.document["inputs"]] == [
        ([2, 4], "INT32"),
        ([1], "BYTES"),
    ]
    assert "parameters" not in request.document


@pytest.mark.parametrize(
    ("wishes", "phrase"),
    [
        (inference.Wishes(shapes={"B": [1]}), "no input 'B'"),
        (inference.Wishes(datatypes={"A": "FP99"}, shapes={"A": [4]}), "'FP99' is no datatype"),
        (inference.Wishes(shapes={"A": [3]}), "wrong shape"),
    ],
)
def test_wishes_that_cannot_be_are_usage_errors(wishes: inference.Wishes, phrase: str) -> None:
    with pytest.raises(ClientError) as caught:
        inference.prepare(FixedClient("http://h:1"), "m", "", {"A": [1, 2, 3, 4]}, wishes)
    assert caught.value.kind is Kind.USAGE
    assert phrase in str(caught.value)


def test_id_parameters_and_outputs_go_into_the_document() -> None:
    wishes = inference.Wishes("7", {"priority": 2}, ("Y",))
    document = inference.prepare(FixedClient("http://h:1"), "m", "", {"T": "x"}, wishes).document
    assert (document["id"], document["parameters"], document["outputs"]) == ("7", {"priority": 2}, [{"name": "Y"}])


def test_outputs_are_arrays_that_numpy_can_save(tmp_path: Path) -> None:
    answer = inference.Answer(
        {},
        (
            inference.OutputTensor("F", "FP16", (1, 2), [0.5, 2.0]),
            inference.OutputTensor("B", "BF16", (1,), [1.5]),
            inference.OutputTensor("T", "BYTES", (2,), ["ok", "häh"]),
        ),
    )
    np.savez(tmp_path / "a.npz", **answer.arrays())
    with np.load(tmp_path / "a.npz") as saved:
        assert (saved["F"].dtype, saved["F"].tolist()) == (np.float16, [[0.5, 2.0]])
        assert (saved["B"].dtype, saved["B"].tolist()) == (np.float32, [1.5])
        assert saved["T"].tolist() == [b"ok", "häh".encode()]


class Decoupled(FixedClient):
    """A server whose model does not answer over HTTP."""

    def request(self, *_: Any) -> Reply:
        return Reply(501, {}, b'{"error":"HTTP end point does not support models with decoupled transaction policy"}')


def test_a_model_that_answers_in_a_stream_says_how_it_is_called() -> None:
    request = inference.prepare(Decoupled("http://h:1"), "m", "", {"T": "x"})
    with pytest.raises(ClientError) as caught:
        request.send()
    assert "infer call m --stream" in caught.value.fix
