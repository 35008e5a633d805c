from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from infer.backends.api.errors import InvalidArgument, LoadFailed
from infer.backends.onnxruntime.backend import OnnxRuntimeBackend
from infer.backends.onnxruntime.completion import completed
from infer.backends.onnxruntime.graph import Graph, GraphTensor, check
from infer.server.repository.autofill import complete
from infer.server.repository.config_reader import from_document

if TYPE_CHECKING:
    from collections.abc import Callable

    from infer.backends.api.model_config import ModelConfig


def graph(inputs: dict[str, Any], outputs: dict[str, Any], optional: dict[str, Any] | None = None) -> Graph:
    """Tensors by name; each its shape, FP32, or (type name, shape)."""

    def tensors(entries: dict[str, Any]) -> dict[str, GraphTensor]:
        pairs = {
            name: entry if isinstance(entry, tuple) else ("tensor(float)", entry) for name, entry in entries.items()
        }
        return {name: GraphTensor.of(name, kind, shape) for name, (kind, shape) in pairs.items()}

    return Graph(tensors(inputs), tensors(outputs), tensors(optional or {}))


def config(**fields: object) -> ModelConfig:
    return from_document({"name": "m", "backend": "onnxruntime", **fields}, source="m")


BATCHABLE = graph({"x": [None, 3]}, {"y": ["n", 2]})
FIXED = graph({"x": [1, 3]}, {"y": ["n", 2]})


def test_a_batchable_graph_gets_the_default_batch_size_and_a_batcher_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        done = complete(completed(config(), BATCHABLE, 4))
    assert done.max_batch_size == 4
    assert done.document["dynamic_batching"]["preferred_batch_size"] == [4]
    assert [spec.dims for spec in (*done.inputs, *done.outputs)] == [(3,), (2,)]
    assert "autofilled max_batch_size to 4 for model 'm'" in caplog.text


def test_a_batch_size_that_is_given_stays_and_one_of_1_needs_no_batcher() -> None:
    assert completed(config(max_batch_size=16), BATCHABLE, 4).max_batch_size == 16
    assert completed(config(max_batch_size=1), BATCHABLE, 4).scheduling == ""
    assert completed(config(), BATCHABLE, 1).scheduling == ""
    assert completed(config(), BATCHABLE, 0).inputs[0].dims == (-1, 3)


def test_a_scheduler_that_is_chosen_stays() -> None:
    assert completed(config(sequence_batching={}), BATCHABLE, 4).scheduling == "sequence_batching"


def test_a_graph_with_a_fixed_first_dimension_keeps_its_whole_shape() -> None:
    done = completed(config(), FIXED, 4)
    assert (done.max_batch_size, done.scheduling) == (0, "")
    assert [spec.dims for spec in (*done.inputs, *done.outputs)] == [(1, 3), (-1, 2)]


def test_batches_of_a_graph_that_cannot_batch_are_refused() -> None:
    with pytest.raises(LoadFailed) as caught:
        completed(config(max_batch_size=8), FIXED, 4)
    assert str(caught.value).startswith(
        "autofill failed for model 'm': model does not support batching while non-zero max_batch_size is specified (8)"
    )


def test_only_the_side_that_is_missing_is_filled() -> None:
    given = config(max_batch_size=2, input=[{"name": "x", "data_type": "TYPE_FP32", "dims": [3]}])
    done = completed(given, BATCHABLE, 4)
    assert done.document["input"] == given.document["input"]
    assert done.outputs[0].name == "y"


SCATTER = [{"target_name": ["y"], "source_input": ["x"]}]
COUNT = [{"target_name": ["size"], "source_input": ["x"], "data_type": "TYPE_INT32"}]


def test_what_is_computed_for_a_batch_is_no_input_of_the_clients() -> None:
    with_size = graph({"x": [None, 3], "size": ("tensor(int32)", [None])}, {"y": [None, 2]})
    done = completed(config(batch_input=COUNT), with_size, 4)
    assert [spec.name for spec in done.inputs] == ["x"]
    assert done.batch_inputs[0].target_names == ("size",)
    check(done, with_size)


def test_what_is_computed_for_a_batch_does_not_decide_whether_the_graph_batches() -> None:
    with_fixed_size = graph({"x": [None, 3], "size": ("tensor(int32)", [4])}, {"y": [None, 2]})
    assert completed(config(batch_input=COUNT, max_batch_size=4), with_fixed_size, 4).max_batch_size == 4


