from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

from infer.backends.api.backend import InstanceSpec
from infer.backends.api.datatypes import Datatype
from infer.backends.api.errors import BackendFailure, InvalidArgument, LoadFailed
from infer.backends.api.model_config import InstanceKind
from infer.backends.api.request import InferenceRequest
from infer.backends.api.tensor import Tensor
from infer.backends.onnxruntime.backend import OnnxRuntimeBackend

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

ELEMENTS = {
    "BOOL": "BOOL",
    "UINT8": "UINT8",
    "UINT16": "UINT16",
    "UINT32": "UINT32",
    "UINT64": "UINT64",
    "INT8": "INT8",
    "INT16": "INT16",
    "INT32": "INT32",
    "INT64": "INT64",
    "FP16": "FLOAT16",
    "FP32": "FLOAT",
    "FP64": "DOUBLE",
    "BYTES": "STRING",
    "BF16": "BFLOAT16",
}


def values(datatype: Datatype, shape: tuple[int, ...]) -> NDArray[Any]:
    numbers = np.arange(np.prod(shape)).reshape(shape)
    if datatype is Datatype.BYTES:
        return np.array([f"é\x00{number}".encode() for number in numbers.ravel()], dtype=object).reshape(shape)
    return (numbers % 2).astype(bool) if datatype is Datatype.BOOL else numbers.astype(datatype.numpy)


@pytest.fixture
def add(onnx_file: Callable[..., Path]) -> Path:
    """total = a + b and difference = a - b, FP32 [batch, 2]."""
    shape = ["batch", 2]
    return onnx_file(
        [("a", "FLOAT", shape), ("b", "FLOAT", shape)],
        [("total", "FLOAT", shape), ("difference", "FLOAT", shape)],
        [("Add", ["a", "b"], ["total"], {}), ("Sub", ["a", "b"], ["difference"], {})],
    )


@pytest.mark.parametrize("datatype", list(Datatype), ids=str)
def test_every_datatype_goes_through_a_graph_and_a_batch_is_gathered_and_scattered(
    drive: Callable[..., Any], onnx_file: Callable[..., Path], datatype: Datatype
) -> None:
    element = ELEMENTS[datatype.value]
    onnx_file([("x", element, ["n", 2])], [("y", element, ["n", 2])], [("Identity", ["x"], ["y"], {})])
    driver = drive(OnnxRuntimeBackend)
    config = driver.completed()
    assert config.inputs[0].datatype is datatype
    one, two = values(datatype, (1, 2)), values(datatype, (3, 2))[::-1]
    first, second = driver.execute(
        driver.instance(config), driver.request({"x": one}), driver.request({"x": two}, rows=3)
    )
    for response, given in ((first, one), (second, two)):
        assert response.error is None
        output = response.outputs["y"]
        assert output.datatype is datatype
        assert output.as_numpy().tolist() == given.tolist()


def test_bf16_goes_beside_other_datatypes_in_one_graph(
    drive: Callable[..., Any], onnx_file: Callable[..., Path]
) -> None:
    onnx_file(
        [("x", "BFLOAT16", ["n", 2])],
        [("y", "FLOAT", ["n", 2]), ("z", "BFLOAT16", ["n", 2])],
        [("Cast", ["x"], ["y"], {"to": TensorProto.FLOAT}), ("Identity", ["x"], ["z"], {})],
    )
    driver = drive(OnnxRuntimeBackend)
    given = np.array([[1.5, -3.25]], ml_dtypes.bfloat16)
    (response,) = driver.execute(driver.instance(driver.completed()), driver.request({"x": given}))
    assert response.outputs["y"].as_numpy().tolist() == [[1.5, -3.25]]
    assert response.outputs["z"].as_numpy().dtype == ml_dtypes.bfloat16


def test_a_request_gets_only_the_outputs_it_asks_for_in_its_order(drive: Callable[..., Any], add: Path) -> None:
    driver = drive(OnnxRuntimeBackend)
    instance = driver.instance(driver.completed())
    given = {"a": np.array([[5, 6]], np.float32), "b": np.array([[1, 2]], np.float32)}
    one, two, three = driver.execute(
        instance,
        driver.request(given, outputs=("difference",)),
        driver.request(given, outputs=("difference", "total")),
        driver.request(given),
    )
    assert list(one.outputs) == ["difference"]
    assert list(two.outputs) == ["difference", "total"]
    assert list(three.outputs) == ["total", "difference"]
    assert one.outputs["difference"].as_numpy().tolist() == [[4.0, 4.0]]


