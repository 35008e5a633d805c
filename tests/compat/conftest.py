"""The compatibility script's pieces lie beside each other, not in a package: they are found by their folder."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent))
