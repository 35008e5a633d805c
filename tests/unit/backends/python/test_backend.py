"""What a configuration means to a Python model, and what auto-completion may change in it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from infer.backends.api.errors import Internal
from infer.backends.api.model_config import ModelConfig
from infer.backends.python.backend import PythonBackend, merge_completed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


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


@pytest.mark.parametrize(
    ("fields", "warns"),
    [
        ({}, False),
        ({"batch_input": [{"target_name": ["n"], "data_type": "TYPE_INT32", "source_input": ["x"]}]}, True),
        ({"batch_output": [{"target_name": ["y"], "source_input": ["x"]}]}, True),
    ],
    ids=["neither", "batch_input", "batch_output"],
)
def test_tensors_computed_for_a_batch_have_no_effect_which_the_log_says(
    drive: Callable[..., Any], tmp_path: Path, caplog: pytest.LogCaptureFixture, fields: dict[str, Any], warns: bool
) -> None:
    driver = drive(PythonBackend)
    (tmp_path / "1" / "model.py").touch()
    with caplog.at_level(logging.WARNING):
        driver._loop.run_until_complete(driver.backend.load(driver.config(**fields), driver.files))
    assert ("model 'm': batch_input and batch_output have no effect on a Python model" in caplog.text) is warns
