"""The check of a machine's GPU says so where there is none."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import torch

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU: run benchmarks/gpu/check.py")
def test_without_a_gpu_the_check_ends_with_a_sentence_and_a_status_of_its_own(root: Path) -> None:
    words = [sys.executable, str(root / "benchmarks" / "gpu" / "check.py")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("nothing was checked: ")
    assert "GPU" in done.stderr
