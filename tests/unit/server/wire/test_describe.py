"""Descriptions hold the protocol's keys in the protocol's order, integers as numbers."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from infer.backends.api.datatypes import Datatype
from infer.backends.api.model_config import ModelConfig, TensorSpec
from infer.server.lifecycle.signature import ModelSignature
from infer.server.lifecycle.states import IndexEntry
from infer.server.observe.statistics import (
    BatchSnapshot,
    Duration,
    MemoryUsage,
    ModelSnapshot,
    ResponseSnapshot,
)
from infer.server.wire import describe


def served(**config: Any) -> Any:
    made = ModelConfig(
        "m",
        inputs=(TensorSpec("IN", Datatype.BYTES, (-1, 4)),),
        outputs=(TensorSpec("OUT", Datatype.FP32, (2,)),),
        document={"name": "m"},
        **config,
    )
    return SimpleNamespace(name="m", version=3, config=made, signature=ModelSignature(made))


def test_the_server_tells_name_version_and_extensions() -> None:
    assert json.dumps(describe.server_metadata("triton", "1.2", ("a", "b"))) == (
        '{"name": "triton", "version": "1.2", "extensions": ["a", "b"]}'
    )


def test_a_model_that_batches_has_a_leading_minus_one() -> None:
    document = describe.model_metadata(served(backend="python", max_batch_size=4), (1, 3))
    assert document == {
        "name": "m",
        "versions": ["1", "3"],
        "platform": "python",
        "inputs": [{"name": "IN", "datatype": "BYTES", "shape": [-1, -1, 4]}],
        "outputs": [{"name": "OUT", "datatype": "FP32", "shape": [-1, 2]}],
    }
    assert list(document) == ["name", "versions", "platform", "inputs", "outputs"]


def test_the_platform_is_named_where_it_is_given() -> None:
    document = describe.model_metadata(served(backend="onnxruntime", platform="onnxruntime_onnx"), (1,))
    assert document["platform"] == "onnxruntime_onnx"
    assert document["outputs"][0]["shape"] == [2]


def test_the_configuration_is_the_whole_document() -> None:
    assert describe.model_config(served()) == {"name": "m"}


def test_the_index_leaves_out_what_it_does_not_know() -> None:
    entries = [IndexEntry("a"), IndexEntry("b", "1", "READY"), IndexEntry("c", "2", "UNAVAILABLE", "unloaded")]
    assert describe.index(entries) == [
        {"name": "a"},
        {"name": "b", "version": "1", "state": "READY"},
        {"name": "c", "version": "2", "state": "UNAVAILABLE", "reason": "unloaded"},
    ]


def test_statistics_have_every_member_before_any_request() -> None:
    (entry,) = describe.statistics([ModelSnapshot("m", "1")])["model_stats"]
    zero = {"count": 0, "ns": 0}
    phases = ["success", "fail", "queue", "compute_input", "compute_infer", "compute_output", "cache_hit", "cache_miss"]
    assert entry["inference_stats"] == dict.fromkeys(phases, zero)
    assert entry["response_stats"] == {}
    assert entry["batch_stats"] == []
    assert entry["memory_usage"] == []
    assert (entry["last_inference"], entry["inference_count"], entry["execution_count"]) == (0, 0, 0)


def test_statistics_list_batches_responses_and_memory() -> None:
    two = Duration(2, 500)
    snapshot = ModelSnapshot(
        "m",
        "1",
        batches=(BatchSnapshot(4, two, two, two),),
        responses=(("0", ResponseSnapshot(success=two)),),
        memory_usage=(MemoryUsage("GPU", 0, 1024),),
    )
    (entry,) = describe.statistics([snapshot])["model_stats"]
    phase = {"count": 2, "ns": 500}
    assert entry["batch_stats"] == [
        {"batch_size": 4, "compute_input": phase, "compute_infer": phase, "compute_output": phase}
    ]
    assert entry["response_stats"]["0"]["success"] == phase
    assert list(entry["response_stats"]["0"]) == [
        "compute_infer", "compute_output", "success", "fail", "empty_response", "cancel",
    ]  # fmt: skip
    assert entry["memory_usage"] == [{"type": "GPU", "id": 0, "byte_size": 1024}]