@pytest.mark.parametrize("dims", [[-1], [-1, 2]])
def test_a_flat_output_that_is_cut_by_an_input_is_completed_with_its_dims(dims: list[int]) -> None:
    provided = graph({"x": [None]}, {"y": [None], "other": [None, 5]})
    inputs = [{"name": "x", "data_type": "TYPE_FP32", "dims": dims, "allow_ragged_batch": True}]
    done = completed(config(input=inputs, batch_output=SCATTER, max_batch_size=4), provided, 4)
    assert [(spec.dims, spec.reshape) for spec in done.outputs] == [(tuple(dims), None), ((5,), None)]
    check(done, provided)


def test_a_flat_output_of_an_input_that_is_completed_too_is_like_it() -> None:
    done = completed(config(batch_output=SCATTER), graph({"x": [None]}, {"y": [None]}), 4)
    assert [spec.dims for spec in (*done.inputs, *done.outputs)] == [(1,), (1,)]


def test_a_source_that_does_not_exist_is_left_to_the_rules() -> None:
    unknown = [{"target_name": ["y"], "source_input": ["z"]}]
    assert completed(config(batch_output=unknown), BATCHABLE, 4).outputs[0].dims == (2,)


def test_a_type_without_a_wire_form_is_refused_with_the_way_out() -> None:
    zipmap = graph({"x": [None, 3]}, {"p": ("seq(map(int64,tensor(float)))", [None])})
    with pytest.raises(LoadFailed, match=r"'p': type seq\(map.* cannot be served.*zipmap=False"):
        completed(config(), zipmap, 4)


def io(dims: list[int], *, kind: str = "TYPE_FP32", out: str = "y", **fields: object) -> dict[str, Any]:
    return {
        "input": [{"name": "x", "data_type": kind, "dims": dims}],
        "output": [{"name": out, "data_type": "TYPE_FP32", "dims": [2]}],
        "max_batch_size": 4,
        **fields,
    }


@pytest.mark.parametrize(
    ("fields", "phrase"),
    [
        (
            {"input": []},
            "unable to load model 'm', configuration expects 0 inputs, model provides 1; not configured: x",
        ),
        (
            {"input": [{"name": "z", "data_type": "TYPE_FP32", "dims": [3]}]},
            "unexpected inference input 'z', allowed inputs are: x",
        ),
        ({"out": "z"}, "unexpected inference output 'z', allowed outputs are: y"),
        (
            {"kind": "TYPE_INT32"},
            "configuration expects datatype TYPE_INT32 for tensor 'x', model provides TYPE_FP32",
        ),
        (
            {"dims": [3, 1]},
            (
                "model 'm', tensor 'x': the model expects 2 dimensions (shape [-1,3]) but the model configuration "
                "specifies 3 dimensions (an initial batch dimension because max_batch_size > 0 plus the explicit "
                "tensor dimensions, shape [-1,3,1])"
            ),
        ),
        (
            {"dims": [4]},
            "the model expects 2 dimensions (shape [-1,3]) but the model configuration specifies 2 dimensions",
        ),
        ({"dims": [-1]}, "the model expects 2 dimensions (shape [-1,3]) but"),
        (
            {"max_batch_size": 0},
            "but the model configuration specifies 1 dimensions (shape [2])",
        ),
    ],
)
def test_a_config_that_contradicts_the_graph_is_refused_with_both_sides(fields: dict[str, Any], phrase: str) -> None:
    with pytest.raises(LoadFailed) as caught:
        check(config(**io(**{"dims": [3], **fields})), BATCHABLE)
    assert phrase in str(caught.value)


def test_batches_of_a_tensor_with_a_fixed_first_dimension_are_refused_at_load() -> None:
    with pytest.raises(LoadFailed, match=r"for the model to support batching .* expected by the model is \[1,3\]"):
        check(config(**io([3])), FIXED)


def test_a_config_may_fix_what_the_graph_leaves_open_and_leave_outputs_out() -> None:
    open_graph = graph({"x": [None, None]}, {"y": [None, None], "other": [None]})
    check(config(**io([3])), open_graph)


def test_control_inputs_of_a_sequence_batcher_count_as_configured() -> None:
    with_control = graph({"x": [None, 3], "START": [None, 1]}, {"y": [None, 2]})
    check(config(**io([3]), sequence_batching={"control_input": [{"name": "START"}]}), with_control)


