"""Which execution environment a model asks for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ...api.errors import InvalidArgument, LoadFailed

if TYPE_CHECKING:
    from ...api.backend import ModelFiles
    from ...api.model_config import ModelConfig

PARAMETER = "EXECUTION_ENV_PATH"
MODEL_DIRECTORY = "$$TRITON_MODEL_DIRECTORY"
"""Stands for the model's folder in the parameter."""


def environment_path(config: ModelConfig, files: ModelFiles) -> Path | None:
    """What the model's parameter names, absolute; None where it has none.

    Raises InvalidArgument for a path that starts at the model's folder and leads out of it.
    """
    text = config.parameters.get(PARAMETER, "")
    if not text:
        return None
    if MODEL_DIRECTORY not in text:
        return Path(text).absolute()
    folder = str(files.model_dir.absolute())
    path = os.path.normpath(text.replace(MODEL_DIRECTORY, folder))
    if path != folder and not path.startswith(folder + os.sep):
        msg = f"{PARAMETER} '{text}' of model '{config.name}' leads out of the model's folder; give the path itself"
        raise InvalidArgument(msg)
    return Path(path)


def packed_beside(program: Path) -> Path | None:
    """The archive that lies beside the program of a backend directory, as Triton names it. Blocking."""
    path = program.with_name(f"pb_exec_env_{program.name}.tar.gz")
    return path if path.is_file() else None


def check_there(path: Path, model: str) -> None:
    """Raise LoadFailed where a model's environment is not there. Blocking."""
    if not path.exists():
        msg = f"execution environment '{path}' of model '{model}' ({PARAMETER}) does not exist"
        raise LoadFailed(msg)
