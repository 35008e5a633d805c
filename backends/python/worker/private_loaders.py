"""Loaders of private modules: a model's own ones, and copies of those of this folder."""

from __future__ import annotations

import functools
import importlib.util
from importlib.machinery import SourceFileLoader, SourcelessFileLoader
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import types
    from importlib.machinery import ModuleSpec


class _PrivateLoader:
    """What loaders of a model's own modules have in common: the builtins that its code runs with."""

    def __init__(self, private_builtins: dict[str, Any], name: str, path: str) -> None:
        super().__init__(name, path)  # pyright: ignore[reportCallIssue]  the loader that it is mixed with
        self._builtins = private_builtins

    def exec_module(self, module: types.ModuleType) -> None:
        """Run the module with them."""
        module.__dict__["__builtins__"] = self._builtins
        super().exec_module(module)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


class SourceLoader(_PrivateLoader, SourceFileLoader):
    """Reads the source each time: bytecode is told from it by whole seconds, which reloading outruns."""

    def get_code(self, fullname: str) -> types.CodeType:
        """Compile the file."""
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


class BytecodeLoader(_PrivateLoader, SourcelessFileLoader):
    """A module that comes without its source."""


class CopyLoader:
    """Loads a module of this folder once more, from wherever it was loaded first."""

    def __init__(self, original: str) -> None:
        self._original = original

    def create_module(self, _: ModuleSpec) -> types.ModuleType | None:
        """The default."""
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        """Run the code of the original."""
        exec(_code(self._original), module.__dict__)  # noqa: S102  our own code


@functools.cache
def _code(original: str) -> types.CodeType:
    """The code of a module of this folder; kept, so that all copies are the same."""
    spec = importlib.util.find_spec(original)
    loader: Any = spec.loader if spec is not None else None
    return loader.get_code(original)
