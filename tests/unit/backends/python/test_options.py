"""Options of the Python backend and parameters of its models: what is taken, what is refused with which sentence."""

from __future__ import annotations

from typing import Any

import pytest

from infer.backends.api.errors import Code, InvalidArgument, LoadFailed
from infer.backends.api.model_config import ModelConfig
from infer.backends.python import options
from infer.backends.python.options import PythonOptions


def config(**parameters: str) -> ModelConfig:
    given: dict[str, Any] = {key: {"string_value": value} for key, value in parameters.items()}
    return ModelConfig.from_document({"name": "m", "parameters": given})


def test_without_options_there_are_tritons_and_our_defaults() -> None:
    assert options.read({}) == PythonOptions(finalize_timeout=30, memory_limit=0, restart_attempts=10)


def test_every_option_is_read_and_those_of_others_are_left_alone() -> None:
    given = {
        "stub-timeout-seconds": "7",
        "worker-memory-limit-bytes": "1000000000",
        "restart-attempts": "0",
        "shm-default-byte-size": "1048576",
        "shm-growth-byte-size": "1",
        "shm-region-prefix-name": "prefix",
        "thread-pool-size": "1",
        "shm_message_queue_size": "1",
        "default-max-batch-size": "anything",
    }
    assert options.read(given) == PythonOptions(finalize_timeout=7, memory_limit=10**9, restart_attempts=0)


def test_no_attempt_means_that_a_worker_is_given_up_at_once() -> None:
    assert options.read({"restart-attempts": "0"}).restart.delay(1) is None
    assert options.read({"restart-attempts": "1"}).restart.delay(1) is not None


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("stub-timeout-seconds", ["", "soon", "0", "-1", "nan"]),
        ("worker-memory-limit-bytes", ["", "much", "1", "-1", "1.5"]),
        ("restart-attempts", ["", "often", "-1"]),
        ("shm-default-byte-size", ["", "x", "1048575", "-1", "1e7"]),
        ("shm-growth-byte-size", ["", "x", "0", "-1"]),
        ("shm-region-prefix-name", ["", "a;b", "$(x)"]),
        ("thread-pool-size", ["", "x", "0"]),
        ("shm_message_queue_size", ["", "x", "0"]),
    ],
)
def test_a_value_out_of_its_range_is_named_with_its_option(option: str, values: list[str]) -> None:
    for value in values:
        with pytest.raises(InvalidArgument) as raised:
            options.read({option: value})
        assert str(raised.value).startswith(f"--backend-config=python,{option}={value} is not")


def test_a_models_own_limit_of_memory_wins_also_where_it_is_none() -> None:
    assert options.memory_limit(config(), 5) == 5
    assert options.memory_limit(config(WORKER_MEMORY_LIMIT_BYTES="0"), 5) == 0
    assert options.memory_limit(config(WORKER_MEMORY_LIMIT_BYTES=str(options.LEAST_MEMORY)), 5) == options.LEAST_MEMORY
    with pytest.raises(InvalidArgument, match="parameter WORKER_MEMORY_LIMIT_BYTES=2 of model 'm' is not a whole"):
        options.memory_limit(config(WORKER_MEMORY_LIMIT_BYTES="2"), 5)


@pytest.mark.parametrize("text", ["yes", "no", "YES"])
def test_inputs_on_the_cpu_are_a_matter_of_yes_or_no(text: str) -> None:
    options.check_parameters(config(FORCE_CPU_ONLY_INPUT_TENSORS=text))


@pytest.mark.parametrize("text", ["", "true", "0"])
def test_another_word_for_inputs_on_the_cpu_is_unsupported(text: str) -> None:
    with pytest.raises(LoadFailed, match="Incorrect value for FORCE_CPU_ONLY_INPUT_TENSORS") as raised:
        options.check_parameters(config(FORCE_CPU_ONLY_INPUT_TENSORS=text))
    assert raised.value.code is Code.UNSUPPORTED


def test_names_of_instances_may_have_everything_but_what_a_shell_reads() -> None:
    options.check_instance_name("a.b-c_d é/0_1")
    with pytest.raises(InvalidArgument, match=r"contains invalid characters \(\$ ;.*rename the instance group"):
        options.check_instance_name("a;$b")
