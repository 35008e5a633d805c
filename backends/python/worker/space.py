"""Private imports: modules of a model that shares its process with others, under names that are its own.

``sys.modules`` belongs to the whole process, and two models may well both have a ``1.model`` and a ``helper``. So the
modules in a model's own folders are called ``infer_model_<n>.…`` here, and this folder is imported once more for each
space, as ``infer_worker_<n>.…``, which gives every instance classes and a runtime of its own. A model does not see it:
its modules get an ``__import__`` that looks for a name where a process of its own would find it. Everything else, such
as numpy, is what the process has, once for all.
"""

from __future__ import annotations

import atexit
import builtins
import functools
import importlib
import importlib.util
import itertools
import os
import sys
import threading
import types
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
)
from typing import TYPE_CHECKING, Any, cast

from .border import LastBorder
from .output_lines import Printer
from .private_loaders import BytecodeLoader, CopyLoader, SourceLoader

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from importlib.abc import Loader

    from .threaded import ServerEnd

MODEL = "infer_model_"
WORKER = "infer_worker_"
_ORIGINAL = __name__.rpartition(".")[0]


class Space:
    """The modules of one instance, gone with ``close``.

    ``write(is_error, line)`` takes what its own modules print, on any thread.
    """

    _numbers = itertools.count(1)

    def __init__(self, write: Callable[[bool, str], None]) -> None:
        number = next(self._numbers)
        self.root = f"{MODEL}{number}"
        self.worker = f"{WORKER}{number}"
        self.printer = Printer(write)
        self._exits: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = []
        self._folders: list[str] = []
        self._finders: dict[str, FileFinder] = {}
        self._own: dict[str, bool] = {}
        self._published: dict[str, types.ModuleType] = {
            "importlib": _Shim(importlib, import_module=self._import_module),
            "atexit": _Shim(atexit, register=self._register, unregister=self._unregister),
        }
        self.builtins: dict[str, Any] = {
            **vars(builtins),
            "__import__": self._import,
            "print": self.printer.print,
        }
        _FINDER.add(self)

    def serve(self, server: ServerEnd) -> str:
        """Be the worker at the other end of a channel, on the thread that calls it: why it ended, "" where asked to."""
        with LastBorder() as border:
            importlib.import_module(f"{self.worker}.threaded").serve(server, self)
        return border.failure

    # What the worker needs

    def publish(self, name: str, module: types.ModuleType) -> None:
        """Have ``import name`` give this module, in the model's own modules."""
        self._published[name] = module

    def enter(self, *folders: str) -> None:
        """Have what lies in these folders imported privately, unless the process knows it from elsewhere."""
        self._folders += folders
        self._package(self.root, *self._folders)

    def package(self, name: str, folder: str) -> types.ModuleType:
        """A private package over a folder that need not be one."""
        package = self._package(f"{self.root}.{name}", folder)
        setattr(sys.modules[self.root], name, package)
        return package

    def loader(self, name: str, path: str) -> Loader:
        """The loader of a private module's source."""
        return SourceLoader(self.builtins, name, path)

    def run_exits(self) -> None:
        """Call what the model has registered for its end, the last first."""
        while self._exits:
            function, args, kwargs = self._exits.pop()
            function(*args, **kwargs)

    def threads(self) -> list[str]:
        """The names of other threads that are in the model's code now."""
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        found: list[str] = []
        for ident, frame in sys._current_frames().items():  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            at: types.FrameType | None = frame
            while at is not None and ident != threading.get_ident():
                if at.f_builtins is self.builtins:
                    found.append(names.get(ident, str(ident)))
                    break
                at = at.f_back
        return sorted(found)

    def close(self, *, empty: bool) -> None:
        """Forget the modules; they go when nothing uses them any more.

        ``empty`` says that nothing runs in the model's own ones: what they hold then goes at once. Otherwise functions,
        which know their module, would keep it until the collector comes by.
        """
        self.printer.close()
        _FINDER.remove(self)
        # Of a copy: other threads import meanwhile.
        for name in [name for name in list(sys.modules) if name.partition(".")[0] in (self.root, self.worker)]:
            module = sys.modules.pop(name)
            if empty and name.startswith(self.root):
                module.__dict__.clear()
        if empty:
            self._published.clear()
            # It knows this space: what is left of the model, such as a handler of a logger, is all that it keeps.
            self.builtins = {}

    # Import

    def find(self, name: str, folders: Sequence[str]) -> ModuleSpec | None:
        """The spec of a private module in one of the folders."""
        portions: list[str] = []
        for folder in folders:
            finder = self._finders.get(folder)
            if finder is None:
                finder = self._finders[folder] = self._finder(folder)
            spec = finder.find_spec(name)
            if spec is None:
                continue
            if spec.loader is not None:
                return spec
            portions += spec.submodule_search_locations or []
        if not portions:
            return None
        namespace = ModuleSpec(name, None, is_package=True)
        namespace.submodule_search_locations = portions
        return namespace

    def _finder(self, folder: str) -> FileFinder:
        return FileFinder(
            folder,
            (ExtensionFileLoader, EXTENSION_SUFFIXES),
            (cast("type[Loader]", functools.partial(SourceLoader, self.builtins)), SOURCE_SUFFIXES),
            (cast("type[Loader]", functools.partial(BytecodeLoader, self.builtins)), BYTECODE_SUFFIXES),
        )

    @staticmethod
    def _package(name: str, *folders: str) -> types.ModuleType:
        package = types.ModuleType(name)
        package.__path__ = list(folders)
        package.__package__ = name
        sys.modules[name] = package
        return package

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002  the interface
        locals: Mapping[str, Any] | None = None,  # noqa: A002  the interface
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> types.ModuleType:
        """``__import__`` of the model's modules."""
        if not level:
            top = name.partition(".")[0]
            published = self._published.get(top)
            if published is not None:
                if top == name:
                    return published
                found = builtins.__import__(name, globals, locals, fromlist or (), 0)
                return found if fromlist else published
            if self._is_own(top):
                found = builtins.__import__(f"{self.root}.{name}", globals, locals, fromlist or (), 0)
                return found if fromlist else sys.modules[f"{self.root}.{top}"]
        return builtins.__import__(name, globals, locals, fromlist or (), level)

    def _import_module(self, name: str, package: str | None = None) -> types.ModuleType:
        """``importlib.import_module`` of the model's modules."""
        if name.startswith("."):
            return importlib.import_module(name, package)
        return self._import(name, None, None, ("__doc__",), 0)

    def _is_own(self, top: str) -> bool:
        """Whether a name is the model's: its folders are the last that are searched, as in a process of its own."""
        known = self._own.get(top)
        if known is None:
            known = self.find(f"{self.root}.{top}", self._folders) is not None and not self._is_elsewhere(top)
            if known or top in sys.modules:
                self._own[top] = known
        return known

    def _is_elsewhere(self, top: str) -> bool:
        """Whether the process knows a module of that name from another folder than the model's."""
        if top in sys.modules:
            spec = getattr(sys.modules[top], "__spec__", None)
            if spec is None:
                return True
        else:
            spec = importlib.util.find_spec(top)
        if spec is None:
            return False
        places = [*(spec.submodule_search_locations or ()), *([spec.origin] if spec.origin else [])]
        return not any(place.startswith(tuple(folder + os.sep for folder in self._folders)) for place in places)

    # atexit

    def _register(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[..., Any]:  # noqa: ANN401  whatever it takes
        self._exits.append((function, args, kwargs))
        return function

    def _unregister(self, function: Callable[..., Any]) -> None:
        self._exits = [each for each in self._exits if each[0] != function]


class _Shim(types.ModuleType):
    """A module of the process, but for some names."""

    def __init__(self, real: types.ModuleType, **replaced: Any) -> None:  # noqa: ANN401  functions of any kind
        super().__init__(real.__name__, real.__doc__)
        self.__dict__.update(replaced)
        self._real = real

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  whatever the module has
        return getattr(self._real, name)


class _Finder:
    """The one entry of ``sys.meta_path`` for all spaces; it stays, as others may be looking through the list."""

    def __init__(self) -> None:
        self._spaces: dict[str, Space] = {}

    def add(self, space: Space) -> None:
        """Find its modules from now on."""
        if self not in sys.meta_path:
            # Before the finder of paths, which would find a model's modules too, and load them as anyone's.
            sys.meta_path.insert(0, cast("Any", self))
        self._spaces[space.root] = self._spaces[space.worker] = space

    def remove(self, space: Space) -> None:
        """Find them no more."""
        self._spaces.pop(space.root, None)
        self._spaces.pop(space.worker, None)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, _: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module of a space; None for any other."""
        space = self._spaces.get(name.partition(".")[0])
        if space is None:
            return None
        if name.startswith(space.root):
            return space.find(name, path or ())
        original = importlib.util.find_spec(_ORIGINAL + name[len(space.worker) :])
        if original is None:
            return None
        is_package = original.submodule_search_locations is not None
        loader = cast("Loader", CopyLoader(original.name))
        spec = ModuleSpec(name, loader, origin=original.origin, is_package=is_package)
        spec.has_location = True
        return spec


_FINDER = _Finder()
