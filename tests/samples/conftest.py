"""What the tests of the samples share."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import infer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

REPOSITORY = Path(__file__).parents[2] / "model_repository"


@pytest.fixture(scope="package")
def server() -> Iterator[infer.Server]:
    """All samples, in this process."""
    with infer.Server(model_repository=REPOSITORY) as running:
        yield running


@pytest.fixture(scope="session")
def repository() -> Path:
    """The samples' folder."""
    return REPOSITORY


@pytest.fixture(scope="session")
def script() -> Callable[[str], Any]:
    """Imports a file of the samples by its path in their folder."""

    def load(path: str) -> Any:
        spec = importlib.util.spec_from_file_location("sample_script", REPOSITORY / path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load
