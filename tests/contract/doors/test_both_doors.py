"""One table of what a client may ask, asked through both doors: they differ in how they say it, in nothing else."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from google.protobuf import json_format
from tritonclient.utils import InferenceServerException

if TYPE_CHECKING:
    from collections.abc import Iterator

LEFT = np.arange(16, dtype=np.int32).reshape(1, 16)
RIGHT = np.ones((1, 16), dtype=np.int32)
NAMES = {
    "INVALID_ARG": ("400", "StatusCode.INVALID_ARGUMENT"),
    "NOT_FOUND": ("404", "StatusCode.NOT_FOUND"),
    "INTERNAL": ("500", "StatusCode.INTERNAL"),
    "UNSUPPORTED": ("501", "StatusCode.UNIMPLEMENTED"),
    "UNAVAILABLE": ("503", "StatusCode.UNAVAILABLE"),
    "CANCELLED": ("400", "StatusCode.CANCELLED"),
    "ALREADY_EXISTS": ("400", "StatusCode.ALREADY_EXISTS"),
    "UNKNOWN": ("400", "StatusCode.UNKNOWN"),
}
"""How each code is called at either door."""

ARRAYS: dict[str, Any] = {
    "BOOL": np.array([True, False]),
    "UINT8": np.array([0, 255], dtype=np.uint8),
    "UINT16": np.array([0, 65535], dtype=np.uint16),
    "UINT32": np.array([0, 2**32 - 1], dtype=np.uint32),
    "UINT64": np.array([0, 2**64 - 1], dtype=np.uint64),
    "INT8": np.array([-128, 127], dtype=np.int8),
    "INT16": np.array([-(2**15), 2**15 - 1], dtype=np.int16),
    "INT32": np.array([-(2**31), 2**31 - 1], dtype=np.int32),
    "INT64": np.array([-(2**63), 2**63 - 1], dtype=np.int64),
    "FP16": np.array([0.5, -2], dtype=np.float16),
    "FP32": np.array([0.1, -np.inf, np.nan], dtype=np.float32),
    "FP64": np.array([0.1, 1e300]),
    "BYTES": np.array([b"", b"a\0\xff"], dtype=object),
    "BF16": np.array([1.5, -2], dtype=ml_dtypes.bfloat16),
}


@dataclass
class Client:
    """An unmodified client of one door, its answers in one shape."""

    module: Any
    client: Any
    is_grpc: bool

    def tensor(self, name: str, array: Any, datatype: str = "", shape: Any = None) -> Any:
        kind = datatype or {"int32": "INT32", "float32": "FP32"}[array.dtype.name]
        given = self.module.InferInput(name, list(array.shape), kind)
        given.set_data_from_numpy(array)
        if shape is not None:
            given.set_shape(shape)
        return given

    def simple(self) -> list[Any]:
        return [self.tensor("INPUT0", LEFT), self.tensor("INPUT1", RIGHT)]

    def outputs(self, *names: str, classes: int = 0) -> list[Any]:
        return [self.module.InferRequestedOutput(name, class_count=classes) for name in names]

    def document(self, answer: Any) -> Any:
        """An answer as the HTTP client gives it."""
        if not self.is_grpc:
            return answer
        return json_format.MessageToDict(
            answer, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )

    def error(self, function: Any, *arguments: Any, **named: Any) -> tuple[str, str]:
        """The code and the sentence of a call that is refused."""
        with pytest.raises(InferenceServerException) as caught:
            function(*arguments, **named)
        status = caught.value.status()
        codes = [name for name, pair in NAMES.items() if pair[self.is_grpc] == status]
        return codes[0], str(caught.value.message())


@pytest.fixture(params=["http", "grpc"])
def door(request: pytest.FixtureRequest, url: str, grpc_url: str) -> Iterator[Client]:
    """A client of each door."""
    is_grpc = request.param == "grpc"
    module = tritonclient.grpc if is_grpc else tritonclient.http
    with module.InferenceServerClient(grpc_url if is_grpc else url) as client:
        yield Client(module, client, is_grpc)


# Inference


@pytest.mark.parametrize("datatype", ARRAYS)
def test_every_datatype_comes_back_bit_for_bit(door: Client, datatype: str) -> None:
    array = ARRAYS[datatype]
    model = f"ident_{'STRING' if datatype == 'BYTES' else datatype}"
    for _ in range(2):
        answer = door.client.infer(model, [door.tensor("INPUT0", array, datatype)]).as_numpy("OUTPUT0")
        assert answer.dtype == array.dtype
        np.testing.assert_array_equal(answer, array)


@pytest.mark.parametrize("request_id", ["", "7", "\N{SNOWMAN}"])
@pytest.mark.parametrize("names", [(), ("OUTPUT1",), ("OUTPUT1", "OUTPUT0")])
def test_outputs_come_in_the_models_order_with_the_id(door: Client, names: tuple[str, ...], request_id: str) -> None:
    for _ in range(2):
        result = door.client.infer("simple", door.simple(), outputs=door.outputs(*names) or None, request_id=request_id)
        document = door.document(result.get_response())
        assert document.get("id", "") == request_id
        assert (document["model_name"], document["model_version"]) == ("simple", "1")
        expected = [name for name in ("OUTPUT0", "OUTPUT1") if not names or name in names]
        assert [output["name"] for output in document["outputs"]] == expected
        for name, array in (("OUTPUT0", LEFT + RIGHT), ("OUTPUT1", LEFT - RIGHT)):
            if name in expected:
                np.testing.assert_array_equal(result.as_numpy(name), array)


def test_an_empty_tensor_keeps_its_shape(door: Client) -> None:
    empty = np.zeros(0, dtype=np.float32)
    assert door.client.infer("ident_FP32", [door.tensor("INPUT0", empty)]).as_numpy("OUTPUT0").shape == (0,)


def test_a_large_tensor_passes_both_ways(door: Client) -> None:
    array = np.random.default_rng(3).random(150_528, dtype=np.float32)
    for _ in range(2):
        result = door.client.infer("ident_FP32", [door.tensor("INPUT0", array)])
        np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), array)


def test_classification_is_the_same_text(door: Client) -> None:
    shape = [max(int(size), 1) for size in _spec(door, "digits", "inputs")["shape"]]
    given = door.tensor(_spec(door, "digits", "inputs")["name"], np.zeros(shape, dtype=np.float32))
    output = next(
        entry for entry in door.document(door.client.get_model_metadata("digits"))["outputs"]
        if entry["datatype"] == "FP32"
    )["name"]  # fmt: skip
    elements = door.client.infer("digits", [given], outputs=door.outputs(output, classes=3)).as_numpy(output)
    assert elements.shape == (1, 3)
    values = [float(element.split(b":")[0]) for element in elements[0]]
    assert values == sorted(values, reverse=True)
    assert all(len(element.split(b":")) == 3 for element in elements[0])


def test_custom_parameters_reach_the_model_with_their_types(door: Client) -> None:
    values = {"s": "x", "i": -3, "b": True, "d": 2.5}
    given = door.tensor("INPUT0", np.ones(1, dtype=np.float32))
    for _ in range(2):
        result = door.client.infer("parameters", [given], parameters=values, request_id="9", priority=1, timeout=500)
        said = json.loads(result.as_numpy("OUTPUT0")[0])
        assert said == {"id": "9", "parameters": values}
        assert {key: type(value) for key, value in said["parameters"].items()} == {
            key: type(value) for key, value in values.items()
        }


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
def test_a_compressed_request_is_taken(door: Client, algorithm: str) -> None:
    option = "compression_algorithm" if door.is_grpc else "request_compression_algorithm"
    result = door.client.infer("simple", door.simple(), **{option: algorithm})
    np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), LEFT + RIGHT)


REFUSED: list[tuple[str, Any, str, str]] = [
    ("unknown model", lambda d: {"model_name": "nope"}, "NOT_FOUND", "Request for unknown model: 'nope' is not found"),
    ("unknown version", lambda d: {"model_version": "99"}, "NOT_FOUND", "version 99 is not found"),
    ("too few", lambda d: {"inputs": d.simple()[:1]}, "INVALID_ARG", "expected 2 inputs but got 1 inputs for model"),
    ("too many", lambda d: {"inputs": [*d.simple(), d.tensor("X", LEFT)]}, "INVALID_ARG", "but got 3 inputs for"),
    ("unknown input", lambda d: {"inputs": [d.simple()[0], d.tensor("X", LEFT)]}, "INVALID_ARG", "inference input 'X'"),
    ("twice", lambda d: {"inputs": [d.simple()[0]] * 2}, "INVALID_ARG", "input 'INPUT0' already exists in request"),
    ("output twice", lambda d: {"outputs": d.outputs("OUTPUT0", "OUTPUT0")}, "INVALID_ARG", "output 'OUTPUT0' already"),
    ("unknown output", lambda d: {"outputs": d.outputs("N")}, "INVALID_ARG", "unexpected inference output 'N'"),
    ("datatype", lambda d: {"inputs": [d.tensor("INPUT0", LEFT.astype(np.float32)), d.simple()[1]]}, "INVALID_ARG",
     "inference input 'INPUT0' data-type is 'FP32', but model 'simple' expects 'INT32'"),
    ("shape", lambda d: {"inputs": [d.tensor("INPUT0", LEFT[:, :8]), d.simple()[1]]}, "INVALID_ARG",
     "unexpected shape for input 'INPUT0' for model 'simple'. Expected [-1,16], got [1,8]"),
    ("batch", lambda d: {"inputs": [d.tensor(n, np.repeat(LEFT, 9, 0)) for n in ("INPUT0", "INPUT1")]}, "INVALID_ARG",
     "inference request batch-size must be <= 8 for 'simple'"),
    ("bytes", lambda d: {"inputs": [d.tensor("INPUT0", LEFT, shape=[2, 16]), d.tensor("INPUT1", LEFT, shape=[2, 16])]},
     "INVALID_ARG", "input byte size mismatch for input 'INPUT0' for model 'simple'. Expected 128, got 64"),
    ("decoupled", lambda d: {"model_name": "repeat"}, "UNSUPPORTED", "doesn't support models with decoupled"),
    ("classes", lambda d: {"model_name": "ident_STRING", "inputs": [d.tensor("INPUT0", ARRAYS["BYTES"], "BYTES")],
     "outputs": d.outputs("OUTPUT0", classes=1)}, "INVALID_ARG", "class result not available for output due to unsup"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "code", "phrase"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_is_wrong_is_said_alike(door: Client, change: Any, code: str, phrase: str) -> None:
    call = {"model_name": "simple", "inputs": door.simple(), "request_id": "42", **change(door)}
    for _ in range(2):
        found, sentence = door.error(door.client.infer, **call)
        assert found == code
        assert phrase in sentence
    np.testing.assert_array_equal(door.client.infer("simple", door.simple()).as_numpy("OUTPUT0"), LEFT + RIGHT)


@pytest.mark.parametrize(
    ("number", "code"),
    [(1, "INTERNAL"), (2, "NOT_FOUND"), (3, "INVALID_ARG"), (4, "UNAVAILABLE"), (5, "UNSUPPORTED"), (7, "CANCELLED")],
)
def test_a_models_own_error_keeps_its_code(door: Client, number: int, code: str) -> None:
    given = door.tensor("INPUT0", np.array([-number], dtype=np.float32))
    # Over HTTP a cancel is a bad request like others.
    expected = code if door.is_grpc or code != "CANCELLED" else "INVALID_ARG"
    assert door.error(door.client.infer, "parameters", [given]) == (expected, "below nothing")


# Everything else


def _spec(door: Client, model: str, which: str) -> Any:
    return door.document(door.client.get_model_metadata(model))[which][0]


def test_health(door: Client) -> None:
    assert door.client.is_server_live()
    assert door.client.is_server_ready()
    assert door.client.is_model_ready("simple")
    assert door.client.is_model_ready("simple", "1")
    assert not door.client.is_model_ready("simple", "99")
    assert not door.client.is_model_ready("nope")


def test_the_server_describes_itself(door: Client) -> None:
    document = door.document(door.client.get_server_metadata())
    assert document["name"] == "triton"
    assert len(document["extensions"]) == 13
    assert document["extensions"][0] == "classification"


@pytest.mark.parametrize("version", ["", "1"])
def test_a_model_describes_itself(door: Client, version: str) -> None:
    document = door.document(door.client.get_model_metadata("simple", version))
    assert (document["name"], document["versions"], document["platform"]) == ("simple", ["1"], "python")
    assert {**document["inputs"][0], "shape": [int(size) for size in document["inputs"][0]["shape"]]} == {
        "name": "INPUT0", "datatype": "INT32", "shape": [-1, 16],
    }  # fmt: skip


def test_a_configuration_is_the_same_document(door: Client, url: str) -> None:
    given = door.document(door.client.get_model_config("simple"))
    config = given["config"] if door.is_grpc else given
    with tritonclient.http.InferenceServerClient(url) as client:
        other = client.get_model_config("simple")
    assert _numbers(config) == _numbers(other)


def _numbers(value: Any) -> Any:
    """A document whose numbers are numbers: protobuf writes those of 64 bits as text."""
    if isinstance(value, dict):
        return {key: _numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    return int(value) if isinstance(value, str) and value.lstrip("-").isdigit() else value


@pytest.mark.parametrize("method", ["get_model_metadata", "get_model_config"])
@pytest.mark.parametrize(
    ("model", "version", "phrase"),
    [("nope", "", "Request for unknown model: 'nope' is not found"), ("simple", "99", "version 99 is not found")],
)
def test_a_model_that_is_not_there_is_not_found(
    door: Client, method: str, model: str, version: str, phrase: str
) -> None:
    code, sentence = door.error(getattr(door.client, method), model, version)
    assert code == "NOT_FOUND"
    assert sentence.startswith("Request for unknown model: ")
    assert phrase in sentence


def test_requests_of_either_door_are_counted(door: Client) -> None:
    def counts() -> tuple[int, int, int, int]:
        stats = door.document(door.client.get_inference_statistics("simple", "1"))["model_stats"][0]
        spans = stats["inference_stats"]
        return tuple(
            int(value)
            for value in (
                stats["inference_count"], stats["execution_count"], spans["success"]["count"], spans["fail"]["count"]
            )
        )  # type: ignore[return-value]  # fmt: skip

    before = counts()
    door.client.infer("simple", [door.tensor(name, np.repeat(LEFT, 4, 0)) for name in ("INPUT0", "INPUT1")])
    assert tuple(after - then for after, then in zip(counts(), before, strict=True)) == (4, 1, 1, 0)


def test_statistics_have_every_member_also_before_the_first_request(door: Client) -> None:
    (stats,) = door.document(door.client.get_inference_statistics("ident_UINT16"))["model_stats"]
    assert set(stats) == {
        "name", "version", "last_inference", "inference_count", "execution_count", "inference_stats",
        "response_stats", "batch_stats", "memory_usage",
    }  # fmt: skip
    assert set(stats["inference_stats"]) == {
        "success", "fail", "queue", "compute_input", "compute_infer", "compute_output", "cache_hit", "cache_miss",
    }  # fmt: skip


def test_statistics_of_what_does_not_serve_are_refused(door: Client) -> None:
    code, sentence = door.error(door.client.get_inference_statistics, "nope")
    assert (code, sentence) == ("INVALID_ARG", "requested model 'nope' is not available")
    assert door.error(door.client.get_inference_statistics, "simple", "99")[0] == "INVALID_ARG"


def test_load_unload_and_the_index(door: Client) -> None:
    def entry() -> tuple[str, str]:
        answer = door.document(door.client.get_model_repository_index())
        found = [item for item in (answer["models"] if door.is_grpc else answer) if item["name"] == "ident_UINT32"]
        return found[0]["state"], found[0].get("reason", "")

    assert entry() == ("READY", "")
    door.client.unload_model("ident_UINT32")
    assert entry() == ("UNAVAILABLE", "unloaded")
    assert not door.client.is_model_ready("ident_UINT32")
    given = door.tensor("INPUT0", ARRAYS["UINT32"], "UINT32")
    code, sentence = door.error(door.client.infer, "ident_UINT32", [given])
    assert (code, sentence) == ("NOT_FOUND", "Request for unknown model: 'ident_UINT32' has no available versions")
    assert door.client.is_server_ready()
    door.client.load_model("ident_UINT32")
    assert entry() == ("READY", "")
    door.client.unload_model("nobody_knows_it")


def test_a_python_model_starts_its_worker_behind_an_open_door(door: Client) -> None:
    """The worker's process comes from one that was started before grpc ran."""
    door.client.unload_model("simple")
    door.client.load_model("simple")
    np.testing.assert_array_equal(door.client.infer("simple", door.simple()).as_numpy("OUTPUT1"), LEFT - RIGHT)


