"""The unmodified Triton clients, sync and asyncio, against a whole server over HTTP."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
import tritonclient.http as sync
from tritonclient.http import aio
from tritonclient.utils import InferenceServerException

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

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
    "FP32": np.array([0.1, -np.inf], dtype=np.float32),
    "FP64": np.array([0.1, 1e300]),
    "BYTES": np.array([b"", b"a\0\xff"], dtype=object),
    "BF16": np.array([1.5, -2], dtype=ml_dtypes.bfloat16),
}
LEFT = np.arange(16, dtype=np.int32).reshape(1, 16)
RIGHT = np.ones((1, 16), dtype=np.int32)

TWICE = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        given = [pb_utils.get_input_tensor_by_name(request, "IN").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", value * 2)]) for value in given]
"""


@pytest.fixture
def client(url: str) -> Iterator[Any]:
    with sync.InferenceServerClient(url) as client:
        yield client


@pytest.fixture
async def async_client(url: str) -> AsyncIterator[Any]:
    async with aio.InferenceServerClient(url) as client:
        yield client


def simple_inputs(module: Any, *, binary: bool = True) -> list[Any]:
    inputs = [module.InferInput(name, [1, 16], "INT32") for name in ("INPUT0", "INPUT1")]
    inputs[0].set_data_from_numpy(LEFT, binary_data=binary)
    inputs[1].set_data_from_numpy(RIGHT, binary_data=binary)
    return inputs


def model_of(datatype: str) -> str:
    return f"ident_{'STRING' if datatype == 'BYTES' else datatype}"


def test_the_server_and_its_models_describe_themselves(client: Any) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("simple")
    assert client.is_model_ready("simple", "1")
    assert not client.is_model_ready("nope")
    assert not client.is_model_ready("simple", "99")
    assert client.get_server_metadata()["name"] == "triton"
    assert client.get_model_metadata("simple")["inputs"][0] == {
        "name": "INPUT0",
        "datatype": "INT32",
        "shape": [-1, 16],
    }
    assert client.get_model_config("simple")["max_batch_size"] == 8
    names = [entry["name"] for entry in client.get_model_repository_index()]
    assert "simple" in names
    before = client.get_inference_statistics("simple", "1")["model_stats"][0]["inference_count"]
    client.infer("simple", simple_inputs(sync))
    assert client.get_inference_statistics("simple")["model_stats"][0]["inference_count"] == before + 1
    assert len(client.get_inference_statistics()["model_stats"]) == len(names)


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("binary_out", [True, False])
def test_every_mixture_of_json_and_binary(client: Any, binary: bool, binary_out: bool) -> None:
    outputs = [sync.InferRequestedOutput(name, binary_data=binary_out) for name in ("OUTPUT0", "OUTPUT1")]
    result = client.infer("simple", simple_inputs(sync, binary=binary), outputs=outputs, request_id="7")
    assert result.get_response()["id"] == "7"
    assert result.get_response()["model_version"] == "1"
    np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), LEFT + RIGHT)
    np.testing.assert_array_equal(result.as_numpy("OUTPUT1"), LEFT - RIGHT)


@pytest.mark.parametrize("datatype", ARRAYS)
def test_every_datatype_comes_back_bit_for_bit(client: Any, datatype: str) -> None:
    array = ARRAYS[datatype]
    given = sync.InferInput("INPUT0", list(array.shape), datatype)
    given.set_data_from_numpy(array)
    answer = client.infer(model_of(datatype), [given]).as_numpy("OUTPUT0")
    assert answer.dtype == array.dtype
    assert answer.tolist() == array.tolist()


