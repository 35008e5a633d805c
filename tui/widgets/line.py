"""One or more lines of text that are drawn again only where they change."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static


class Line(Static):
    """A Static that takes text as it is, brackets and all, and knows what it shows."""

    def __init__(self, text: str = "", *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002  Textual's
        super().__init__(text, id=id, classes=classes, markup=False)
        self._said: tuple[object, ...] = (text, ())

    def say(self, text: Content | str) -> None:
        """Show a text, if it is another than before."""
        said = (text.plain, tuple(text.spans)) if isinstance(text, Content) else (text, ())
        if said != self._said:
            self._said = said
            self.update(text)
