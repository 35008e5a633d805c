"""What people write from memory: names of ``pb_utils`` and of a model's methods that are called something else."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .loading import ModelLoadError

if TYPE_CHECKING:
    from collections.abc import Mapping

_SAME = {"TritonInferenceException": "TritonModelException"}
"""Names that mean the same."""
_MODULES = ("json", "struct")
"""Modules that the file of the same name imports in Triton, so that some models find them there."""
_SENTENCES = {
    "AsyncInferenceResponseSender": (
        "a sender is got with request.get_response_sender(); its send() may be called from a coroutine and is not "
        "awaited"
    ),
    "AsyncInferenceRequest": "await request.async_exec() of an InferenceRequest",
    "async_execute": "write 'async def execute(self, requests)' in the model, or await request.async_exec() in it",
    "async_exec": "it is a method of InferenceRequest: 'await request.async_exec()'",
    "exec": "it is a method of InferenceRequest: 'request.exec()'",
    "get_response_sender": "it is a method of InferenceRequest: 'request.get_response_sender()'",
    "from_dlpack": "it is a method of Tensor: 'Tensor.from_dlpack(name, tensor)'",
    "log_info": "it is a method of Logger: 'Logger.log_info(message)'",
    "log": "it is a method of Logger: 'Logger.log(message)'",
}
_EXECUTE = ("async_execute", "execute_async", "aexecute", "predict", "infer", "forward")
"""Methods that people give a model in place of ``execute``."""


def other_name(name: str, module: Mapping[str, Any]) -> Any:  # noqa: ANN401  a module's attribute
    """What a name that ``pb_utils`` does not have stands for. Raises AttributeError naming the right one."""
    if name in _SAME:
        return module[_SAME[name]]
    if name in _MODULES:
        return importlib.import_module(name)
    msg = f"module 'triton_python_backend_utils' has no attribute '{name}'"
    if name.startswith("__"):
        raise AttributeError(msg)
    if name in _SENTENCES:
        msg = f"{msg}: {_SENTENCES[name]}"
    else:
        import difflib  # noqa: PLC0415  only a mistake needs it

        ours: list[str] = module["__all__"]
        near = difflib.get_close_matches(name, ours, n=1)
        msg = f"{msg}; did you mean '{near[0]}'?" if near else msg
    raise AttributeError(msg)


def check_model(model_class: Any, path: str) -> None:  # noqa: ANN401  the model's class
    """Raise ModelLoadError for a class that has another method where ``execute`` was meant.

    A class without any is no failure before it is asked to execute, as with Triton.
    """
    if not callable(model_class):
        msg = f"'{path}': TritonPythonModel is a {type(model_class).__name__} and no class"
        raise ModelLoadError(msg)
    if hasattr(model_class, "execute"):
        return
    for name in _EXECUTE:
        if callable(getattr(model_class, name, None)):
            msg = (
                f"'{path}': TritonPythonModel has '{name}' and no 'execute'; name it 'execute(self, requests)', which "
                "gets a list of requests and may be 'async def'"
            )
            raise ModelLoadError(msg)
