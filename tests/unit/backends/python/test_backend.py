"""What auto-completion may change in a configuration."""

from __future__ import annotations

from typing import Any

import pytest

from infer.backends.api.errors import Internal
from infer.backends.api.model_config import ModelConfig
from infer.backends.python.backend import merge_completed


def config(**more: Any) -> ModelConfig:
    return ModelConfig.from_document({"name": "m", "max_batch_size": 0, "input": [], "output": [], **more})


def test_a_completed_configuration_does_not_change_the_given_one() -> None:
    given = config()
    merged = merge_completed(given, {"max_batch_size": 3, "dynamic_batching": {}, "backend": "other"})
    assert (merged.max_batch_size, merged.scheduling, merged.backend) == (3, "dynamic_batching", "")
    assert (given.max_batch_size, given.scheduling) == (0, "")


def test_the_settings_of_the_scheduler_that_is_configured_win() -> None:
    given = config(dynamic_batching={"max_queue_delay_microseconds": 7})
    merged = merge_completed(given, {"dynamic_batching": {}})
    assert merged.document["dynamic_batching"] == {"max_queue_delay_microseconds": 7}


def test_a_model_cannot_change_the_kind_of_its_scheduler() -> None:
    with pytest.raises(Internal, match="sets dynamic_batching, but the configuration has sequence_batching"):
        merge_completed(config(sequence_batching={}), {"dynamic_batching": {}})
