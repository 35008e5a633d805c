"""The parameters of a PyTorch model, by Triton's names, checked. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Mapping

_TRUTH = {"true": True, "1": True, "false": False, "0": False}


class OptionError(Exception):
    """A parameter with a value that it cannot have; the text is a sentence."""


@dataclass(frozen=True, slots=True)
class TorchOptions:
    """What a model's parameters say. None leaves a setting of the whole process as it is.

    ``intra_op_threads`` to ``tensor_fuser`` belong to the process and not to the model. ``eager_threads`` and
    ``eager_interop_threads`` are those of a ``model.py`` in its worker; ``compile`` holds the arguments of
    torch.compile, which is not called where it is None.
    """

    optimized: bool = True
    inference_mode: bool = True
    cudnn: bool = True
    share_weights: bool = False
    clean_cache: bool = False
    intra_op_threads: int | None = None
    inter_op_threads: int | None = None
    jit_executor: bool | None = None
    jit_profiling: bool | None = None
    tensor_fuser: bool | None = None
    eager_threads: int = 1
    eager_interop_threads: int = 1
    compile: Mapping[str, Any] | None = None


def read(model: str, parameters: Mapping[str, str]) -> TorchOptions:
    """The options of a model. Raises OptionError naming the key, the value and what is allowed."""
    take = _Reader(model, parameters)
    return TorchOptions(
        optimized=not take.truth("DISABLE_OPTIMIZED_EXECUTION", default=False),
        inference_mode=take.truth("INFERENCE_MODE", default=True),
        cudnn=not take.truth("DISABLE_CUDNN", default=False),
        share_weights=take.truth("ENABLE_WEIGHT_SHARING", default=False),
        clean_cache=take.truth("ENABLE_CACHE_CLEANING", default=False),
        intra_op_threads=take.count("INTRA_OP_THREAD_COUNT"),
        inter_op_threads=take.count("INTER_OP_THREAD_COUNT"),
        jit_executor=take.maybe("ENABLE_JIT_EXECUTOR"),
        jit_profiling=take.maybe("ENABLE_JIT_PROFILING"),
        tensor_fuser=take.maybe("ENABLE_TENSOR_FUSER"),
        eager_threads=take.count("NUM_THREADS") or 1,
        eager_interop_threads=take.count("NUM_INTEROP_THREADS") or 1,
        compile=take.compile_arguments("TORCH_COMPILE_OPTIONAL_PARAMETERS"),
    )


class _Reader:
    """One model's parameters."""

    def __init__(self, model: str, parameters: Mapping[str, str]) -> None:
        self._model = model
        self._parameters = parameters

    def maybe(self, key: str) -> bool | None:
        """A truth value, or None where it is not given."""
        text = self._parameters.get(key)
        if text is None:
            return None
        value = _TRUTH.get(text.lower())
        if value is None:
            raise self._wrong(key, text, "true or false")
        return value

    def truth(self, key: str, *, default: bool) -> bool:
        """A truth value."""
        value = self.maybe(key)
        return default if value is None else value

    def count(self, key: str) -> int | None:
        """A whole number from 1, or None where it is not given."""
        text = self._parameters.get(key)
        if text is None:
            return None
        if not (text.isascii() and text.isdigit() and int(text)):
            raise self._wrong(key, text, "an integer >= 1")
        return int(text)

    def compile_arguments(self, key: str) -> dict[str, Any] | None:
        """A JSON object without the key ``model``, or None where it is not given."""
        text = self._parameters.get(key)
        if text is None:
            return None
        try:
            value = json.loads(text)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise self._wrong(key, text, 'a JSON object of arguments of torch.compile, such as {"dynamic": true}')
        if "model" in value:
            raise self._wrong(key, text, "without the key 'model', which is the served model itself")
        return cast("dict[str, Any]", value)

    def _wrong(self, key: str, text: str, allowed: str) -> OptionError:
        return OptionError(f"parameter '{key}' of model '{self._model}' must be {allowed}, not '{text}'")
