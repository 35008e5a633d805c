"""Mouse reports of a terminal. Textual's driver switches them at start and end only; a key switches them in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_MODES = (1000, 1003, 1015, 1006)
"""Buttons, movements, and the two encodings that hold wide terminals, as xterm numbers them."""

ON = "".join(f"\x1b[?{mode}h" for mode in _MODES)
OFF = "".join(f"\x1b[?{mode}l" for mode in _MODES)


def wanted(environment: Mapping[str, str]) -> bool:
    """Whether the dashboard begins with the mouse: INFER_NO_MOUSE leaves it to the terminal."""
    return not environment.get("INFER_NO_MOUSE")
