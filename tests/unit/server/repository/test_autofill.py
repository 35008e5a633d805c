from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infer.backends.api.errors import InvalidArgument
from infer.backends.api.model_config import InstanceKind, ModelConfig
from infer.server.repository.autofill import complete, identify, normalise
from infer.server.repository.config_reader import from_document
from infer.server.repository.layout import ModelFolder
from infer.server.repository.rules import check


def folder(name: str = "m") -> ModelFolder:
    return ModelFolder(name, Path("/r") / name, (1,), Path("/r"))


def config(**fields: object) -> ModelConfig:
    return from_document({"name": "m", **fields}, source="m")


def named(found: ModelConfig) -> tuple[str, str, str]:
    return found.backend, found.platform, found.default_model_filename


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        (["model.onnx"], ("onnxruntime", "onnxruntime_onnx", "model.onnx")),
        (["model.onnx/"], ("onnxruntime", "onnxruntime_onnx", "model.onnx")),
        (["model.plan"], ("tensorrt", "tensorrt_plan", "model.plan")),
        (["model.xml", "model.bin"], ("openvino", "", "model.xml")),
        (["model.pt"], ("pytorch", "pytorch_libtorch", "model.pt")),
        (["model.pt2"], ("pytorch", "torch_aoti", "model.pt2")),
        (["model.py"], ("python", "", "model.py")),
        (["model.graphdef"], ("tensorflow", "tensorflow_graphdef", "model.graphdef")),
        (["helper.py", "model.py", "model.onnx"], ("onnxruntime", "onnxruntime_onnx", "model.onnx")),
    ],
)
def test_a_model_without_a_config_is_recognised_by_its_file(entries: list[str], expected: tuple[str, str, str]) -> None:
    assert named(identify(None, folder(), entries)) == expected


@pytest.mark.parametrize(
    ("fields", "entries", "expected"),
    [
        ({"backend": "onnxruntime"}, [], ("onnxruntime", "onnxruntime_onnx", "model.onnx")),
        ({"backend": "python"}, ["model.onnx"], ("python", "", "model.py")),
        ({"backend": "python", "default_model_filename": "other.py"}, [], ("python", "", "other.py")),
        ({"platform": "onnxruntime_onnx"}, [], ("onnxruntime", "onnxruntime_onnx", "model.onnx")),
        ({"default_model_filename": "model.onnx"}, [], ("onnxruntime", "onnxruntime_onnx", "model.onnx")),
        ({"platform": "libtorch"}, [], ("pytorch", "libtorch", "model.pt")),
        ({"platform": "torch_aoti"}, [], ("pytorch", "torch_aoti", "model.pt2")),
        ({"backend": "identity"}, ["model.onnx"], ("identity", "", "")),
        ({"platform": "ensemble"}, [], ("", "ensemble", "")),
        ({"default_model_filename": "x.onnx"}, ["model.onnx"], ("", "", "x.onnx")),
    ],
)
def test_what_a_config_leaves_empty_is_filled_from_what_it_says(
    fields: dict[str, Any], entries: list[str], expected: tuple[str, str, str]
) -> None:
    assert named(identify(config(**fields), folder(), entries)) == expected


def test_a_suffix_of_the_name_is_the_backend_where_nothing_else_tells() -> None:
    assert named(identify(None, folder("foo.identity"), [])) == ("identity", "", "model.identity")


