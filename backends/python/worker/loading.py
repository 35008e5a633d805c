"""Find and import a model's module as Triton does."""

from __future__ import annotations

import importlib.util
import os
import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .space import Space

PROGRAM_PACKAGE = "infer_program"
_HERE = os.path.dirname(os.path.abspath(__file__))


class ModelLoadError(Exception):
    """A model that cannot be imported; the text says why."""


def import_model(path: str, model_dir: str, program: str = "", *, bare: bool = False) -> Any:  # noqa: ANN401  the model's class
    """The class ``TritonPythonModel`` of the file ``<model_dir>/<version>/<stem>.py``, or of ``program``.

    The module is named ``<version>.<stem>``, its version folder is its package, and version folder, model folder and
    the folder of ``triton_python_backend_utils`` are appended to ``sys.path``. A program is named
    ``infer_program.<stem>``, and its own folder is its package; ``path`` then only says which version it serves. A
    ``bare`` program is one of a backend directory: as with Triton it is named by its stem alone, and only its own
    folder and that of ``triton_python_backend_utils`` are appended. Raises ModelLoadError; exceptions of the module
    itself pass.
    """
    # Bytecode is told from its source by whole seconds and size: a constant that is changed and loaded within a second
    # of the last load would stay as it was. The model's folder is left as it is, too.
    sys.dont_write_bytecode = True
    if bare:
        sys.path += [os.path.dirname(program), _HERE]
        return _model_class(program)
    version_dir = os.path.dirname(path)
    sys.path += [version_dir, model_dir, _HERE]
    version = _package(os.path.basename(version_dir), version_dir)
    if program:
        return _model_class(program, _package(PROGRAM_PACKAGE, os.path.dirname(program)))
    return _model_class(path, version)


def import_privately(space: Space, path: str, model_dir: str, program: str = "", *, bare: bool = False) -> Any:  # noqa: ANN401  the model's class
    """The same for a model that shares its process: all of its own modules are in the space and have other names."""
    if bare:
        folder = os.path.dirname(program)
        space.enter(folder)
        return _model_class(program, space.package(PROGRAM_PACKAGE, folder), space)
    version_dir = os.path.dirname(path)
    space.enter(version_dir, model_dir)
    version = space.package(os.path.basename(version_dir), version_dir)
    if program:
        return _model_class(program, space.package(PROGRAM_PACKAGE, os.path.dirname(program)), space)
    return _model_class(path, version, space)


def _package(name: str, folder: str) -> types.ModuleType:
    """A package over a folder that need not be one."""
    package = types.ModuleType(name)
    package.__path__ = [folder]
    sys.modules[name] = package
    return package


def _model_class(path: str, package: types.ModuleType | None = None, space: Space | None = None) -> Any:  # noqa: ANN401  the model's class
    """Import a file as a module of the package, or of none; its class ``TritonPythonModel``."""
    stem, extension = os.path.splitext(os.path.basename(path))
    if extension != ".py":
        msg = f"Python model file must end in '.py', got '{path}'"
        raise ModelLoadError(msg)
    if not os.path.isfile(path):
        msg = f"Python model file not found in '{path}'"
        raise ModelLoadError(msg)
    name = f"{package.__name__}.{stem}" if package is not None else stem
    loader = space.loader(name, path) if space is not None else None
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    if spec is None or spec.loader is None:
        msg = f"Python model file '{path}' cannot be imported"
        raise ModelLoadError(msg)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if package is not None:
        setattr(package, stem, module)
    spec.loader.exec_module(module)
    found = getattr(module, "TritonPythonModel", None)
    if found is None:
        msg = f"Python model file '{path}' does not define a class 'TritonPythonModel'"
        raise ModelLoadError(msg)
    return found
