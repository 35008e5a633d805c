"""The pictures in the repository are what the dashboard looks like now.

Those of the README, and machine, log and calls at 80x24 and 120x40; `make pictures` writes them anew.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow


def test_pictures_and_screens_are_drawn_as_they_were(root: Path) -> None:
    words = [sys.executable, str(root / "packaging" / "screens" / "make"), "--check"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr


def test_every_picture_is_small(root: Path) -> None:
    pictures = [*(root / "packaging" / "screens").glob("*.svg"), *(root / "tests/payloads/screens").glob("*.svg")]
    assert len(pictures) >= 10
    assert all(picture.stat().st_size < 100_000 for picture in pictures)
