"""A configuration becomes sizes, delays, levels, and the question of which requests may share a batch."""

from __future__ import annotations

from typing import Any

import pytest

from infer.backends.api.datatypes import Datatype
from infer.backends.api.model_config import ModelConfig
from infer.backends.api.request import InferenceRequest
from infer.backends.api.tensor import Tensor
from infer.server.scheduling import batch_settings
from infer.server.scheduling.batch_policy import BatchPolicy
from infer.server.scheduling.request_queue import QueuePolicy


def config(batching: dict[str, Any], *inputs: dict[str, Any], max_batch_size: int = 8) -> ModelConfig:
    given = [{"data_type": "TYPE_FP32", **entry} for entry in inputs]
    return ModelConfig.from_document(
        {"name": "m", "max_batch_size": max_batch_size, "input": given, "dynamic_batching": batching}
    )


def request(**shapes: tuple[int, ...]) -> InferenceRequest:
    return InferenceRequest("m", {name: Tensor(Datatype.FP32, shape, b"") for name, shape in shapes.items()})


def test_sizes_and_delay_are_those_of_the_configuration() -> None:
    batching = {"preferred_batch_size": [2, 6], "max_queue_delay_microseconds": 100}
    policy = BatchPolicy(8, frozenset({2, 6}), 100_000)
    assert batch_settings.batch_policy(config(batching)) == policy


def test_a_model_without_a_batch_dimension_takes_one_row() -> None:
    assert batch_settings.batch_policy(config({}, max_batch_size=0)).max_rows == 1


def test_preserving_the_order_forms_one_batch_at_a_time() -> None:
    assert batch_settings.batch_policy(config({"preserve_ordering": True})).in_order
    assert not batch_settings.batch_policy(config({})).in_order


def test_levels_have_their_own_policies_and_the_default_one_otherwise() -> None:
    settings = batch_settings.queue_settings(
        config(
            {
                "priority_levels": 3,
                "default_priority_level": 2,
                "default_queue_policy": {"max_queue_size": 5},
                "priority_queue_policy": {
                    "1": {
                        "timeout_action": "DELAY",
                        "default_timeout_microseconds": 7,
                        "allow_timeout_override": True,
                    }
                },
            }
        )
    )
    assert (settings.levels, settings.default_level) == (3, 2)
    assert settings.policy(1) == QueuePolicy(timeout_ns=7000, delay=True, allow_override=True)
    assert settings.policy(3) == QueuePolicy(max_size=5)


def test_a_request_is_rejected_when_its_time_is_up_unless_the_configuration_says_delay() -> None:
    settings = batch_settings.queue_settings(config({"default_queue_policy": {"default_timeout_microseconds": 1}}))
    assert not settings.default_policy.delay


FIXED, FREE = {"name": "A", "dims": [4]}, {"name": "A", "dims": [-1]}


@pytest.mark.parametrize(
    ("inputs", "one", "other", "together"),
    [
        ([FIXED], {"A": (1, 4)}, {"A": (2, 4)}, True),
        ([FREE], {"A": (1, 4)}, {"A": (2, 4)}, True),
        ([FREE], {"A": (1, 4)}, {"A": (1, 5)}, False),
        ([{**FREE, "allow_ragged_batch": True}], {"A": (1, 4)}, {"A": (1, 5)}, True),
        ([FREE, {"name": "B", "dims": [4]}], {"A": (1, 4), "B": (1, 4)}, {"A": (1, 4), "B": (1, 4)}, True),
        ([FIXED, {"name": "B", "dims": [4], "optional": True}], {"A": (1, 4)}, {"A": (1, 4), "B": (1, 4)}, False),
        ([FIXED, {"name": "B", "dims": [4], "optional": True}], {"A": (1, 4)}, {"A": (1, 4)}, True),
        ([{**FREE, "optional": True}], {}, {"A": (1, 4)}, False),
        ([{"name": "A", "dims": [4], "reshape": {"shape": [2, -1]}}], {"A": (1, 2, 2)}, {"A": (1, 2, 3)}, False),
    ],
    ids=[
        "fixed shapes need no look",
        "rows may differ",
        "variable shapes may not",
        "unless batches may be ragged",
        "equal shapes",
        "one has an optional input that the other has not",
        "both lack it",
        "an optional input of a variable shape",
        "the shape that the model sees counts",
    ],
)
def test_which_requests_may_share_a_batch(
    inputs: list[dict[str, Any]], one: dict[str, Any], other: dict[str, Any], together: bool
) -> None:
    key = batch_settings.batch_key(config({}, *inputs))
    assert (key(request(**one)) == key(request(**other))) is together


def test_shape_tensors_must_agree_in_contents() -> None:
    key = batch_settings.batch_key(config({}, {"name": "S", "dims": [2], "is_shape_tensor": True}))

    def shape_tensor(*values: int) -> InferenceRequest:
        return InferenceRequest("m", {"S": Tensor(Datatype.UINT8, (len(values),), bytes(values))})

    assert key(shape_tensor(1, 2)) == key(shape_tensor(1, 2))
    assert key(shape_tensor(1, 2)) != key(shape_tensor(1, 3))


def test_without_a_batch_dimension_the_whole_shape_counts() -> None:
    key = batch_settings.batch_key(config({}, {"name": "A", "dims": [-1, 4]}, max_batch_size=0))
    assert key(request(A=(1, 4))) != key(request(A=(2, 4)))