def test_phases_are_stamped_in_order(drive: Callable[..., Any], add: Path) -> None:
    driver = drive(OnnxRuntimeBackend)
    given = {"a": np.ones((1, 2), np.float32), "b": np.ones((1, 2), np.float32)}
    driver.execute(driver.instance(driver.completed()), driver.request(given))
    batch = driver.batch
    assert 0 < batch.compute_start <= batch.compute_input_end <= batch.compute_output_start <= batch.compute_end


def test_an_input_at_an_odd_address_of_a_read_only_body_is_read_right(drive: Callable[..., Any], add: Path) -> None:
    driver = drive(OnnxRuntimeBackend)
    body = b"{}x" + np.array([[1, 2]], np.float32).tobytes()
    a = Tensor(Datatype.FP32, (1, 2), memoryview(body)[3:])
    assert not a.as_numpy().flags.aligned
    b = Tensor.from_numpy(np.array([[10, 20]], np.float32))
    (response,) = driver.execute(driver.instance(driver.completed()), InferenceRequest("m", {"a": a, "b": b}))
    assert response.outputs["total"].as_numpy().tolist() == [[11.0, 22.0]]


def test_text_that_is_not_utf8_fails_only_its_own_request(
    drive: Callable[..., Any], onnx_file: Callable[..., Path]
) -> None:
    onnx_file([("x", "STRING", ["n"])], [("y", "STRING", ["n"])], [("Identity", ["x"], ["y"], {})])
    driver = drive(OnnxRuntimeBackend)
    config = driver.completed()
    good = driver.request({"x": np.array([b"fine"], object)})
    bad = driver.request({"x": np.array([b"\xff\xfe"], object)})
    refused, answered = driver.execute(driver.instance(config), bad, good)
    assert isinstance(refused.error, InvalidArgument)
    assert "input 'x' of model 'm' is not UTF-8 text" in str(refused.error)
    assert "byte 0xff at position 0" in str(refused.error)
    assert answered.outputs["y"].as_numpy().ravel().tolist() == [b"fine"]


def test_what_the_runtime_raises_names_the_model_and_its_reason(
    drive: Callable[..., Any], onnx_file: Callable[..., Path]
) -> None:
    onnx_file(
        [("x", "FLOAT", ["n", "k"]), ("w", "FLOAT", ["k", "m"])],
        [("y", "FLOAT", ["n", "m"])],
        [("MatMul", ["x", "w"], ["y"], {})],
    )
    driver = drive(OnnxRuntimeBackend)
    config = driver.config(
        input=[{"name": name, "data_type": "TYPE_FP32", "dims": [-1, -1]} for name in "xw"],
        output=[{"name": "y", "data_type": "TYPE_FP32", "dims": [-1, -1]}],
    )
    request = driver.request({"x": np.ones((2, 3), np.float32), "w": np.ones((2, 3), np.float32)})
    good = driver.request({"x": np.ones((2, 3), np.float32), "w": np.ones((3, 2), np.float32)})
    failed, answered = driver.execute(driver.instance(config), request, good)
    assert isinstance(failed.error, BackendFailure)
    assert "onnx runtime error in model 'm': " in str(failed.error)
    assert "MatMul" in str(failed.error)
    assert answered.outputs["y"].as_numpy().tolist() == [[3.0, 3.0], [3.0, 3.0]]


def test_an_output_without_the_batch_s_rows_is_a_failure_that_names_both_numbers(
    drive: Callable[..., Any], onnx_file: Callable[..., Path]
) -> None:
    onnx_file(
        [("x", "FLOAT", ["n"])],
        [("y", "FLOAT", ["k"])],
        [("Compress", ["x", "c"], ["y"], {})],
        [helper.make_tensor("c", TensorProto.BOOL, [1], [True])],
    )
    driver = drive(OnnxRuntimeBackend)
    config = driver.completed()
    (response,) = driver.execute(driver.instance(config), driver.request({"x": np.ones(3, np.float32)}, rows=3))
    assert "returned an output of shape [1, 1] for a batch of 3" in str(response.error)


def test_a_scalar_is_one_number_to_clients_with_and_without_batches(
    drive: Callable[..., Any], onnx_file: Callable[..., Path]
) -> None:
    onnx_file([("x", "FLOAT", [])], [("y", "FLOAT", [])], [("Neg", ["x"], ["y"], {})])
    driver = drive(OnnxRuntimeBackend)
    config = driver.completed()
    assert (config.max_batch_size, config.inputs[0].dims, config.inputs[0].reshape) == (0, (1,), None)
    (response,) = driver.execute(driver.instance(config), driver.request({"x": np.array([7], np.float32)}))
    assert response.outputs["y"].as_numpy().tolist() == [-7.0]

    onnx_file([("x", "FLOAT", ["n"])], [("y", "FLOAT", ["n"])], [("Neg", ["x"], ["y"], {})])
    config = driver.completed()
    assert (config.max_batch_size, config.inputs[0].dims, config.inputs[0].reshape) == (4, (1,), ())
    (response,) = driver.execute(driver.instance(config), driver.request({"x": np.array([7, 8], np.float32)}, rows=2))
    assert response.outputs["y"].shape == (2, 1)


