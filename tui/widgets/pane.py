"""A text that scrolls: by the arrows, by j and k, by pages, and to its ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll

from .line import Line

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.content import Content


class Pane(VerticalScroll):
    """One text. With ``follow`` it stays at the end while the end is in view."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "scroll_down", "Down", show=False, tooltip="One line on"),
        Binding("up,k", "scroll_up", "Up", show=False, tooltip="One line back"),
        Binding("pagedown,ctrl+d", "page_down", "Page down", show=False, tooltip="One page on"),
        Binding("pageup,ctrl+u", "page_up", "Page up", show=False, tooltip="One page back"),
        Binding("home,g", "scroll_home", "Top", show=False, tooltip="To the beginning"),
        Binding("end,G", "scroll_end", "End", show=False, tooltip="To the end"),
    ]

    def __init__(self, *, id: str | None = None, follow: bool = False) -> None:  # noqa: A002  Textual's name
        super().__init__(id=id)
        self._follow = follow

    def compose(self) -> ComposeResult:
        """The text."""
        yield Line()

    def say(self, text: Content | str) -> None:
        """Show a text."""
        at_end = self.scroll_offset.y >= self.max_scroll_y
        self.query_one(Line).say(text)
        if self._follow and at_end:
            self.call_after_refresh(self.scroll_end, animate=False)
