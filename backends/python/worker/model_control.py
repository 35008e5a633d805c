"""Loading and unloading models from inside a model, and asking whether one is ready."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from .errors import TritonModelException, require
from .questions import ask
from .runtime import RUNTIME

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE_PREFIX = "file:"


def load_model(model_name: str, config: str = "", files: Mapping[str, bytes] | None = None) -> None:
    """Load a model, or load it anew, and wait until it serves; what served before does until then.

    :param config: a whole configuration as JSON text in place of the model's ``config.pbtxt``.
    :param files: the whole content of the model's folder, ``{"file:<version>/<path>": bytes}``; needs ``config``.

    Needs ``--model-control-mode=explicit``. Raises TritonModelException where the model does not load, and outside of
    initialize and execute.
    """
    _check_call("load_model", model_name)
    require(config, str, "load_model", "config")
    contents = _contents(files)
    _ask("Failed to load model: ", {"ask": "load", "name": model_name, "config": config, "files": contents})


def unload_model(model_name: str, unload_dependents: bool = False) -> None:  # noqa: FBT001, FBT002  the interface
    """Stop serving a model; this does not wait until it is closed. A name that was never loaded is no error.

    Raises TritonModelException as :func:`load_model` does.
    """
    _check_call("unload_model", model_name)
    require(unload_dependents, bool, "unload_model", "unload_dependents")
    _ask("Failed to unload model: ", {"ask": "unload", "name": model_name, "dependents": unload_dependents})


def is_model_ready(model_name: str, model_version: str = "") -> bool:
    """Whether a version of a model takes requests, for "" the one that the version policy chooses.

    Raises TritonModelException for a model or version that does not serve, and for a version that is no number.
    """
    _check_call("is_model_ready", model_name)
    require(model_version, str, "is_model_ready", "model_version")
    question = {"ask": "ready", "name": model_name, "version": model_version}
    return bool(_ask("Failed to check model readiness: ", question))


def _check_call(function: str, model_name: str) -> None:
    require(model_name, str, function, "model_name")
    if RUNTIME.connected and not RUNTIME.finalizing:
        return
    phase = "finalize" if RUNTIME.finalizing else "auto_complete_config"
    msg = f"{function}() is not available in {phase}: call it in initialize or execute"
    raise TritonModelException(msg)


def _ask(prefix: str, question: dict[str, Any]) -> Any:  # noqa: ANN401  JSON
    try:
        return ask(question)
    except TritonModelException as exc:
        msg = f"{prefix}{exc}"
        raise TritonModelException(msg) from None


def _contents(files: object) -> dict[str, str]:
    """Files as base64 by path. Raises TritonModelException for what is no dict of paths and bytes."""
    if files is None:
        return {}
    if not isinstance(files, dict):
        msg = f"Failed to load model: files must be a dict of 'file:<version>/<path>' and bytes, got {type(files)}"
        raise TritonModelException(msg)
    return dict(_content(path, content) for path, content in files.items())  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _content(path: object, content: object) -> tuple[str, str]:
    if not isinstance(path, str) or not path.startswith(FILE_PREFIX):
        msg = f"Failed to load model: the key of a file is 'file:<version>/<path>', got {path!r}"
        raise TritonModelException(msg)
    if isinstance(content, str):
        content = content.encode()
    if not isinstance(content, (bytes, bytearray)):
        msg = f"Failed to load model: the content of '{path}' must be bytes, got {type(content)}"
        raise TritonModelException(msg)
    return path[len(FILE_PREFIX) :], base64.b64encode(content).decode()