def test_an_input_with_a_default_value_may_be_left_out(
    drive: Callable[..., Any], onnx_file: Callable[..., Path]
) -> None:
    onnx_file(
        [("x", "FLOAT", ["n", 1]), ("w", "FLOAT", [1, 1])],
        [("y", "FLOAT", ["n", 1])],
        [("Mul", ["x", "w"], ["y"], {})],
        [helper.make_tensor("w", TensorProto.FLOAT, [1, 1], [10.0])],
    )
    driver = drive(OnnxRuntimeBackend)
    config = driver.config(
        input=[
            {"name": "x", "data_type": "TYPE_FP32", "dims": [-1, 1]},
            {"name": "w", "data_type": "TYPE_FP32", "dims": [1, 1], "optional": True},
        ],
        output=[{"name": "y", "data_type": "TYPE_FP32", "dims": [-1, 1]}],
    )
    x, w = np.array([[2.0]], np.float32), np.array([[3.0]], np.float32)
    without, given = driver.execute(driver.instance(config), driver.request({"x": x}), driver.request({"x": x, "w": w}))
    assert without.outputs["y"].as_numpy().tolist() == [[20.0]]
    assert given.outputs["y"].as_numpy().tolist() == [[6.0]]


def test_an_input_without_a_default_value_cannot_be_optional(drive: Callable[..., Any], add: Path) -> None:
    driver = drive(OnnxRuntimeBackend)
    config = driver.config(
        input=[{"name": name, "data_type": "TYPE_FP32", "dims": [-1, 2], "optional": True} for name in "ab"],
        output=[{"name": "total", "data_type": "TYPE_FP32", "dims": [-1, 2]}],
    )
    with pytest.raises(LoadFailed, match="'optional' is set to true for input 'a' while the backend model doesn't"):
        driver.instance(config)


def test_cpu_instances_share_one_session_and_run_at_once(drive: Callable[..., Any], add: Path) -> None:
    driver = drive(OnnxRuntimeBackend)
    config = driver.completed()
    assert OnnxRuntimeBackend.default_instance_count == 2
    first = driver.instance(config)
    second = driver.models[0].create_instance(InstanceSpec("m_1", InstanceKind.CPU))
    second.load()
    assert first._session is second._session
    start = threading.Barrier(2)

    def work(instance: Any, number: int) -> float:
        start.wait(10)
        given = np.full((1, 2), number, np.float32)
        results = [
            driver.execute(instance, driver.request({"a": given, "b": given}))[0].outputs["total"].as_numpy()[0, 0]
            for _ in range(50)
        ]
        assert set(results) == {2 * number}
        return float(results[0])

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(work, (first, second), (3, 4))) == [6.0, 8.0]
    first.close()
    second.close()


@pytest.mark.parametrize("content", [b"garbage", b""])
def test_a_broken_file_fails_the_load_with_its_path_and_the_runtime_s_reason(
    drive: Callable[..., Any], tmp_path: Path, content: bytes
) -> None:
    driver = drive(OnnxRuntimeBackend)
    (tmp_path / "1" / "model.onnx").write_bytes(content)
    with pytest.raises(LoadFailed, match=r"failed to load model 'm' from '.*/1/model.onnx': .*"):
        driver.completed()


def test_a_missing_file_fails_the_load_with_its_path_and_the_way_out(drive: Callable[..., Any]) -> None:
    driver = drive(OnnxRuntimeBackend)
    with pytest.raises(LoadFailed, match=r"unable to find '.*/1/other\.onnx' for model 'm'; put the ONNX file there"):
        driver.completed(default_model_filename="other.onnx")


def test_a_folder_with_the_model_and_its_data_is_a_model(drive: Callable[..., Any], add: Path) -> None:
    content = add.read_bytes()
    add.unlink()
    add.mkdir()
    (add / "model.onnx").write_bytes(content)
    driver = drive(OnnxRuntimeBackend)
    assert [spec.name for spec in driver.completed().inputs] == ["a", "b"]


def test_gpu_instances_need_a_runtime_that_has_cuda(drive: Callable[..., Any], add: Path) -> None:
    driver = drive(OnnxRuntimeBackend)
    completed = driver.completed()
    model = driver._loop.run_until_complete(driver.backend.load(completed, driver.files))
    with pytest.raises(LoadFailed, match=r"needs CUDAExecutionProvider, but the installed onnxruntime has only"):
        model.create_instance(InstanceSpec("m_0", InstanceKind.GPU)).load()


