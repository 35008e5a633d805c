"""Backends by name, without importing a runtime.

The table maps a name to the module of its factory and to the modules that must be installed for it. Nothing of a
backend is imported before a model asks for it.
"""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from .api.errors import InvalidArgument, LoadFailed, NotInstalled

if TYPE_CHECKING:
    from .api.backend import Backend, BackendContext


@dataclass(frozen=True, slots=True)
class BackendInfo:
    """One backend as it is found here. ``reason`` says what to do where it is not available."""

    name: str
    available: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Entry:
    """Where a backend's class is, and what it needs: the module, and the command that installs it."""

    module: str
    class_name: str
    requires: str = ""
    install: str = ""


_TABLE: dict[str, _Entry] = {
    "identity": _Entry(".identity.backend", "IdentityBackend"),
    "onnxruntime": _Entry(
        ".onnxruntime.backend", "OnnxRuntimeBackend", "onnxruntime", "pip install 'infer-server[cpu]'"
    ),
    "python": _Entry(".python.backend", "PythonBackend"),
    "repeat": _Entry(".repeat.backend", "RepeatBackend"),
    "square": _Entry(".square.backend", "SquareBackend"),
    "pytorch": _Entry(".torch.backend", "TorchBackend", "torch", "pip install 'infer-server[torch]'"),
}


def is_ours(name: str) -> bool:
    """Whether a name is in the table."""
    return name in _TABLE


def backend_class(name: str) -> type[Backend]:
    """The class of a backend, imported now.

    Raises InvalidArgument for a name that is no backend's, and with the command that mends it NotInstalled where its
    runtime is not there, LoadFailed where it cannot be imported.
    """
    entry = _TABLE.get(name)
    if entry is None:
        msg = (
            f"unable to find backend library for backend '{name}', try specifying runtime on the model configuration. "
            f"Backends here are: {', '.join(sorted(_TABLE))}"
        )
        raise InvalidArgument(msg)
    reason = _missing(name, entry)
    if reason:
        raise NotInstalled(reason)
    try:
        module = importlib.import_module(entry.module, __package__)
    except ImportError as exc:
        hint = f"; reinstall it with `{entry.install}`" if entry.install else ""
        msg = f"backend '{name}' cannot be imported: {exc}{hint}"
        raise LoadFailed(msg) from exc
    return cast("type[Backend]", getattr(module, entry.class_name))


def create(name: str, context: BackendContext) -> Backend:
    """A new backend object. Raises as :func:`backend_class` does."""
    return backend_class(name)(context)


def available() -> tuple[BackendInfo, ...]:
    """Every backend in the table and whether it can be used here; no runtime is imported."""
    infos: list[BackendInfo] = []
    for name, entry in sorted(_TABLE.items()):
        reason = _missing(name, entry)
        infos.append(BackendInfo(name, not reason, reason))
    return tuple(infos)


def _missing(name: str, entry: _Entry) -> str:
    """What keeps a backend from use, as a sentence, or ""."""
    if not entry.requires or importlib.util.find_spec(entry.requires) is not None:
        return ""
    return f"backend '{name}' needs Python package '{entry.requires}', which is not installed; run `{entry.install}`"
