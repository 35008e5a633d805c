"""A model that does not load where a single file keeps something from it that an installed `infer` gives it."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import subprocess
import sys
from typing import Any, NoReturn

import numpy as np

NOT_EVERYWHERE = {
    "_dbm", "_gdbm", "_msi", "_overlapped", "_scproxy", "_winapi", "msilib", "msvcrt", "nt", "winreg", "winsound",
}  # fmt: skip
"""Modules of other systems, and of libraries that a Python may have been built without."""
LEFT_OUT = {
    "_tkinter", "antigravity", "distutils", "ensurepip", "idlelib", "lib2to3", "test", "this", "tkinter", "turtle",
    "turtledemo", "venv",
}  # fmt: skip
"""Modules that packaging/pyinstaller/infer.spec leaves out, with its reasons."""
NUMPY = ("fft", "lib.format", "lib.stride_tricks", "linalg", "ma", "polynomial", "random", "strings", "testing")
LIMIT_S = 30


class TritonPythonModel:
    """Loads or says what is missing."""

    def initialize(self, args: dict[str, str]) -> None:
        """Raise ImportError or RuntimeError where something is missing."""
        self._name = args["model_name"]
        _modules()
        _programs()
        _processes()

    def execute(self, requests: list[Any]) -> NoReturn:
        """Fail, so that the answer shows where."""
        msg = f"{self._name} fails {len(requests)} request on purpose"
        raise ValueError(msg)


def _modules() -> None:
    """The whole standard library, and numpy with its linear algebra."""
    for name in sorted(sys.stdlib_module_names - NOT_EVERYWHERE - LEFT_OUT):
        importlib.import_module(name)
    for name in NUMPY:
        importlib.import_module(f"numpy.{name}")
    if not np.allclose(np.linalg.inv(np.eye(64) * 2), np.eye(64) / 2):
        msg = "numpy's linear algebra gives wrong results"
        raise RuntimeError(msg)


def _programs() -> None:
    """Programs of the machine start with the machine's libraries and variables."""
    leaked = {"LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME"} & set(os.environ)
    if leaked:
        msg = f"variables that a model's own programs would trip over: {sorted(leaked)}"
        raise RuntimeError(msg)
    subprocess.run(["curl", "--version"], check=True, stdout=subprocess.DEVNULL)


def _processes() -> None:
    """Every way in which multiprocessing starts a process."""
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            if pool.map_async(abs, [-1, -2]).get(LIMIT_S) != [1, 2]:
                msg = f"multiprocessing with {method} gives wrong results"
                raise RuntimeError(msg)
