"""infer: a Triton-compatible inference server that is run from a terminal.

``infer.Server`` is the server inside your own program. Names are resolved when they are first used, so that
``import infer`` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .app.embedded import InferResult, Server
    from .backends.api.errors import InferError
    from .backends.api.tensor import Tensor

__version__ = "0.1.0"
__all__ = ["InferError", "InferResult", "Server", "Tensor", "__version__"]

_PUBLIC = {
    "InferError": "backends.api.errors",
    "InferResult": "app.embedded",
    "Server": "app.embedded",
    "Tensor": "backends.api.tensor",
}


def __getattr__(name: str) -> object:
    module = _PUBLIC.get(name)
    if module is None:
        msg = f"module 'infer' has no attribute '{name}'"
        raise AttributeError(msg)
    return getattr(importlib.import_module(f".{module}", __name__), name)


def __dir__() -> list[str]:
    return __all__