@pytest.mark.parametrize("datatype", [name for name in ARRAYS if name not in ("FP16", "BF16", "BYTES")])
def test_every_datatype_that_json_can_carry(client: Any, datatype: str) -> None:
    array = ARRAYS[datatype]
    given = sync.InferInput("INPUT0", list(array.shape), datatype)
    given.set_data_from_numpy(array, binary_data=False)
    outputs = [sync.InferRequestedOutput("OUTPUT0", binary_data=False)]
    assert client.infer(model_of(datatype), [given], outputs=outputs).as_numpy("OUTPUT0").tolist() == array.tolist()


def test_what_json_cannot_carry_is_said(client: Any) -> None:
    given = sync.InferInput("INPUT0", [2], "FP16")
    given.set_data_from_numpy(ARRAYS["FP16"])
    outputs = [sync.InferRequestedOutput("OUTPUT0", binary_data=False)]
    with pytest.raises(InferenceServerException, match="sending FP16 data via JSON is not supported"):
        client.infer("ident_FP16", [given], outputs=outputs)


def test_classification_names_the_digit(client: Any) -> None:
    metadata = client.get_model_metadata("digits")
    (spec,), outputs = metadata["inputs"], metadata["outputs"]
    shape = [1 if size < 0 else size for size in spec["shape"]]
    given = sync.InferInput(spec["name"], shape, spec["datatype"])
    given.set_data_from_numpy(np.zeros(shape, dtype=np.float32))
    output = next(entry for entry in outputs if entry["datatype"] == "FP32")
    wanted = [sync.InferRequestedOutput(output["name"], class_count=3)]
    elements = client.infer("digits", [given], outputs=wanted).as_numpy(output["name"])
    assert elements.shape == (1, 3)
    values = [float(element.split(b":")[0]) for element in elements[0]]
    assert values == sorted(values, reverse=True)


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
def test_compression_both_ways(client: Any, algorithm: str) -> None:
    result = client.infer(
        "simple",
        simple_inputs(sync),
        request_compression_algorithm=algorithm,
        response_compression_algorithm=algorithm,
    )
    np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), LEFT + RIGHT)


@pytest.mark.parametrize(
    ("model", "version", "status", "phrase"),
    [
        ("nope", "", "404", "Request for unknown model: 'nope' is not found"),
        ("simple", "99", "404", "Request for unknown model: 'simple' version 99 is not found"),
        ("simple", "", "400", "expected 2 inputs but got 1 inputs for model 'simple'"),
        ("ident_FP32", "", "400", "unexpected inference input 'INPUT1' for model 'ident_FP32'"),
    ],
)
def test_errors_have_status_and_sentence(client: Any, model: str, version: str, status: str, phrase: str) -> None:
    with pytest.raises(InferenceServerException) as caught:
        client.infer(model, simple_inputs(sync)[1:], model_version=version)
    assert caught.value.status() == status
    assert phrase in str(caught.value.message())


async def test_many_requests_at_once(async_client: Any) -> None:
    calls = [async_client.infer("simple", simple_inputs(aio), request_id=str(index)) for index in range(50)]
    results = await asyncio.gather(*calls)
    assert [result.get_response()["id"] for result in results] == [str(index) for index in range(50)]
    for result in results:
        np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), LEFT + RIGHT)


def test_load_and_unload(client: Any) -> None:
    client.unload_model("ident_UINT8")
    assert not client.is_model_ready("ident_UINT8")
    entry = next(entry for entry in client.get_model_repository_index() if entry["name"] == "ident_UINT8")
    assert (entry["state"], entry["reason"]) == ("UNAVAILABLE", "unloaded")
    with pytest.raises(InferenceServerException, match="Request for unknown model: 'ident_UINT8'"):
        client.get_model_metadata("ident_UINT8")
    assert client.is_server_ready()
    client.load_model("ident_UINT8")
    assert client.is_model_ready("ident_UINT8")
    client.unload_model("nobody_knows_it")


