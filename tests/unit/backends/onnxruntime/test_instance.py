"""Ragged batches: inputs of different shapes in one run, batch inputs, and flat outputs that are cut apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

from infer.backends.api.datatypes import Datatype
from infer.backends.api.errors import BackendFailure, InvalidArgument
from infer.backends.api.request import InferenceRequest
from infer.backends.api.tensor import Tensor
from infer.backends.onnxruntime.backend import OnnxRuntimeBackend

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

SCATTER = [{"kind": "BATCH_SCATTER_WITH_INPUT_SHAPE", "target_name": ["y"], "source_input": ["x"]}]


def floats(*rows: list[float]) -> NDArray[np.float32]:
    return np.array(rows, np.float32)


def ragged(dims: list[int], kind: str = "TYPE_FP32", **more: object) -> dict[str, Any]:
    return {"name": "x", "data_type": kind, "dims": dims, "allow_ragged_batch": True, **more}


def output(name: str, dims: list[int], kind: str = "TYPE_FP32", **more: object) -> dict[str, Any]:
    return {"name": name, "data_type": kind, "dims": dims, **more}


def batch_input(kind: str, target: str, datatype: str = "TYPE_FP32") -> dict[str, Any]:
    return {"kind": kind, "target_name": [target], "data_type": datatype, "source_input": ["x"]}


def scattered(kind: str = "TYPE_FP32", **fields: object) -> dict[str, Any]:
    """A model with one ragged input ``x`` and one output ``y`` that is cut by its shape."""
    return {
        "max_batch_size": 8,
        "input": [ragged([-1], kind)],
        "output": [output("y", [-1], kind)],
        "batch_output": SCATTER,
        **fields,
    }


@pytest.fixture
def echo(onnx_file: Callable[..., Path]) -> Path:
    """y = x, FP32, flat."""
    return onnx_file([("x", "FLOAT", ["n"])], [("y", "FLOAT", ["m"])], [("Identity", ["x"], ["y"], {})])


def identity(onnx_file: Callable[..., Path], element: str) -> None:
    onnx_file([("x", element, ["n"])], [("y", element, ["m"])], [("Identity", ["x"], ["y"], {})])


def shows_batch_input(onnx_file: Callable[..., Path], element: str = "FLOAT") -> None:
    """Outputs whose first dimension is the requests', and that hold all that the model sees of a batch.

    ``size`` has one element a request, ``extra`` any number: every request gets a copy of all of ``x`` and ``extra``.
    """
    onnx_file(
        [("x", "FLOAT", ["n"]), ("size", "FLOAT", ["k"]), ("extra", element, ["e"])],
        [("all_x", "FLOAT", ["k", "n"]), ("all_extra", "FLOAT", ["k", "e"])],
        [
            ("Cast", ["extra"], ["numbers"], {"to": TensorProto.FLOAT}),
            ("Reshape", ["x", "wide"], ["x_row"], {}),
            ("Reshape", ["numbers", "wide"], ["extra_row"], {}),
            ("Reshape", ["size", "high"], ["column"], {}),
            ("Sub", ["column", "column"], ["zeros"], {}),
            ("Add", ["zeros", "x_row"], ["all_x"], {}),
            ("Add", ["zeros", "extra_row"], ["all_extra"], {}),
        ],
        [
            helper.make_tensor("wide", TensorProto.INT64, [2], [1, -1]),
            helper.make_tensor("high", TensorProto.INT64, [2], [-1, 1]),
        ],
    )


def test_requests_of_different_shapes_are_one_run_over_all_elements_cut_apart_again(
    drive: Callable[..., Any], onnx_file: Callable[..., Path]
) -> None:
    # The running sum crosses the border between two requests only if they are in one run.
    onnx_file(
        [("x", "FLOAT", ["n"])],
        [("y", "FLOAT", ["n"])],
        [("CumSum", ["x", "axis"], ["y"], {})],
        [helper.make_tensor("axis", TensorProto.INT32, [], [0])],
    )
    driver = drive(OnnxRuntimeBackend)
    first, second = driver.execute(
        driver.instance(driver.config(**scattered())),
        driver.request({"x": floats([1, 2, 3])}),
        driver.request({"x": floats([10, 20])}),
    )
    assert first.outputs["y"].as_numpy().tolist() == [[1.0, 3.0, 6.0]]
    assert second.outputs["y"].as_numpy().tolist() == [[16.0, 36.0]]


@pytest.mark.parametrize(
    ("datatype", "element"),
    [
        (Datatype.BYTES, "STRING"),
        (Datatype.BF16, "BFLOAT16"),
        (Datatype.INT64, "INT64"),
        (Datatype.BOOL, "BOOL"),
        (Datatype.FP16, "FLOAT16"),
    ],
    ids=str,
)
def test_ragged_batches_are_of_any_datatype_text_too(
    drive: Callable[..., Any], onnx_file: Callable[..., Path], datatype: Datatype, element: str
) -> None:
    identity(onnx_file, element)
    driver = drive(OnnxRuntimeBackend)
    if datatype is Datatype.BYTES:
        given = [np.array([[b"a", "längér".encode()]], object), np.array([[b""]], object)]
    else:
        given = [np.array([[1, 0]]).astype(datatype.numpy), np.array([[1]]).astype(datatype.numpy)]
    instance = driver.instance(driver.config(**scattered(datatype.config_name)))
    responses = driver.execute(instance, *(driver.request({"x": array}) for array in given))
    for response, array in zip(responses, given, strict=True):
        assert response.outputs["y"].datatype is datatype
        assert response.outputs["y"].as_numpy().tolist() == array.tolist()


def test_a_single_request_takes_the_same_way_whatever_its_shape_and_address(
    drive: Callable[..., Any], echo: Path
) -> None:
    driver = drive(OnnxRuntimeBackend)
    instance = driver.instance(driver.config(**scattered()))
    (response,) = driver.execute(instance, driver.request({"x": floats([1, 2], [3, 4])}, rows=2))
    assert response.outputs["y"].as_numpy().tolist() == [[1.0, 2.0], [3.0, 4.0]]
    body = memoryview(b"{}x" + floats([5, 6]).tobytes())[3:]
    (response,) = driver.execute(instance, InferenceRequest("m", {"x": Tensor(Datatype.FP32, (1, 2), body)}))
    assert response.outputs["y"].as_numpy().tolist() == [[5.0, 6.0]]


def test_requests_without_elements_or_rows_get_outputs_like_them(drive: Callable[..., Any], echo: Path) -> None:
    driver = drive(OnnxRuntimeBackend)
    instance = driver.instance(driver.config(**scattered()))
    given = [np.zeros((1, 0), np.float32), floats([1, 2]), np.zeros((0, 3), np.float32)]
    responses = driver.execute(instance, *(driver.request({"x": array}) for array in given))
    assert [response.outputs["y"].shape for response in responses] == [(1, 0), (1, 2), (0, 3)]
    (alone,) = driver.execute(instance, driver.request({"x": given[0]}))
    assert alone.outputs["y"].shape == (1, 0)


def test_a_model_without_batches_has_flat_tensors_too_one_request_a_run(drive: Callable[..., Any], echo: Path) -> None:
    driver = drive(OnnxRuntimeBackend)
    fields = scattered(max_batch_size=0, input=[ragged([-1, 2])], output=[output("y", [-1, 2])])
    responses = driver.execute(
        driver.instance(driver.config(**fields)),
        driver.request({"x": floats([1, 2], [3, 4])}),
        driver.request({"x": floats([5, 6])}),
    )
    arrays = [response.outputs["y"].as_numpy().tolist() for response in responses]
    assert arrays == [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]]]


def test_a_cut_output_has_the_shape_that_clients_see(drive: Callable[..., Any], echo: Path) -> None:
    driver = drive(OnnxRuntimeBackend)
    fields = scattered(output=[output("y", [1, -1], reshape={"shape": [-1]})])
    first, second = driver.execute(
        driver.instance(driver.config(**fields)),
        driver.request({"x": floats([1, 2, 3])}),
        driver.request({"x": floats([4])}),
    )
    assert (first.outputs["y"].shape, second.outputs["y"].shape) == ((1, 1, 3), (1, 1, 1))


def test_the_model_sees_the_whole_batch_and_where_each_request_begins(
    drive: Callable[..., Any], onnx_file: Callable[..., Path]
) -> None:
    shows_batch_input(onnx_file)
    driver = drive(OnnxRuntimeBackend)
    config = driver.config(
        max_batch_size=4,
        input=[ragged([-1])],
        output=[output("all_x", [-1]), output("all_extra", [-1])],
        batch_input=[
            batch_input("BATCH_ELEMENT_COUNT", "size"),
            batch_input("BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO", "extra"),
        ],
    )
    instance = driver.instance(config)
    given = [floats([2, 4]), floats([1, 1, 1, 1]), floats([7]), floats([8, 8, 8])]
    for response in driver.execute(instance, *(driver.request({"x": array}) for array in given)):
        assert response.error is None
        assert response.outputs["all_x"].as_numpy().tolist() == [[2, 4, 1, 1, 1, 1, 7, 8, 8, 8]]
        assert response.outputs["all_extra"].as_numpy().tolist() == [[0, 2, 6, 7, 10]]
    (alone,) = driver.execute(instance, driver.request({"x": given[2]}, outputs=("all_extra",)))
    assert {name: tensor.as_numpy().tolist() for name, tensor in alone.outputs.items()} == {"all_extra": [[0, 1]]}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("BATCH_ELEMENT_COUNT", [4, 2, 2, 4]),
        ("BATCH_ACCUMULATED_ELEMENT_COUNT", [4, 6, 8, 12]),
        ("BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO", [0, 4, 6, 8, 12]),
        ("BATCH_MAX_ELEMENT_COUNT_AS_SHAPE", [0, 0, 0, 0]),
        ("BATCH_ITEM_SHAPE_FLATTEN", [4, 1, 1, 2, 1, 2, 2, 2]),
    ],
)
@pytest.mark.parametrize(("datatype", "element"), [("TYPE_INT32", "INT32"), ("TYPE_FP32", "FLOAT")])
def test_every_kind_of_flat_batch_input_reaches_the_model(
    drive: Callable[..., Any],
    onnx_file: Callable[..., Path],
    kind: str,
    expected: list[int],
    datatype: str,
    element: str,
) -> None:
    shows_batch_input(onnx_file, element)
    driver = drive(OnnxRuntimeBackend)
    config = driver.config(
        max_batch_size=4,
        input=[ragged([-1, -1])],
        output=[output("all_extra", [-1])],
        batch_input=[batch_input("BATCH_ELEMENT_COUNT", "size"), batch_input(kind, "extra", datatype)],
    )
    shapes = [(1, 4, 1), (1, 1, 2), (1, 1, 2), (1, 2, 2)]
    requests = [driver.request({"x": np.ones(shape, np.float32)}) for shape in shapes]
    for response in driver.execute(driver.instance(config), *requests):
        assert response.outputs["all_extra"].as_numpy().tolist() == [expected]


def test_the_shapes_of_the_items_are_divided_by_rows_like_any_other_output(
    drive: Callable[..., Any], onnx_file: Callable[..., Path]
) -> None:
    # Nothing reads ``x``, which stays an input of the graph all the same.
    onnx_file(
        [("x", "FLOAT", ["n"]), ("shapes", "FLOAT", ["k", 2])],
        [("y", "FLOAT", ["k", "r"])],
        [("Identity", ["shapes"], ["y"], {})],
    )
    driver = drive(OnnxRuntimeBackend)
    config = driver.config(
        max_batch_size=4,
        input=[ragged([-1, -1])],
        output=[output("y", [2])],
        batch_input=[batch_input("BATCH_ITEM_SHAPE", "shapes")],
    )
    first, second = driver.execute(
        driver.instance(config),
        driver.request({"x": np.ones((1, 4, 1), np.float32)}),
        driver.request({"x": np.ones((2, 1, 3), np.float32)}, rows=2),
    )
    assert first.outputs["y"].as_numpy().tolist() == [[4.0, 1.0]]
    assert second.outputs["y"].as_numpy().tolist() == [[1.0, 3.0], [1.0, 3.0]]


def test_an_input_of_one_shape_is_batched_by_rows_beside_a_ragged_one(
    drive: Callable[..., Any], onnx_file: Callable[..., Path]
) -> None:
    onnx_file(
        [("x", "FLOAT", ["n"]), ("w", "FLOAT", ["k", 1])],
        [("y", "FLOAT", ["n"]), ("v", "FLOAT", ["k", 1])],
        [("Identity", ["x"], ["y"], {}), ("Neg", ["w"], ["v"], {})],
    )
    driver = drive(OnnxRuntimeBackend)
    fields = scattered(
        input=[ragged([-1]), {"name": "w", "data_type": "TYPE_FP32", "dims": [1]}],
        output=[output("y", [-1]), output("v", [1])],
    )
    first, second = driver.execute(
        driver.instance(driver.config(**fields)),
        driver.request({"x": floats([1, 2]), "w": floats([7])}),
        driver.request({"x": floats([3]), "w": floats([8])}),
    )
    assert {name: tensor.as_numpy().tolist() for name, tensor in first.outputs.items()} == {
        "y": [[1.0, 2.0]],
        "v": [[-7.0]],
    }
    assert {name: tensor.as_numpy().tolist() for name, tensor in second.outputs.items()} == {
        "y": [[3.0]],
        "v": [[-8.0]],
    }


def test_batch_inputs_go_beside_bf16(drive: Callable[..., Any], onnx_file: Callable[..., Path]) -> None:
    onnx_file(
        [("x", "BFLOAT16", ["n"]), ("size", "INT32", ["k"])],
        [("y", "BFLOAT16", ["n"]), ("count", "INT32", ["k"])],
        [("Identity", ["x"], ["y"], {}), ("Identity", ["size"], ["count"], {})],
    )
    driver = drive(OnnxRuntimeBackend)
    fields = scattered(
        "TYPE_BF16",
        output=[output("y", [-1], "TYPE_BF16"), output("count", [1], "TYPE_INT32", reshape={"shape": []})],
        batch_input=[batch_input("BATCH_ELEMENT_COUNT", "size", "TYPE_INT32")],
    )
    first, second = driver.execute(
        driver.instance(driver.config(**fields)),
        driver.request({"x": np.array([[1.5, 2.5]], ml_dtypes.bfloat16)}),
        driver.request({"x": np.array([[3.5]], ml_dtypes.bfloat16)}),
    )
    assert [response.outputs["count"].as_numpy().tolist() for response in (first, second)] == [[[2]], [[1]]]
    assert second.outputs["y"].as_numpy().tolist() == [[3.5]]


def test_a_flat_output_of_the_wrong_size_fails_the_run_with_its_name_and_both_numbers(
    drive: Callable[..., Any], onnx_file: Callable[..., Path]
) -> None:
    onnx_file([("x", "FLOAT", ["n"])], [("y", "FLOAT", ["m"])], [("Concat", ["x", "x"], ["y"], {"axis": 0})])
    driver = drive(OnnxRuntimeBackend)
    responses = driver.execute(
        driver.instance(driver.config(**scattered())),
        driver.request({"x": floats([1, 2, 3])}),
        driver.request({"x": floats([4, 5])}),
    )
    for response in responses:
        assert isinstance(response.error, BackendFailure)
        assert "returned 10 elements as output 'y', but the requests' shapes of input 'x' make it 5" in str(
            response.error
        )


@pytest.mark.parametrize(
    "computed",
    [{"batch_input": [batch_input("BATCH_ELEMENT_COUNT", "size")], "batch_output": []}, {"batch_input": []}],
    ids=["batch_input", "batch_output"],
)
def test_a_request_that_leaves_an_optional_source_out_fails_alone(
    drive: Callable[..., Any], onnx_file: Callable[..., Path], computed: dict[str, Any]
) -> None:
    onnx_file(
        [("x", "FLOAT", ["n"]), ("w", "FLOAT", ["k", 1]), ("size", "FLOAT", ["s"])],
        [("y", "FLOAT", ["n"])],
        [("Identity", ["x"], ["y"], {})],
        [helper.make_tensor(name, TensorProto.FLOAT, [1], [1.0]) for name in ("x", "size")],
    )
    driver = drive(OnnxRuntimeBackend)
    fields = scattered(
        input=[ragged([-1], optional=True), {"name": "w", "data_type": "TYPE_FP32", "dims": [1]}],
        output=[output("y", [1], reshape={"shape": []})],
        **computed,
    )
    without, given = driver.execute(
        driver.instance(driver.config(**fields)),
        driver.request({"w": floats([1])}),
        driver.request({"w": floats([1]), "x": floats([5])}),
    )
    assert isinstance(without.error, InvalidArgument)
    assert "from the shape of input 'x', which the request leaves out; send it" in str(without.error)
    assert given.outputs["y"].as_numpy().tolist() == [[5.0]]


def test_text_that_is_not_utf8_fails_only_its_own_request_of_a_ragged_batch(
    drive: Callable[..., Any], onnx_file: Callable[..., Path]
) -> None:
    identity(onnx_file, "STRING")
    driver = drive(OnnxRuntimeBackend)
    bad, good = driver.execute(
        driver.instance(driver.config(**scattered("TYPE_STRING"))),
        driver.request({"x": np.array([[b"\xff", b"a"]], object)}),
        driver.request({"x": np.array([[b"b"]], object)}),
    )
    assert isinstance(bad.error, InvalidArgument)
    assert good.outputs["y"].as_numpy().tolist() == [[b"b"]]
