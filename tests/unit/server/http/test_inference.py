"""Inference over HTTP in every mixture of JSON and binary, in front of an engine that answers at once."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from infer.backends.api.datatypes import Datatype, encode_bytes
from infer.backends.api.tensor import Tensor
from infer.server.http import json_text

if TYPE_CHECKING:
    from collections.abc import Callable

SIMPLE = "/v2/models/simple/infer"
SIXTEEN = np.arange(16, dtype=np.int32)


def split(answer: Any) -> tuple[dict[str, Any], bytes]:
    """The JSON of a binary reply and the bytes behind it."""
    assert answer.headers["content-type"] == "application/octet-stream"
    size = int(answer.headers["inference-header-content-length"])
    return json.loads(answer.body[:size]), answer.body[size:]


def test_json_in_json_out(door: Any, two_inputs: list[dict[str, Any]]) -> None:
    answer = door.infer("simple", two_inputs)
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert "inference-header-content-length" not in answer.headers
    assert answer.body == (
        b'{"model_name":"simple","model_version":"1","outputs":['
        b'{"name":"OUTPUT0","datatype":"INT32","shape":[1,16],"data":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]},'
        b'{"name":"OUTPUT1","datatype":"INT32","shape":[1,16],"data":[-1,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14]}]}'
    )


def test_the_id_is_echoed_where_there_is_one(door: Any, two_inputs: list[dict[str, Any]]) -> None:
    assert door.infer("simple", two_inputs, id="42").body.startswith(b'{"id":"42","model_name":"simple",')
    assert "id" not in door.infer("simple", two_inputs, id="").json


def test_binary_in_binary_out(door: Any, binary_request: tuple[bytes, dict[str, str]]) -> None:
    for _ in range(3):
        head, tail = split(door.post(SIMPLE, *binary_request))
        assert [output["parameters"] for output in head["outputs"]] == [{"binary_data_size": 64}] * 2
        assert tail == (SIXTEEN + 1).tobytes() + (SIXTEEN - 1).tobytes()


def test_a_repeated_request_with_a_wrong_tail_is_still_refused(
    door: Any, binary_request: tuple[bytes, dict[str, str]]
) -> None:
    body, headers = binary_request
    assert door.post(SIMPLE, body, headers).status == 200
    answer = door.post(SIMPLE, body[:-28], headers)
    assert (answer.status, answer.error) == (
        400,
        "unexpected size for input 'INPUT1', expecting 28 additional bytes for model 'simple'",
    )
    answer = door.post(SIMPLE, body + b"xx", headers)
    assert answer.error == "unexpected additional input data for model 'simple'"


def test_a_model_that_is_loaded_anew_is_described_anew(door: Any, binary_request: tuple[bytes, dict[str, str]]) -> None:
    assert split(door.post(SIMPLE, *binary_request))[0]["model_version"] == "1"
    old = door.engine.models["simple"]
    door.engine.models["simple"] = type(old)(**{**vars(old), "version": 2})
    assert split(door.post(SIMPLE, *binary_request))[0]["model_version"] == "2"


def test_every_mixture_of_outputs(door: Any, two_inputs: list[dict[str, Any]]) -> None:
    wanted = [{"name": "OUTPUT0", "parameters": {"binary_data": True}}, {"name": "OUTPUT1"}]
    head, tail = split(door.infer("simple", two_inputs, outputs=wanted))
    assert head["outputs"][0]["parameters"] == {"binary_data_size": 64}
    assert head["outputs"][1]["data"] == (SIXTEEN - 1).tolist()
    assert tail == (SIXTEEN + 1).tobytes()
    one = door.infer("simple", two_inputs, outputs=[{"name": "OUTPUT1"}]).json
    assert [output["name"] for output in one["outputs"]] == ["OUTPUT1"]
    mixed = door.infer(
        "simple",
        two_inputs,
        parameters={"binary_data_output": True},
        outputs=[{"name": "OUTPUT1", "parameters": {"binary_data": False}}, {"name": "OUTPUT0"}],
    ).json
    assert [output["name"] for output in mixed["outputs"]] == ["OUTPUT0", "OUTPUT1"]
    assert all("data" in output for output in mixed["outputs"])


def test_mixed_inputs(door: Any, two_inputs: list[dict[str, Any]]) -> None:
    first = {"name": "INPUT0", "shape": [1, 16], "datatype": "INT32", "parameters": {"binary_data_size": 64}}
    head = json.dumps({"inputs": [first, two_inputs[1]]}).encode()
    headers = {"inference-header-content-length": str(len(head))}
    answer = door.post(SIMPLE, head + SIXTEEN.tobytes(), headers)
    assert answer.json["outputs"][0]["data"] == (SIXTEEN + 1).tolist()


@pytest.mark.parametrize("datatype", [member for member in Datatype if member is not Datatype.BYTES])
def test_every_datatype_comes_back_bit_for_bit(door: Any, datatype: Datatype) -> None:
    raw = bytes([0, 1] * 8) if datatype is Datatype.BOOL else bytes(range(240, 256))
    count = len(raw) // datatype.itemsize
    entry = {"name": "INPUT0", "shape": [count], "datatype": str(datatype), "parameters": {"binary_data_size": 16}}
    head = json.dumps({"inputs": [entry], "parameters": {"binary_data_output": True}}).encode()
    answer = door.post(
        f"/v2/models/ident_{datatype}/infer", head + raw, {"Inference-Header-Content-Length": str(len(head))}
    )
    described, tail = split(answer)
    assert described["outputs"][0] == {
        "name": "OUTPUT0", "datatype": str(datatype), "shape": [count], "parameters": {"binary_data_size": 16},
    }  # fmt: skip
    assert tail == raw


def test_strings_travel_both_ways(door: Any) -> None:
    elements = ["", "a\0b", "grüße"]
    entry = {"name": "INPUT0", "shape": [3], "datatype": "BYTES", "data": elements}
    assert door.infer("ident_BYTES", [entry]).json["outputs"][0]["data"] == elements
    wanted = [{"name": "OUTPUT0", "parameters": {"binary_data": True}}]
    _, tail = split(door.infer("ident_BYTES", [entry], outputs=wanted))
    assert tail == encode_bytes(np.array(elements, dtype=object))


def test_a_reply_of_empty_tensors_only_is_json(door: Any) -> None:
    entry = {"name": "INPUT0", "shape": [0], "datatype": "FP32", "data": []}
    answer = door.infer("ident_FP32", [entry], parameters={"binary_data_output": True})
    assert answer.headers["content-type"] == "application/json"
    assert "inference-header-content-length" not in answer.headers
    assert answer.json["outputs"][0]["parameters"] == {"binary_data_size": 0}
    assert door.infer("ident_FP32", [entry]).json["outputs"][0] == {
        "name": "OUTPUT0", "datatype": "FP32", "shape": [0], "data": [],
    }  # fmt: skip


def test_response_parameters_keep_their_types(door: Any) -> None:
    entry = {"name": "INPUT0", "shape": [1], "datatype": "FP32", "data": [1]}
    given = {"s": "x", "i": 2**63, "b": True, "f": 0.5}
    answer = door.infer("ident_FP32", [entry], parameters=given, id="1")
    assert list(answer.json) == ["id", "model_name", "model_version", "parameters", "outputs"]
    assert answer.json["parameters"] == given


def test_classification_with_labels_in_json_and_binary(door: Any, two_inputs: list[dict[str, Any]]) -> None:
    wish = {"classification": 3}
    answer = door.infer("simple", two_inputs, outputs=[{"name": "OUTPUT0", "parameters": wish}])
    assert answer.json["outputs"] == [
        {
            "name": "OUTPUT0",
            "datatype": "BYTES",
            "shape": [1, 3],
            "data": ["16:15:label15", "15:14:label14", "14:13:label13"],
        }
    ]
    head, tail = split(
        door.infer("simple", two_inputs, outputs=[{"name": "OUTPUT1", "parameters": {**wish, "binary_data": True}}])
    )
    assert head["outputs"][0]["shape"] == [1, 3]
    assert tail == encode_bytes(np.array([b"14:15", b"13:14", b"12:13"], dtype=object))


def test_classification_of_strings_is_refused(door: Any) -> None:
    entry = {"name": "INPUT0", "shape": [1], "datatype": "BYTES", "data": ["a"]}
    wanted = [{"name": "OUTPUT0", "parameters": {"classification": 1}}]
    answer = door.infer("ident_BYTES", [entry], outputs=wanted)
    assert (answer.status, answer.error) == (
        400,
        "class result not available for output due to unsupported type 'BYTES'",
    )


@pytest.mark.parametrize(
    ("name", "body", "shape", "tail"),
    [
        ("ident_FP32", bytes(16), [4], bytes(16)),
        ("batched", bytes(16), [1, 4], bytes(16)),
        ("text", b"427", [1], b"\x03\x00\x00\x00427"),
    ],
)
def test_a_raw_binary_request_is_answered_in_binary(
    door: Any, name: str, body: bytes, shape: list[int], tail: bytes
) -> None:
    answer = door.post(f"/v2/models/{name}/infer", body, {"Inference-Header-Content-Length": "0"})
    head, got = split(answer)
    assert (head["outputs"][0]["shape"], got) == (shape, tail)


def test_an_empty_body_is_an_empty_raw_request(door: Any) -> None:
    answer = door.call("POST", SIMPLE)
    assert answer.status == 400
    assert "Raw request must only have 1 input (found 1) to be deduced but got 2 inputs in 'simple'" in answer.error
    answer = door.call("POST", "/v2/models/ident_FP32/infer")
    assert answer.json["outputs"][0]["shape"] == [0]


@pytest.mark.parametrize(
    ("header", "phrase"),
    [
        ("abc", "Unable to parse Inference-Header-Content-Length, got: abc"),
        ("1_0", "Unable to parse Inference-Header-Content-Length, got: 1_0"),
        ("99999999999", "value is out of range [ -2147483648, 2147483647 ], got: 99999999999"),
        ("9" * 5000, "value is out of range"),
        ("-5", "inference header size should be in range (0, 335), got: -5"),
        ("100000", "inference header size should be in range (0, 335), got: 100000"),
    ],
)
def test_a_wrong_header_length_is_refused(
    door: Any, binary_request: tuple[bytes, dict[str, str]], header: str, phrase: str
) -> None:
    body, _ = binary_request
    answer = door.post(SIMPLE, body, {"Inference-Header-Content-Length": header})
    assert answer.status == 400
    assert phrase.replace("335", str(len(body))) in answer.error
    door.assert_healthy()


def test_a_header_length_that_cuts_the_json_is_a_parse_error(
    door: Any, binary_request: tuple[bytes, dict[str, str]]
) -> None:
    answer = door.post(SIMPLE, binary_request[0], {"Inference-Header-Content-Length": "10"})
    assert answer.status == 500
    assert answer.error.startswith("failed to parse the request JSON buffer: ")


def test_a_binary_body_without_its_header_is_refused(door: Any, binary_request: tuple[bytes, dict[str, str]]) -> None:
    assert door.post(SIMPLE, binary_request[0]).status in (400, 500)


@pytest.mark.parametrize(
    ("path", "status", "phrase"),
    [
        ("/v2/models/nope/infer", 404, "Request for unknown model: 'nope' is not found"),
        ("/v2/models/simple/versions/2/infer", 404, "Request for unknown model: 'simple' version 2 is not found"),
        (f"/v2/models/simple/versions/{2**63}/infer", 400, "failed to get model version"),
        ("/v2/models/decoupled/infer", 501, "doesn't support models with decoupled transaction policy"),
    ],
)
def test_the_model_is_looked_at_before_the_body(door: Any, path: str, status: int, phrase: str) -> None:
    answer = door.post(path, b"{malformed", {"Content-Encoding": "br"})
    assert answer.status == status
    assert phrase in answer.error
    assert len(door.engine.refused) == 1


@pytest.mark.parametrize(
    ("body", "status", "phrase"),
    [
        (b"hello", 500, "failed to parse the request JSON buffer: "),
        (b"[]", 500, "Unable to parse 'inputs'"),
        (b"[" * 100_000 + b"]" * 100_000, 400, "JSON nesting depth exceeds maximum allowed limit (100)"),
        (b"[" * 250_000, 400, "JSON nesting depth exceeds maximum allowed limit (100)"),
        (b'{"inputs":[{"name":"X","shape":[1],"datatype":"INT32","data":' + b"[" * 120 + b"1" + b"]" * 120 + b"}]}",
         400, "JSON nesting depth exceeds maximum allowed limit (100)"),
    ],
)  # fmt: skip
def test_json_that_cannot_be_read_is_refused_and_survived(door: Any, body: bytes, status: int, phrase: str) -> None:
    answer = door.post(SIMPLE, body)
    assert answer.status == status
    assert phrase in answer.error
    door.assert_healthy()


def test_what_the_core_refuses_is_told_in_its_words(door: Any, two_inputs: list[dict[str, Any]]) -> None:
    answer = door.infer("simple", two_inputs[:1], id="9")
    assert answer.status == 400
    assert answer.error.startswith("[request id: 9] expected 2 inputs but got 1 inputs for model 'simple'")


def test_a_failing_model_is_an_internal_error(door: Any) -> None:
    entry = {"name": "INPUT0", "shape": [1], "datatype": "FP32", "data": [1]}
    answer = door.infer("raises", [entry])
    assert (answer.status, answer.error) == (500, "ValueError: boom from execute")


def test_the_content_type_of_a_request_does_not_matter(door: Any, two_inputs: list[dict[str, Any]]) -> None:
    body = json.dumps({"inputs": two_inputs}).encode()
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        assert door.post(SIMPLE, body, {"Content-Type": kind}).status == 200


def test_floats_that_are_no_numbers_go_round_in_json(door: Any) -> None:
    body = b'{"inputs":[{"name":"INPUT0","shape":[3],"datatype":"FP32","data":[NaN,Infinity,-Infinity]}]}'
    answer = door.post("/v2/models/ident_FP32/infer", body)
    assert b'"data":[NaN,Infinity,-Infinity]' in answer.body


def test_strings_that_are_no_utf8_go_round_as_bytes(door: Any) -> None:
    body = b'{"id":"\xff","inputs":[{"name":"INPUT0","shape":[1],"datatype":"BYTES","data":["\xff\xfe"]}]}'
    answer = door.post("/v2/models/ident_BYTES/infer", body)
    assert answer.status == 200
    assert answer.body.startswith(b'{"id":"\xff",')
    assert b'"data":["\xff\xfe"]' in answer.body


class TestCompression:
    """Only inference decompresses requests and compresses replies."""

    @pytest.mark.parametrize(("coding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
    def test_the_header_length_counts_decompressed_json(
        self, door: Any, binary_request: tuple[bytes, dict[str, str]], coding: str, pack: Callable[[bytes], bytes]
    ) -> None:
        body, headers = binary_request
        answer = door.post(SIMPLE, pack(body), {**headers, "Content-Encoding": coding})
        assert answer.status == 200
        assert split(answer)[1][:64] == (SIXTEEN + 1).tobytes()

    @pytest.mark.parametrize(("coding", "window"), [("gzip", 31), ("deflate", 15)])
    def test_a_reply_is_compressed_for_who_asks(
        self, door: Any, binary_request: tuple[bytes, dict[str, str]], coding: str, window: int
    ) -> None:
        body, headers = binary_request
        plain = door.post(SIMPLE, body, headers)
        answer = door.post(SIMPLE, body, {**headers, "Accept-Encoding": coding})
        assert answer.headers["content-encoding"] == coding
        assert answer.headers["inference-header-content-length"] == plain.headers["inference-header-content-length"]
        assert zlib.decompress(answer.body, window) == plain.body

    def test_errors_and_other_routes_are_never_compressed(self, door: Any) -> None:
        for answer in (
            door.post(SIMPLE, b"{", {"Accept-Encoding": "gzip"}),
            door.call("GET", "/v2", headers={"Accept-Encoding": "gzip"}),
            door.call("GET", "/v2/models/stats", headers={"Accept-Encoding": "gzip"}),
        ):
            assert "content-encoding" not in answer.headers
            assert answer.json

    def test_an_unknown_coding_is_answered_with_the_known_ones(self, door: Any) -> None:
        answer = door.post(SIMPLE, b"{}", {"Content-Encoding": "br"})
        assert (answer.status, answer.error) == (501, "Unsupported compression type")
        assert answer.headers["accept-encoding"] == "gzip, deflate"

    @pytest.mark.parametrize("body", [b"", b"garbage", gzip.compress(b'{"inputs":[]}', mtime=0)[:-4]])
    def test_a_broken_body_is_refused(self, door: Any, body: bytes) -> None:
        assert door.post(SIMPLE, body, {"Content-Encoding": "gzip"}).status == 400
        door.assert_healthy()


class TestLimits:
    """What is over --http-max-input-size is refused; the binary tail is not measured."""

    def test_json_is_limited(self, make_door: Callable[..., Any]) -> None:
        answer = make_door(max_input_size=1000).post(SIMPLE, b" " * 1001)
        assert answer.status == 400
        assert answer.error == (
            "request JSON size of 1001 bytes exceeds the maximum allowed input size of 1000 bytes. "
            "Use --http-max-input-size to increase the limit."
        )

    def test_a_raw_request_is_limited(self, make_door: Callable[..., Any]) -> None:
        door = make_door(max_input_size=1000)
        answer = door.post("/v2/models/ident_FP32/infer", bytes(1004), {"Inference-Header-Content-Length": "0"})
        assert answer.status == 400
        assert "Raw input has a byte_size (1004 bytes) that exceeds" in answer.error

    def test_an_input_in_json_is_limited_once_it_is_expanded(self, make_door: Callable[..., Any]) -> None:
        entry = {"name": "INPUT0", "shape": [200], "datatype": "FP64", "data": [0] * 200}
        answer = make_door(max_input_size=1000).infer("ident_FP64", [entry])
        assert answer.status == 400
        assert "JSON input 'INPUT0' has a byte_size (1600 bytes) that exceeds the maximum allowed value" in answer.error

    def test_a_binary_tail_is_not(self, make_door: Callable[..., Any]) -> None:
        size = 3 << 20
        entry = {"name": "INPUT0", "shape": [size], "datatype": "UINT8", "parameters": {"binary_data_size": size}}
        head = json.dumps({"inputs": [entry], "parameters": {"binary_data_output": True}}).encode()
        raw = np.random.default_rng(1).bytes(size)
        answer = make_door(max_input_size=1000).post(
            "/v2/models/ident_UINT8/infer", head + raw, {"Inference-Header-Content-Length": str(len(head))}
        )
        assert split(answer)[1] == raw


def test_every_output_is_given_back_once_it_is_sent(door: Any) -> None:
    released: list[str] = []
    raw = np.random.default_rng(2).bytes(1 << 20)

    def slab(request: Any) -> Any:
        from infer.backends.api.response import InferenceResponse

        tensor = Tensor(Datatype.UINT8, (len(raw),), raw, release=lambda: released.append("OUTPUT0"))
        return InferenceResponse({"OUTPUT0": tensor})

    door.engine.behaviours["ident_UINT8"] = slab
    entry = {"name": "INPUT0", "shape": [1], "datatype": "UINT8", "data": [1]}
    answer = door.infer("ident_UINT8", [entry], parameters={"binary_data_output": True})
    assert split(answer)[1] == raw
    door.assert_healthy()
    assert released == ["OUTPUT0"]
    door.infer("ident_UINT8", [entry], outputs=[{"name": "OUTPUT0", "parameters": {"binary_data": "x"}}])
    assert released == ["OUTPUT0"]


def test_the_documents_of_replies_are_json(door: Any, two_inputs: list[dict[str, Any]]) -> None:
    body = door.infer("simple", two_inputs, id='quote " and \\ and \n').body
    assert json_text.load(body)["id"] == 'quote " and \\ and \n'
