from __future__ import annotations

import pytest

from infer.backends.api.errors import InvalidArgument
from infer.server.repository.autofill import complete
from infer.server.repository.config_reader import from_document
from infer.server.repository.pbtxt import parse
from infer.server.repository.rules import check, problems
from infer.server.repository.schema import to_document

GOOD = 'name: "m" backend: "python" max_batch_size: 8 '
IO = 'input { name: "x" data_type: TYPE_FP32 dims: 4 } output { name: "y" data_type: TYPE_FP32 dims: 4 } '
ENSEMBLE = 'name: "m" platform: "ensemble" '
SCHEDULING = "ensemble_scheduling { } "


def found(text: str, gpus: tuple[int, ...] = ()) -> list[str]:
    config = from_document(to_document(parse(text, source="m")), source="m")
    return [problem.sentence for problem in problems(config, gpus=gpus)]


def tensor(body: str, kind: str = "input", head: str = GOOD) -> str:
    return f'{head} {kind} [ {{ name: "x" data_type: TYPE_FP32 {body} }} ]'


def mapped(dims: str, reshape: str, head: str = GOOD) -> str:
    return tensor(f"dims: [ {dims} ] reshape {{ shape: [ {reshape} ] }}", head=head)


BAD = [
    ('name: "m" backend: "python" max_batch_size: -1', "'max_batch_size' must be non-negative value for m, not -1"),
    ('name: "m"', "unexpected platform type '' for m"),
    ('name: "m" platform: "caffe"', "unexpected platform type 'caffe' for m"),
    (
        'name: "m" platform: "onnxruntim" backend: "onnxruntime"',
        (
            "unexpected 'platform' and 'backend' pair, got:onnxruntim, onnxruntime; remove 'platform', or set it to "
            "onnxruntime_onnx"
        ),
    ),
    (GOOD + 'runtime: "../evil.so"', "runtime '../evil.so' of model 'm' escapes backend directory"),
    (GOOD + "input [ { data_type: TYPE_FP32 dims: [ 1 ] } ]", "model input must specify 'name' for m (input[0])"),
    (
        GOOD + 'input [ { name: "x" dims: [ 1 ] } ]',
        "model input 'x' must specify 'data_type' for m (input[0].data_type, one of TYPE_FP32, TYPE_INT32, ",
    ),
    (GOOD + "output [ { dims: [ 1 ] } ]", "model output must specify 'data_type' for m (output[0].data_type"),
    (tensor('dims: 1 }, { name: "y"'), "model input 'y' must specify 'data_type' for m (input[1].data_type"),
    (
        GOOD + 'input [ { name: "y" }, { name: "x" data_type: TYPE_FP32 dims: 0 } ]',
        "model input 'x' dimension must be integer >= 1, or -1 to indicate a variable-size dimension, not 0, for m (in",
    ),
    (tensor(""), "model input 'x' must specify 'dims' for m (input[0])"),
    (tensor("", "output"), "model output 'x' must specify 'dims' for m (output[0])"),
    (tensor("dims: [ 0 ]"), "dimension must be integer >= 1, or -1 to indicate a variable-size dimension, not 0"),
    (tensor("dims: [ 2, -2 ]", "output"), "model output 'x' dimension must be integer >= 1, or -1"),
    (mapped("4", "0"), "reshape dimensions must be integer >= 1, or -1"),
    (
        mapped("1", "", 'name: "m" backend: "python"'),
        "cannot have empty reshape for non-batching model as scalar tensors are not supported",
    ),
    (mapped("4", ""), "has different size for dims [4] and reshape []"),
    (mapped("4", "5"), "has different size for dims [4] and reshape [5]"),
    (mapped("4", "-1"), "has different size for dims [4] and reshape [-1]"),
    (mapped("2, 4, -1, 6", "4, -1, 12"), "has different size for dims [2, 4, -1, 6] and reshape [4, -1, 12]"),
    (mapped("-1, -1", "-1"), "has different number of variable-size dimensions for dims [-1, -1] and reshape [-1]"),
    (tensor("dims: [ 3, 4 ] format: FORMAT_NCHW"), "model input NHWC/NCHW require 3 dims, model input 'x' has 2"),
    (tensor("dims: [ 3 ] is_shape_tensor: true"), "shape tensors are only supported for TensorRT platform"),
    (
        tensor("dims: [ 3 ] is_non_linear_format_io: true"),
        "Non-linear IO format is only supported for TensorRT platform",
    ),
    (
        tensor('dims: [ 1 ] }, { name: "x" data_type: TYPE_FP32 dims: [ 1 ]'),
        "model input 'x' is declared twice for m (input[1])",
    ),
    (
        GOOD + IO + "batch_input [ { kind: BATCH_ELEMENT_COUNT data_type: TYPE_INT32 } ]",
        "batch input kind 'BATCH_ELEMENT_COUNT' expects 1 source input, got 0",
    ),
    (
        GOOD + IO + 'batch_input [ { data_type: TYPE_INT32 source_input: [ "x", "x" ] } ]',
        "expects 1 source input, got 2",
    ),
    (
        GOOD + IO + 'batch_input [ { data_type: TYPE_FP16 source_input: "x" } ]',
        "batch input data type must be TYPE_INT32 or TYPE_FP32 for m, not TYPE_FP16",
    ),
    (
        GOOD + IO + 'batch_input [ { data_type: TYPE_INT32 source_input: "z" } ]',
        "unknown source input name 'z' in batch_input of m; declared are: x",
    ),
    (
        GOOD + IO + 'batch_input [ { data_type: TYPE_INT32 target_name: [ "t", "x" ] source_input: "x" } ]',
        "target input name 'x' in batch_input of m is the name of another input",
    ),
    (
        GOOD + IO + 'batch_input [ { data_type: TYPE_INT32 target_name: [ "t", "t" ] source_input: "x" } ]',
        "target input name 't' in batch_input of m is the name of another input",
    ),
    (
        GOOD
        + 'input { name: "x" data_type: TYPE_FP32 dims: -1 } '
        + 'output { name: "y" data_type: TYPE_FP32 dims: [ -1, -1 ] } '
        + 'batch_output [ { target_name: "y" source_input: "x" } ]',
        "batch output 'y' of m takes the variable sizes of its dims [-1, -1] from input 'x', which has 1 dims",
    ),
    (
        GOOD + IO + 'batch_output [ { target_name: "z" source_input: "x" } ]',
        "unknown target output name 'z' in batch_output of m; declared are: y",
    ),
    (
        GOOD + IO + 'batch_output [ { target_name: [ "y", "y" ] source_input: "x" } ]',
        "target output name 'y' can only be specified once",
    ),
    (GOOD + IO + 'batch_output [ { target_name: "y" source_input: "z" } ]', "unknown source input name 'z'"),
    (
        GOOD + IO + 'batch_output [ { target_name: "y" } ]',
        "batch output kind 'BATCH_SCATTER_WITH_INPUT_SHAPE' expects 1",
    ),
    (
        GOOD + "dynamic_batching { preferred_batch_size: 0 }",
        "dynamic batching preferred size must be positive for m, not 0",
    ),
    (
        GOOD + "dynamic_batching { preferred_batch_size: 9 }",
        "dynamic batching preferred size must be <= max batch size for m: 9 > 8",
    ),
    (
        GOOD + "dynamic_batching { priority_levels: 3 }",
        "default priority level must be in range [1, 3] for m, not 0",
    ),
    (
        GOOD + "dynamic_batching { priority_levels: 3 default_priority_level: 4 }",
        "default priority level must be in range [1, 3] for m, not 4",
    ),
    (
        GOOD + "dynamic_batching { priority_levels: 3 default_priority_level: 1 priority_queue_policy { key: 4 } }",
        "priority queue policy must have priority level in range [1, 3] for m, not 4",
    ),
    (
        GOOD + "dynamic_batching { preserve_ordering: true priority_levels: 2 default_priority_level: 1 }",
        "Only one priority level is allowed when 'preserve_ordering' is true for m",
    ),
    (
        GOOD + "dynamic_batching { preserve_ordering: true default_queue_policy { timeout_action: DELAY "
        "default_timeout_microseconds: 1 } }",
        "Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true for m",
    ),
    (
        GOOD + "sequence_batching { oldest { preferred_batch_size: 9 } }",
        "sequence batching preferred batch size must be <= max batch size for m: 9 > 8",
    ),
    (
        GOOD + "sequence_batching { direct { minimum_slot_utilization: 1.5 } }",
        "sequence batching minimum slot utilization must be in range (0.0, 1.0] for m, not 1.5",
    ),
    (
        GOOD + "sequence_batching { oldest { max_candidate_sequences: -1 } }",
        "sequence batching max_candidate_sequences must not be negative for m: -1",
    ),
    (
        GOOD + "sequence_batching { } response_cache { enable: true }",
        "Response Cache does not currently support model m with sequence batching scheduler.",
    ),
    (
        GOOD + "model_transaction_policy { decoupled: true } response_cache { enable: true }",
        "Response Cache does not currently support model m with 'decoupled' transaction policy.",
    ),
    (
        ENSEMBLE + SCHEDULING + 'backend: "python"',
        "Ensemble model 'm' must have platform type 'ensemble' and empty backend type, not 'python'",
    ),
    (ENSEMBLE, "ensemble scheduling must be set for ensemble m whose platform is ensemble"),
    (GOOD + SCHEDULING, "ensemble scheduling cannot be set for model 'm' whose platform is not ensemble"),
    (ENSEMBLE + SCHEDULING + "instance_group { }", "instance group should not be specified for ensemble 'm'"),
    (ENSEMBLE + SCHEDULING + "optimization { }", "optimization should not be specified for ensemble 'm'"),
    (ENSEMBLE + SCHEDULING + "model_warmup { }", "model_warmup can not be specified for ensemble 'm'"),
    (
        GOOD + 'instance_group { name: "g" kind: KIND_CPU gpus: 0 }',
        "instance group g of model m has kind KIND_CPU but specifies one or more GPUs",
    ),
    (
        GOOD + 'instance_group { name: "g" kind: KIND_MODEL gpus: 0 }',
        "instance group g of model m has kind KIND_MODEL but specifies one or more GPUs",
    ),
    (
        GOOD + 'instance_group { name: "g" kind: KIND_GPU }',
        "instance group g of model m has kind KIND_GPU but no GPUs are available",
    ),
    (
        GOOD + 'instance_group { name: "g" profile: "0" }',
        "instance group g of model m has the profile field which is only supported for TensorRT models",
    ),
    (
        'name: "m" backend: "tensorrt" platform: "tensorrt_plan" instance_group { name: "g" profile: "first" }',
        "instance group g of model m has profile 'first', which is not an integer >= 0",
    ),
    (
        GOOD + "model_metrics { metric_control { } }",
        "model_metrics.metric_control[0] of m must specify 'metric_identifier'",
    ),
    (
        GOOD + "model_metrics { metric_control { metric_identifier { } } }",
        "must specify a non-empty 'metric_identifier.family'",
    ),
    (
        GOOD + 'model_metrics { metric_control { metric_identifier { family: "f" } } }',
        "must specify 'histogram_options'",
    ),
    (
        GOOD + 'model_metrics { metric_control { metric_identifier { family: "f" } histogram_options { } } }',
        "must specify at least one entry in 'histogram_options.buckets'",
    ),
]


