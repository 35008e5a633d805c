"""Parameters by Triton's names; a value that cannot be is refused with the key and what is allowed."""

from __future__ import annotations

import pytest

from infer.backends.torch.worker.options import OptionError, TorchOptions, read


def test_the_defaults_are_triton_s() -> None:
    found = read("m", {})
    assert found == TorchOptions()
    assert (found.optimized, found.inference_mode, found.cudnn) == (True, True, True)
    assert (found.share_weights, found.clean_cache) == (False, False)
    assert (found.intra_op_threads, found.inter_op_threads) == (None, None)
    assert (found.jit_executor, found.jit_profiling, found.tensor_fuser) == (None, None, None)
    assert (found.eager_threads, found.eager_interop_threads, found.compile) == (1, 1, None)


def test_every_parameter_is_read() -> None:
    found = read(
        "m",
        {
            "DISABLE_OPTIMIZED_EXECUTION": "true",
            "INFERENCE_MODE": "FALSE",
            "DISABLE_CUDNN": "1",
            "ENABLE_WEIGHT_SHARING": "True",
            "ENABLE_CACHE_CLEANING": "true",
            "INTRA_OP_THREAD_COUNT": "3",
            "INTER_OP_THREAD_COUNT": "2",
            "ENABLE_JIT_EXECUTOR": "false",
            "ENABLE_JIT_PROFILING": "0",
            "ENABLE_TENSOR_FUSER": "true",
            "NUM_THREADS": "5",
            "NUM_INTEROP_THREADS": "4",
            "TORCH_COMPILE_OPTIONAL_PARAMETERS": '{"dynamic": true}',
            "MINE": "is not looked at",
        },
    )
    assert found == TorchOptions(
        optimized=False,
        inference_mode=False,
        cudnn=False,
        share_weights=True,
        clean_cache=True,
        intra_op_threads=3,
        inter_op_threads=2,
        jit_executor=False,
        jit_profiling=False,
        tensor_fuser=True,
        eager_threads=5,
        eager_interop_threads=4,
        compile={"dynamic": True},
    )


TRUTHS = (
    "DISABLE_OPTIMIZED_EXECUTION",
    "INFERENCE_MODE",
    "DISABLE_CUDNN",
    "ENABLE_WEIGHT_SHARING",
    "ENABLE_CACHE_CLEANING",
    "ENABLE_JIT_EXECUTOR",
    "ENABLE_JIT_PROFILING",
    "ENABLE_TENSOR_FUSER",
)
COUNTS = ("INTRA_OP_THREAD_COUNT", "INTER_OP_THREAD_COUNT", "NUM_THREADS", "NUM_INTEROP_THREADS")
ARGUMENTS = "TORCH_COMPILE_OPTIONAL_PARAMETERS"


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        *[(key, "maybe", "true or false") for key in TRUTHS],
        (TRUTHS[0], "", "true or false"),
        *[(key, "0", "an integer >= 1") for key in COUNTS],
        (COUNTS[0], "-1", "an integer >= 1"),
        (COUNTS[0], "many", "an integer >= 1"),
        (COUNTS[0], "²", "an integer >= 1"),
        (ARGUMENTS, "{", "a JSON object of arguments of torch.compile"),
        (ARGUMENTS, "[1]", "a JSON object of arguments of torch.compile"),
        (ARGUMENTS, '{"model": 1}', "without the key 'model'"),
    ],
)
def test_a_value_that_cannot_be_is_refused_with_key_and_allowed_values(key: str, value: str, allowed: str) -> None:
    with pytest.raises(OptionError) as caught:
        read("m", {key: value})
    assert f"parameter '{key}' of model 'm' must be {allowed}" in str(caught.value)
    assert f"not '{value}'" in str(caught.value)
