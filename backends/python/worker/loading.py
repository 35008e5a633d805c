"""Find and import a model's module as Triton does."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import types
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))


class ModelLoadError(Exception):
    """A model that cannot be imported; the text says why."""


def import_model(path: str, model_dir: str) -> Any:  # noqa: ANN401  the model's class
    """The class ``TritonPythonModel`` of the file ``<model_dir>/<version>/<stem>.py``.

    The module is named ``<version>.<stem>``, its version folder is its package, and version folder, model folder and
    the folder of ``triton_python_backend_utils`` are appended to ``sys.path``. Raises ModelLoadError; exceptions of the
    module itself pass.
    """
    version_dir, filename = os.path.split(path)
    stem, extension = os.path.splitext(filename)
    if extension != ".py":
        msg = f"Python model file must end in '.py', got '{path}'"
        raise ModelLoadError(msg)
    if not os.path.isfile(path):
        msg = f"Python model file not found in '{path}'"
        raise ModelLoadError(msg)
    # Bytecode is told from its source by whole seconds and size: a constant that is changed and loaded within a second
    # of the last load would stay as it was. The model's folder is left as it is, too.
    sys.dont_write_bytecode = True
    sys.path += [version_dir, model_dir, _HERE]
    version = os.path.basename(version_dir)
    package = types.ModuleType(version)
    package.__path__ = [version_dir]
    sys.modules[version] = package
    name = f"{version}.{stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        msg = f"Python model file '{path}' cannot be imported"
        raise ModelLoadError(msg)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    setattr(package, stem, module)
    spec.loader.exec_module(module)
    found = getattr(module, "TritonPythonModel", None)
    if found is None:
        msg = f"Python model file '{path}' does not define a class 'TritonPythonModel'"
        raise ModelLoadError(msg)
    return found
