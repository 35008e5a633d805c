"""What EXECUTION_ENV_PATH means."""

from __future__ import annotations

from pathlib import Path

import pytest

from infer.backends.api.backend import ModelFiles
from infer.backends.api.errors import InvalidArgument, LoadFailed
from infer.backends.api.model_config import ModelConfig
from infer.backends.python.environments import reference

FILES = ModelFiles(Path("/models/m"), 1)


def config(path: str | None) -> ModelConfig:
    parameters = {} if path is None else {"EXECUTION_ENV_PATH": {"string_value": path}}
    return ModelConfig.from_document({"name": "m", "parameters": parameters})


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (None, None),
        ("", None),
        ("/opt/env", Path("/opt/env")),
        ("env", Path.cwd() / "env"),
        ("$$TRITON_MODEL_DIRECTORY/env.tar.gz", Path("/models/m/env.tar.gz")),
        ("$$TRITON_MODEL_DIRECTORY/1/../env", Path("/models/m/env")),
    ],
)
def test_a_path_is_that_of_the_parameter_with_the_models_folder_expanded(text: str | None, path: Path | None) -> None:
    assert reference.environment_path(config(text), FILES) == path


@pytest.mark.parametrize(
    "text", ["$$TRITON_MODEL_DIRECTORY/..", "$$TRITON_MODEL_DIRECTORY/../../etc", "x$$TRITON_MODEL_DIRECTORY"]
)
def test_a_path_that_starts_at_the_models_folder_must_stay_there(text: str) -> None:
    with pytest.raises(InvalidArgument, match="leads out of the model's folder"):
        reference.environment_path(config(text), FILES)


def test_an_environment_that_is_not_there_is_named_with_its_model(tmp_path: Path) -> None:
    reference.check_there(tmp_path, "m")
    with pytest.raises(LoadFailed, match=f"'{tmp_path / 'x'}' of model 'm' .EXECUTION_ENV_PATH. does not exist"):
        reference.check_there(tmp_path / "x", "m")


def test_the_archive_beside_a_program_bears_the_name_of_its_runtime(tmp_path: Path) -> None:
    assert reference.packed_beside(tmp_path / "model.py") is None
    archive = tmp_path / "pb_exec_env_model.py.tar.gz"
    archive.touch()
    assert reference.packed_beside(tmp_path / "model.py") == archive
    assert reference.packed_beside(tmp_path / "other.py") is None