def test_a_load_that_fails_says_why(door: Client) -> None:
    code, sentence = door.error(door.client.load_model, "unknown_model")
    assert code == "INTERNAL"
    assert sentence.startswith("failed to load 'unknown_model', failed to poll from model repository")


GIVEN_CONFIG = {
    "backend": "python",
    "max_batch_size": 2,
    "input": [{"name": "INPUT0", "data_type": "TYPE_INT32", "dims": [1]}],
    "output": [{"name": "OUTPUT0", "data_type": "TYPE_INT32", "dims": ["1"]}],
    "instance_group": [{"kind": "kind_cpu", "count": 1}],
}
GIVEN_MODEL = b"""
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        arrays = [pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", array * 3)]) for array in arrays]
"""


def test_a_model_is_loaded_from_what_the_client_sends_and_unloaded(door: Client) -> None:
    files = {"file:1/model.py": GIVEN_MODEL}
    door.client.load_model("given", config=json.dumps(GIVEN_CONFIG), files=files)
    given = door.tensor("INPUT0", np.array([[7]], dtype=np.int32))
    assert door.client.infer("given", [given]).as_numpy("OUTPUT0").tolist() == [[21]]
    door.client.unload_model("given")
    assert not door.client.is_model_ready("given")


def test_files_without_a_configuration_are_refused(door: Client) -> None:
    code, sentence = door.error(door.client.load_model, "given", files={"file:1/model.py": GIVEN_MODEL})
    assert code == "INTERNAL"
    assert "Load parameter 'config' must be specified for model file override" in sentence


def test_a_configuration_that_is_none_is_refused_and_the_model_serves_on(door: Client) -> None:
    code, sentence = door.error(door.client.load_model, "simple", config='{"no_such_field": 1}')
    assert code == "INTERNAL"
    assert "Invalid config override" in sentence
    assert door.client.is_model_ready("simple")


def test_a_name_that_is_a_path_is_refused(door: Client) -> None:
    code, sentence = door.error(door.client.load_model, "..")
    assert (code, "must not contain path traversal characters" in sentence) == ("INVALID_ARG", True)
