"""Small PyTorch models, made here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class AddSub(torch.nn.Module):
    """total = a + b and difference = a - b."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return a + b, a - b


@pytest.fixture
def script_file(tmp_path: Path) -> Callable[..., Path]:
    """``script_file(module)`` scripts a module into ``1/model.pt`` (or another name) and returns its path."""

    def write(module: torch.nn.Module, name: str = "model.pt") -> Path:
        path = tmp_path / "1" / name
        path.parent.mkdir(exist_ok=True)
        scripted: Any = torch.jit.script(module)
        scripted.save(path)
        return path

    return write


@pytest.fixture
def add_sub(script_file: Callable[..., Path]) -> Path:
    return script_file(AddSub())


@pytest.fixture
def exported_file(tmp_path: Path) -> Callable[..., Path]:
    """``exported_file(module, args, kwargs)`` exports with a free first dimension into ``1/model.pt2``."""

    def write(module: torch.nn.Module | None = None, args: tuple[Any, ...] = (), **kwargs: Any) -> Path:
        path = tmp_path / "1" / "model.pt2"
        path.parent.mkdir(exist_ok=True)
        args = args or (torch.zeros(2, 2), torch.ones(2, 2))
        program = torch.export.export(module or AddSub(), args, kwargs, dynamic_shapes=free_rows(args, kwargs))
        torch.export.save(program, path)
        return path

    return write


def free_rows(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Every tensor's first dimension may be any size."""

    def free(tree: Any) -> Any:
        if isinstance(tree, dict):
            return {key: free(child) for key, child in tree.items()}
        return {0: torch.export.Dim.AUTO}

    return tuple(free(tree) for tree in (*args, *kwargs.values()))
