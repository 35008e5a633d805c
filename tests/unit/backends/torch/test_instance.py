from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from infer.backends.torch.backend import TorchBackend

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def io(inputs: dict[str, Any], outputs: dict[str, Any], **more: Any) -> dict[str, Any]:
    def entries(side: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"name": name, "data_type": data_type, "dims": dims} for name, (data_type, dims) in side.items()]

    return {"input": entries(inputs), "output": entries(outputs), **more}


PAIR = {"a": ("TYPE_FP32", [2]), "b": ("TYPE_FP32", [2])}
TWO = {"total": ("TYPE_FP32", [2]), "difference": ("TYPE_FP32", [2])}


def test_batch(drive: Callable[..., Any], add_sub: Path) -> None:
    driver = drive(TorchBackend)
    config = driver.config(**io(PAIR, TWO, max_batch_size=4))
    a, b = np.array([[1, 2]], np.float32), np.array([[3, 4]], np.float32)
    one, two = driver.execute(driver.instance(config), driver.request({"a": a, "b": b}), driver.request({"b": b, "a": a}))
    assert one.error is None
    assert one.outputs["total"].as_numpy().tolist() == [[4, 6]]
    assert two.outputs["difference"].as_numpy().tolist() == [[-2, -2]]
