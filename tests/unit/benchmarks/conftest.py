"""The benchmarks are scripts beside each other, not a package: they are found by their folder."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3] / "benchmarks"))
