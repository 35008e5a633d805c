"""Everything that is drawn, in ASCII, for terminals that have no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.segment import Segment
from textual.filter import LineFilter

from ..glyphs import ascii_only

if TYPE_CHECKING:
    from textual.color import Color


class PlainText(LineFilter):
    """A filter over every line that reaches the terminal, whichever widget drew it."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:  # noqa: ARG002  the base's argument
        """The line in ASCII."""
        return [Segment(ascii_only(text), style, control) for text, style, control in segments]
