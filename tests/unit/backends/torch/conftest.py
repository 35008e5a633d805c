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
        scripted: Any = torch.jit.script(module)
        scripted.save(path)
        return path

    return write


@pytest.fixture
def add_sub(script_file: Callable[..., Path]) -> Path:
    return script_file(AddSub())