def flat(**fields: object) -> ModelConfig:
    """Ragged input x, an output y that is cut by its shape, and the batch input ``size``."""
    fitting = io(
        [-1],
        input=[{"name": "x", "data_type": "TYPE_FP32", "dims": [-1, 2], "allow_ragged_batch": True}],
        output=[{"name": "y", "data_type": "TYPE_FP32", "dims": [-1, 2]}],
        batch_input=COUNT,
        batch_output=SCATTER,
    )
    return config(**{**fitting, **fields})


FLAT = graph({"x": [None], "size": ("tensor(int32)", [None])}, {"y": [None]})


def test_ragged_inputs_batch_inputs_and_cut_outputs_are_flat_in_the_graph() -> None:
    check(flat(), FLAT)


@pytest.mark.parametrize(
    ("fields", "phrase"),
    [
        (
            {"batch_input": [{**COUNT[0], "data_type": "TYPE_FP32"}]},
            "configuration expects datatype TYPE_FP32 for tensor 'size', model provides TYPE_INT32",
        ),
        (
            {"batch_input": [{**COUNT[0], "kind": "BATCH_ITEM_SHAPE"}]},
            "tensor 'size': batch input kind 'BATCH_ITEM_SHAPE' has 2 dimension(s), but the model expects shape [-1]",
        ),
        (
            {"batch_input": [{**COUNT[0], "target_name": ["sizes"]}]},
            "unexpected batch input 'sizes', allowed inputs are: x, size (model 'm')",
        ),
        ({"batch_input": []}, "configuration expects 1 inputs, model provides 2; not configured: size"),
        (
            {"input": [{"name": "x", "data_type": "TYPE_INT32", "dims": [-1], "allow_ragged_batch": True}]},
            "configuration expects datatype TYPE_INT32 for tensor 'x', model provides TYPE_FP32",
        ),
        (
            {"input": [{"name": "x", "data_type": "TYPE_FP32", "dims": [-1]}]},
            "tensor 'x': the model expects 1 dimensions (shape [-1])",
        ),
        (
            {"output": [{"name": "y", "data_type": "TYPE_INT32", "dims": [-1]}]},
            "configuration expects datatype TYPE_INT32 for tensor 'y', model provides TYPE_FP32",
        ),
        ({"batch_output": []}, "tensor 'y': the model expects 1 dimensions (shape [-1])"),
    ],
)
def test_a_graph_that_does_not_fit_what_is_flat_is_refused_with_both_sides(fields: dict[str, Any], phrase: str) -> None:
    with pytest.raises(LoadFailed) as caught:
        check(flat(**fields), FLAT)
    assert phrase in str(caught.value)


@pytest.mark.parametrize(("shape", "shown"), [([None, None], "[-1,-1]"), ([4], "[4]"), ([], "[]")])
def test_a_ragged_input_that_is_not_flat_in_the_graph_is_refused_with_the_way_out(
    shape: list[int | None], shown: str
) -> None:
    other = graph({"x": shape, "size": ("tensor(int32)", [None])}, {"y": [None]})
    with pytest.raises(LoadFailed) as caught:
        check(flat(), other)
    assert f"input with shape [-1] for ragged input 'x', model provides {shown}; a ragged batch is" in str(caught.value)
    assert str(caught.value).endswith("export the model so, or remove allow_ragged_batch")


def test_the_default_batch_size_is_a_backend_option(drive: Callable[..., Any], onnx_file: Callable[..., Any]) -> None:
    onnx_file([("x", "FLOAT", ["n", 2])], [("y", "FLOAT", ["n", 2])], [("Neg", ["x"], ["y"], {})])
    assert drive(OnnxRuntimeBackend, **{"default-max-batch-size": "8"}).completed().max_batch_size == 8


def test_a_default_batch_size_that_is_no_number_is_refused(
    drive: Callable[..., Any], onnx_file: Callable[..., Any]
) -> None:
    onnx_file([("x", "FLOAT", ["n", 2])], [("y", "FLOAT", ["n", 2])], [("Neg", ["x"], ["y"], {})])
    with pytest.raises(InvalidArgument, match="default-max-batch-size must be an integer >= 0, not 'many'"):
        drive(OnnxRuntimeBackend, **{"default-max-batch-size": "many"}).completed()


def test_a_config_with_both_sides_is_not_completed_and_the_file_not_opened(drive: Callable[..., Any]) -> None:
    driver = drive(OnnxRuntimeBackend)
    assert driver.completed(**io([3])).max_batch_size == 4