@pytest.mark.parametrize("name", ["foo", "foo."])
def test_a_model_that_nothing_tells_of_is_refused_with_the_ways_out(name: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        identify(None, folder(name), ["weights.bin"])
    assert f"Could not determine backend for model '{name}' with no backend in model configuration" in str(caught.value)
    assert "set 'backend' in config.pbtxt" in str(caught.value)


def test_a_directory_named_like_a_file_that_must_be_regular_is_not_recognised() -> None:
    with pytest.raises(InvalidArgument, match="Could not determine backend"):
        identify(None, folder(), ["model.plan/"])


def test_normalising_adds_version_policy_and_pinned_memory_and_changes_nothing_twice() -> None:
    normal = normalise(config(backend="python"))
    assert normal.document["version_policy"] == {"latest": {"num_versions": 1}}
    assert normal.document["optimization"]["input_pinned_memory"] == {"enable": True}
    assert normal.document["optimization"]["output_pinned_memory"] == {"enable": True}
    assert "dynamic_batching" not in normal.document
    assert normalise(normal).document == normal.document


def test_an_ensemble_gets_no_optimization_and_no_instances() -> None:
    done = complete(config(platform="ensemble", ensemble_scheduling={}))
    assert "optimization" not in done.document
    assert done.instance_groups == ()


@pytest.mark.parametrize(("size", "preferred"), [(8, [8]), (0, [])])
def test_a_dynamic_batcher_prefers_the_largest_batch(size: int, preferred: list[int]) -> None:
    normal = normalise(config(backend="python", max_batch_size=size, dynamic_batching={}))
    assert normal.document["dynamic_batching"]["preferred_batch_size"] == preferred


def test_a_preferred_batch_size_that_is_given_stays() -> None:
    normal = normalise(config(backend="python", max_batch_size=8, dynamic_batching={"preferred_batch_size": [4]}))
    assert normal.document["dynamic_batching"]["preferred_batch_size"] == [4]


def test_a_sequence_batcher_gets_its_idle_time_and_preferred_sizes() -> None:
    sequence = normalise(config(backend="p", max_batch_size=8, sequence_batching={"oldest": {}})).document[
        "sequence_batching"
    ]
    assert sequence["max_sequence_idle_microseconds"] == 1_000_000
    assert sequence["oldest"]["preferred_batch_size"] == [8]


def test_without_groups_there_is_one_named_as_the_model_with_the_backend_s_count() -> None:
    (group,) = complete(config(backend="onnxruntime"), default_instance_count=2).instance_groups
    assert (group.name, group.kind, group.count, group.gpus) == ("m", InstanceKind.CPU, 2, ())


def test_unnamed_groups_are_numbered_and_a_count_below_one_is_the_default() -> None:
    groups = complete(
        config(
            backend="python", instance_group=[{"kind": "KIND_CPU"}, {"name": "b", "count": 3}, {"kind": "KIND_MODEL"}]
        ),
        default_instance_count=2,
    ).instance_groups
    assert [(group.name, group.kind.value, group.count) for group in groups] == [
        ("m_0", "KIND_CPU", 2),
        ("b", "KIND_CPU", 3),
        ("m_2", "KIND_MODEL", 1),
    ]


@pytest.mark.parametrize(
    ("given", "gpus", "kind", "listed"),
    [
        ([], (), "KIND_CPU", ()),
        ([], (0, 1), "KIND_GPU", (0, 1)),
        ([1], (0, 1), "KIND_GPU", (1,)),
        ([7], (0, 1), "KIND_CPU", ()),
        ([0], (), "KIND_CPU", ()),
    ],
)
def test_kind_auto_is_a_gpu_where_those_listed_are_usable(
    given: list[int], gpus: tuple[int, ...], kind: str, listed: tuple[int, ...]
) -> None:
    done = complete(config(backend="python", instance_group=[{"gpus": given}]), default_instance_count=2, gpus=gpus)
    (group,) = done.instance_groups
    assert (group.kind.value, group.gpus, group.count) == (kind, listed, 2 if kind == "KIND_CPU" else 1)
    check(done, gpus=gpus)


def test_completing_returns_a_new_config_and_leaves_the_given_one_alone() -> None:
    given = config(backend="python", max_batch_size=4, dynamic_batching={}, instance_group=[{}])
    before = repr(given.document)
    done = complete(given)
    assert repr(given.document) == before
    assert complete(done).document == done.document
