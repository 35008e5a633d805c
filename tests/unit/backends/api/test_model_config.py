from __future__ import annotations

import dataclasses

import pytest

from infer.backends.api.datatypes import Datatype
from infer.backends.api.model_config import (
    BatchInput,
    BatchInputKind,
    BatchOutput,
    BatchOutputKind,
    InstanceGroup,
    InstanceKind,
    ModelConfig,
    TensorSpec,
    VersionPolicy,
)
from infer.server.repository import schema

DOCUMENT = {
    "name": "m",
    "backend": "python",
    "platform": "",
    "runtime": "r",
    "max_batch_size": 8,
    "input": [
        {"name": "x", "data_type": "TYPE_INT32", "dims": [-1], "optional": True, "reshape": {"shape": []}},
        {"name": "s", "data_type": "TYPE_STRING", "dims": [1], "allow_ragged_batch": True},
    ],
    "output": [{"name": "y", "data_type": "TYPE_BF16", "dims": [2, 3], "label_filename": "l.txt"}],
    "batch_input": [
        {
            "kind": "BATCH_ITEM_SHAPE",
            "target_name": ["shapes", "again"],
            "data_type": "TYPE_FP32",
            "source_input": ["x"],
        },
        {"target_name": ["count"], "data_type": "TYPE_INT32", "source_input": ["s"]},
    ],
    "batch_output": [{"target_name": ["y"], "kind": "BATCH_SCATTER_WITH_INPUT_SHAPE", "source_input": ["x"]}, {}],
    "instance_group": [{"name": "g", "kind": "KIND_GPU", "count": 2, "gpus": [0, 1], "passive": True}, {}],
    "parameters": {"a": {"string_value": "b"}},
    "metric_tags": {"team": "blue"},
    "model_transaction_policy": {"decoupled": True},
    "dynamic_batching": {},
}


def test_the_typed_fields_are_those_of_the_document() -> None:
    config = ModelConfig.from_document(DOCUMENT)
    assert (config.name, config.backend, config.runtime, config.max_batch_size) == ("m", "python", "r", 8)
    assert config.inputs == (
        TensorSpec("x", Datatype.INT32, (-1,), optional=True, reshape=()),
        TensorSpec("s", Datatype.BYTES, (1,), allow_ragged_batch=True),
    )
    assert config.outputs == (TensorSpec("y", Datatype.BF16, (2, 3), label_filename="l.txt"),)
    assert config.batch_inputs == (
        BatchInput(BatchInputKind.ITEM_SHAPE, ("shapes", "again"), Datatype.FP32, ("x",)),
        BatchInput(BatchInputKind.ELEMENT_COUNT, ("count",), Datatype.INT32, ("s",)),
    )
    assert config.batch_outputs == (
        BatchOutput(BatchOutputKind.SCATTER_WITH_INPUT_SHAPE, ("y",), ("x",)),
        BatchOutput(BatchOutputKind.SCATTER_WITH_INPUT_SHAPE, (), ()),
    )
    assert config.instance_groups == (
        InstanceGroup("g", InstanceKind.GPU, 2, (0, 1), passive=True),
        InstanceGroup(),
    )
    assert dict(config.parameters) == {"a": "b"}
    assert dict(config.metric_tags) == {"team": "blue"}
    assert config.decoupled
    assert config.scheduling == "dynamic_batching"
    assert config.document is DOCUMENT


def test_the_smallest_document_is_a_name() -> None:
    assert ModelConfig.from_document({"name": "m"}) == ModelConfig("m")


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({}, VersionPolicy(latest=1)),
        ({"version_policy": {"latest": {"num_versions": 3}}}, VersionPolicy(latest=3)),
        ({"version_policy": {"latest": {}}}, VersionPolicy(latest=1)),
        ({"version_policy": {"all": {}}}, VersionPolicy(latest=None)),
        ({"version_policy": {"specific": {"versions": [1, 7]}}}, VersionPolicy(latest=None, specific=(1, 7))),
    ],
)
def test_a_version_policy_is_latest_all_or_specific(entry: dict[str, object], expected: VersionPolicy) -> None:
    assert ModelConfig.from_document({"name": "m", **entry}).version_policy == expected


@pytest.mark.parametrize("choice", ["dynamic_batching", "sequence_batching", "ensemble_scheduling"])
def test_the_scheduling_choice_is_named(choice: str) -> None:
    assert ModelConfig.from_document({"name": "m", choice: {}}).scheduling == choice


@pytest.mark.parametrize(("field", "kinds"), [("batch_input", BatchInputKind), ("batch_output", BatchOutputKind)])
def test_the_kinds_are_those_of_the_schema(field: str, kinds: type[BatchInputKind | BatchOutputKind]) -> None:
    message = schema.message_class()().DESCRIPTOR.fields_by_name[field].message_type
    assert [kind.value for kind in kinds] == list(message.fields_by_name["kind"].enum_type.values_by_name)


def test_a_config_is_frozen() -> None:
    config = ModelConfig("m")
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.name = "n"  # pyright: ignore[reportAttributeAccessIssue]


def test_a_missing_name_and_an_unknown_type_are_key_errors() -> None:
    with pytest.raises(KeyError):
        ModelConfig.from_document({})
    with pytest.raises(KeyError):
        ModelConfig.from_document({"name": "m", "input": [{"name": "x", "data_type": "TYPE_FP33", "dims": []}]})


def test_a_tensor_whose_type_is_still_to_be_completed_is_in_the_document_alone() -> None:
    entries = [
        {"name": "x", "data_type": "TYPE_INVALID", "dims": []},
        {"name": "y", "data_type": "TYPE_FP32", "dims": [1]},
    ]
    config = ModelConfig.from_document({"name": "m", "input": entries})
    assert [spec.name for spec in config.inputs] == ["y"]
    assert config.document["input"] == entries
