"""What a configuration means to a Python model, and what auto-completion may change in it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from infer.backends.api.errors import Internal, InvalidArgument
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


def tensor(name: str = "x", data_type: Any = "TYPE_FP32", dims: Any = (1,)) -> list[Any]:
    return [{"name": name, "data_type": data_type, "dims": list(dims) if isinstance(dims, tuple) else dims}]


def test_a_tensor_that_neither_configuration_nor_model_has_given_a_type_is_left_to_the_rules() -> None:
    merged = merge_completed(config(), {"input": tensor(data_type="TYPE_INVALID"), "output": tensor()})
    assert (merged.inputs, len(merged.outputs)) == ((), 1)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"input": 5}, "input is 5 and no list"),
        ({"output": [5]}, "output[0] is 5; every output needs name, data_type (such as TYPE_FP32) and dims"),
        ({"input": [{"name": "x"}]}, "input[0] is {'name': 'x'}; every input needs name, data_type"),
        ({"input": tensor(data_type="INT8")}, "input[0], 'x', has data_type 'INT8', which is none; write it as in "),
        ({"input": tensor(data_type="INT8")}, "as in 'TYPE_INT8'"),
        ({"input": tensor(data_type=11)}, "input[0], 'x', has data_type 11, which is none; write it as in 'TYPE_FP32'"),
        ({"output": tensor() + tensor("y", dims=-1)}, "output[1], 'y', has dims -1; give a list of whole numbers"),
        ({"output": tensor(dims=[1.5])}, "output[0], 'x', has dims [1.5]; give a list of whole numbers, -1 for any"),
        ({"model_transaction_policy": 5}, "AttributeError"),
    ],
)
def test_an_answer_that_is_no_configuration_is_refused_with_what_is_wrong_in_it(
    answer: dict[str, Any], words: str
) -> None:
    with pytest.raises(
        InvalidArgument, match=r"^auto_complete_config of model 'm' returned a conf.* be read: "
    ) as raised:
        merge_completed(config(), answer)
    assert words in str(raised.value)


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