@pytest.mark.parametrize(("text", "phrase"), BAD, ids=[row[1][:50] for row in BAD])
def test_an_unsound_config_is_refused_in_triton_s_words(text: str, phrase: str) -> None:
    assert any(phrase in sentence for sentence in found(text)), found(text)


@pytest.mark.parametrize(
    "text",
    [
        GOOD + IO,
        'name: "m" backend: "onnxruntime" platform: "onnxruntime_onnx"',
        'name: "m" backend: "pytorch" platform: "libtorch"',
        mapped("1", ""),
        mapped("2, 4, -1, 6", "8, -1, 1, 6"),
        mapped("-1", "-1, 1"),
        tensor("dims: [ 3, 4, 5 ] format: FORMAT_NHWC"),
        GOOD + "sequence_batching { direct { minimum_slot_utilization: 0.0 } }",
        GOOD + "sequence_batching { direct { minimum_slot_utilization: 1.0 } }",
        GOOD + "dynamic_batching { preferred_batch_size: [ 1, 8 ] }",
        ENSEMBLE + SCHEDULING,
        GOOD + "instance_group [ { kind: KIND_CPU count: 2 } ]",
        GOOD + IO + 'batch_input [ { data_type: TYPE_FP32 source_input: "x" } ]',
        GOOD + IO + 'batch_input [ { data_type: TYPE_INT32 target_name: [ "s", "t" ] source_input: "x" } ]',
        GOOD + IO + 'batch_output [ { target_name: "y" source_input: "x" } ]',
    ],
)
def test_a_sound_config_has_no_problem(text: str) -> None:
    assert found(text) == []


def test_a_gpu_that_does_not_exist_is_named_beside_those_that_do() -> None:
    text = GOOD + 'instance_group { name: "g" kind: KIND_GPU gpus: [ 1, 42 ] }'
    (sentence,) = found(text, gpus=(0, 1))
    assert "specifies invalid or unsupported gpu id 42" in sentence
    assert sentence.endswith("0, 1")


def test_check_raises_the_first_problem() -> None:
    config = complete(from_document({"name": "m", "backend": "python", "max_batch_size": -3}, source="m"))
    with pytest.raises(InvalidArgument, match="must be non-negative value for m, not -3"):
        check(config)
    check(complete(from_document({"name": "m", "backend": "python"}, source="m")))