def test_a_load_with_a_configuration_serves_by_it_until_the_model_is_unloaded(client: Any) -> None:
    before = client.get_model_config("simple")
    try:
        client.load_model("simple", config=json.dumps(before))
        assert client.get_model_config("simple") == before, "a configuration that was got can be given back"
        client.load_model("simple", config=json.dumps(before | {"max_batch_size": 2}))
        assert client.get_model_config("simple")["max_batch_size"] == 2
        client.load_model("simple")
        assert client.get_model_config("simple")["max_batch_size"] == 2
    finally:
        client.unload_model("simple")
        client.load_model("simple")
    assert client.get_model_config("simple") == before


def test_a_load_with_files_serves_a_model_that_no_repository_holds(client: Any) -> None:
    config = {
        "backend": "python",
        "input": [{"name": "IN", "data_type": "TYPE_FP32", "dims": [-1]}],
        "output": [{"name": "OUT", "data_type": "TYPE_FP32", "dims": [-1]}],
    }
    client.load_model("fromfiles", config=json.dumps(config), files={"file:3/model.py": TWICE.encode()})
    assert client.is_model_ready("fromfiles", "3")
    given = sync.InferInput("IN", [2], "FP32")
    given.set_data_from_numpy(np.array([1, 2], np.float32))
    assert client.infer("fromfiles", [given]).as_numpy("OUT").tolist() == [2.0, 4.0]
    client.unload_model("fromfiles")
    assert not client.is_model_ready("fromfiles")
    assert "fromfiles" not in [entry["name"] for entry in client.get_model_repository_index()]


@pytest.mark.parametrize(
    ("config", "files", "phrase"),
    [
        ("{not json", {}, "Invalid config override"),
        (None, {"file:1/model.py": b""}, "Load parameter 'config' must be specified for model file override"),
        ("{}", {"file:../../x": b""}, "must stay within model directory"),
        ("{}", {"file:1/" + "x" * 256: b""}, "File name too long"),
    ],
)
def test_a_load_with_bad_overrides_is_refused_and_the_old_one_serves(
    client: Any, config: str | None, files: dict[str, bytes], phrase: str
) -> None:
    with pytest.raises(InferenceServerException) as caught:
        client.load_model("simple", config=config, files=files)
    assert caught.value.status() == "500"
    assert str(caught.value.message()).startswith("failed to load 'simple', failed to poll from model repository")
    assert phrase in str(caught.value.message())
    assert client.is_model_ready("simple")
    assert client.is_server_ready()


async def test_the_asyncio_client_does_it_all_too(async_client: Any) -> None:
    assert await async_client.is_server_live()
    assert await async_client.is_server_ready()
    assert await async_client.is_model_ready("simple")
    assert (await async_client.get_model_config("simple"))["name"] == "simple"
    assert (await async_client.get_inference_statistics("simple"))["model_stats"]
    assert await async_client.get_model_repository_index()
    for binary in (True, False):
        outputs = [aio.InferRequestedOutput("OUTPUT0", binary_data=binary)]
        result = await async_client.infer("simple", simple_inputs(aio, binary=binary), outputs=outputs)
        np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), LEFT + RIGHT)
    with pytest.raises(InferenceServerException, match="Request for unknown model: 'nope' is not found"):
        await async_client.infer("nope", simple_inputs(aio))


@pytest.mark.parametrize("binary", [True, False])
def test_a_large_tensor_both_ways(client: Any, binary: bool) -> None:
    array = np.random.default_rng(3).random(150_528, dtype=np.float32)
    given = sync.InferInput("INPUT0", list(array.shape), "FP32")
    given.set_data_from_numpy(array, binary_data=binary)
    outputs = [sync.InferRequestedOutput("OUTPUT0", binary_data=binary)]
    np.testing.assert_array_equal(client.infer("ident_FP32", [given], outputs=outputs).as_numpy("OUTPUT0"), array)


def test_kserves_health_check_finds_its_keys(url: str) -> None:
    for key in ("live", "ready"):
        with urllib.request.urlopen(f"http://{url}/v2/health/{key}") as response:
            assert json.load(response) == {key: True}