def test_a_custom_operator_library_that_is_missing_is_named_with_the_places_looked_at(
    drive: Callable[..., Any], add: Path
) -> None:
    driver = drive(OnnxRuntimeBackend)
    with pytest.raises(LoadFailed, match=r"custom operator library 'ops\.so' of model 'm' is neither in .*/1 nor in"):
        driver.completed(model_operations={"op_library_filename": ["ops.so"]})


def test_a_request_without_rows_gets_outputs_without_rows(drive: Callable[..., Any], add: Path) -> None:
    driver = drive(OnnxRuntimeBackend)
    instance = driver.instance(driver.completed())
    nothing, something = np.zeros((0, 2), np.float32), np.ones((1, 2), np.float32)
    empty, full = driver.execute(
        instance, driver.request({"a": nothing, "b": nothing}), driver.request({"a": something, "b": something})
    )
    assert empty.outputs["total"].shape == (0, 2)
    assert full.outputs["total"].as_numpy().tolist() == [[2.0, 2.0]]


def test_text_beside_bf16_is_refused_when_it_loads_because_the_runtime_cannot_take_it(
    drive: Callable[..., Any], onnx_file: Callable[..., Path]
) -> None:
    onnx_file(
        [("text", "STRING", [1]), ("half", "BFLOAT16", [1])],
        [("same_text", "STRING", [1]), ("same_half", "BFLOAT16", [1])],
        [("Identity", ["text"], ["same_text"], {}), ("Identity", ["half"], ["same_half"], {})],
    )
    driver = drive(OnnxRuntimeBackend)
    with pytest.raises(LoadFailed, match=r"has BF16 tensors and text input 'text'.*cast the BF16 inputs and outputs"):
        driver.instance(driver.completed())


def test_an_instance_that_is_asked_to_execute_without_a_session_says_so(drive: Callable[..., Any], add: Path) -> None:
    driver = drive(OnnxRuntimeBackend)
    instance = driver.instance(driver.completed())
    instance.close()
    one = np.ones((1, 2), np.float32)
    (response,) = driver.execute(instance, driver.request({"a": one, "b": one}))
    assert "was asked to execute before it was loaded" in str(response.error)


def test_text_whose_lengths_are_wrong_is_its_own_requests_error(
    drive: Callable[..., Any], onnx_file: Callable[..., Path]
) -> None:
    onnx_file([("a", "STRING", ["n", 1])], [("b", "STRING", ["n", 1])], [("Identity", ["a"], ["b"], {})])
    driver = drive(OnnxRuntimeBackend)
    instance = driver.instance(driver.completed())
    cut_off = InferenceRequest("m", {"a": Tensor(Datatype.BYTES, (1, 1), b"\x09\0\0\0abc")})
    whole = InferenceRequest("m", {"a": Tensor(Datatype.BYTES, (1, 1), b"\x03\0\0\0abc")})
    bad, good = driver.execute(instance, cut_off, whole)
    assert isinstance(bad.error, InvalidArgument)
    assert "expecting string of length 9 but only 3 bytes" in str(bad.error)
    assert good.outputs["b"].as_numpy().tolist() == [[b"abc"]]


def test_requests_of_one_batch_that_ask_for_different_outputs_get_each_its_own(
    drive: Callable[..., Any], add: Path
) -> None:
    driver = drive(OnnxRuntimeBackend)
    instance = driver.instance(driver.completed())
    one, two = np.ones((1, 2), np.float32), np.full((2, 2), 2, np.float32)
    requests = [
        driver.request({"a": one, "b": one}, rows=1, outputs=("total",)),
        driver.request({"a": two, "b": two}, rows=2, outputs=("difference",)),
    ]
    first, second = driver.execute(instance, *requests)
    assert {name: tensor.as_numpy().tolist() for name, tensor in first.outputs.items()} == {"total": [[2.0, 2.0]]}
    assert {name: tensor.as_numpy().tolist() for name, tensor in second.outputs.items()} == {
        "difference": [[0.0, 0.0], [0.0, 0.0]]
    }


def test_a_file_that_is_no_operator_library_is_named_when_it_loads(
    drive: Callable[..., Any], add: Path, tmp_path: Path
) -> None:
    (tmp_path / "1" / "ops.so").write_bytes(b"not a library")
    driver = drive(OnnxRuntimeBackend)
    with pytest.raises(LoadFailed, match=r"failed to load model 'm' from .*ops\.so"):
        driver.completed(model_operations={"op_library_filename": ["ops.so"]})
