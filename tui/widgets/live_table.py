"""A table that follows a picture: rows have an identity, and only rows whose text is another are drawn again.

Textual's own table draws every visible cell anew whenever one of them changes, which costs a dashboard of 20 busy
models more than all the rest together; this one puts finished texts beside each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from ..dashboard import app_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from textual import events

    from ..columns import Cell

Key = tuple[str, ...]
Titles = tuple[tuple[str, str, int], ...]
"""Name, title and width of each column, the width with its gap."""

_THEME_COLOURS = {"good": "success", "bad": "error", "warn": "warning", "accent": "primary"}
HEADER = 1
"""Lines above the first row; they stay where they are."""


def _column_at(titles: Titles, x: int) -> str:
    """The column at a place; empty right of the last one."""
    for name, _, width in titles:
        if x < width:
            return name
        x -= width
    return ""


class LiveTable(ScrollView, can_focus=True):
    """Rows by key, moved through by arrows and by letters. The cursor stays on its row wherever that goes."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"live-table--header", "live-table--cursor", "live-table--cursor-blurred"}

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open", key_display="enter", tooltip="Open what is selected"),
        Binding("down,j", "move(1)", "Down", show=False, tooltip="Next row"),
        Binding("up,k", "move(-1)", "Up", show=False, tooltip="Previous row"),
        Binding("pagedown,ctrl+d", "page(1)", "Page down", show=False, tooltip="One page on"),
        Binding("pageup,ctrl+u", "page(-1)", "Page up", show=False, tooltip="One page back"),
        Binding("home,g", "edge(0)", "Top", show=False, tooltip="First row"),
        Binding("end,G", "edge(1)", "Bottom", show=False, tooltip="Last row"),
        Binding("left", "scroll_left", "Left", show=False, tooltip="Scroll to the left"),
        Binding("right", "scroll_right", "Right", show=False, tooltip="Scroll to the right"),
    ]

    class Moved(Message):
        """Another row is selected now, or the rows are others."""

    class Opened(Message):
        """The user wants to see what the selected row stands for."""

    class TitleClicked(Message):
        """The user has clicked on a column's title."""

        def __init__(self, column: str) -> None:
            super().__init__()
            self.column = column

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  Textual's name
        super().__init__(id=id)
        self._titles: Titles = ()
        self._cells: dict[Key, tuple[Cell, ...]] = {}
        self._order: list[Key] = []
        self._selected: Key = ()
        self._styles_now: dict[str, Style] = {}

    @property
    def selected(self) -> Key:
        """The key of the row under the cursor; empty where there is none."""
        return self._selected if self._selected in self._cells else ()

    @property
    def cursor_row(self) -> int:
        """The place of the cursor; 0 where there are no rows."""
        return self._order.index(self._selected) if self._selected in self._cells else 0

    @property
    def titled(self) -> Titles:
        """The columns that are shown."""
        return self._titles

    def on_mount(self) -> None:
        """Colours follow the theme."""
        app_of(self).theme_changed_signal.subscribe(self, lambda _: self._recolour())

    def _recolour(self) -> None:
        self._styles_now = {}
        self.refresh()

    def sync(self, titles: Sequence[tuple[str, str, int]], rows: Mapping[Key, Sequence[Cell]]) -> None:
        """Show these rows, in this order."""
        cells = {key: tuple(row) for key, row in rows.items()}
        order, place = list(rows), self.cursor_row
        whole = tuple(titles) != self._titles or len(order) != len(self._order)
        changed = [
            row
            for row, (old, new) in enumerate(zip(self._order, order, strict=False))
            if old != new or self._cells[old] != cells[new]
        ]
        self._titles, self._cells, self._order = tuple(titles), cells, order
        self.virtual_size = Size(sum(width for _, _, width in titles), len(order) + HEADER)
        if whole:
            self.refresh()
        for row in changed if not whole else ():
            self._refresh_row(row)
        self._hold(place)

    def _hold(self, place: int) -> None:
        """Keep the cursor on its row; where that is gone, at its place."""
        if self._order and self._selected not in self._cells:
            self._selected = self._order[min(place, len(self._order) - 1)]
            self.post_message(self.Moved())
        if self.cursor_row != place:
            self._refresh_row(place)
            self._refresh_row(self.cursor_row)
            self._reveal()

    def select(self, key: Key) -> None:
        """Put the cursor on a row."""
        if key in self._cells and key != self._selected:
            self._refresh_row(self.cursor_row)
            self._selected = key
            self._refresh_row(self.cursor_row)
            self.post_message(self.Moved())
        self._reveal()

    def _refresh_row(self, row: int) -> None:
        line = row + HEADER - self.scroll_offset.y
        if HEADER <= line < self.size.height:
            self.refresh(Region(0, line, self.size.width, 1))

    @property
    def _page(self) -> int:
        return max(1, self.scrollable_content_region.height - HEADER)

    def _reveal(self) -> None:
        """Scroll as far as it takes to see the cursor."""
        row, first = self.cursor_row, self.scroll_offset.y
        if row < first:
            self.scroll_to(y=row, animate=False)
        elif row >= first + self._page:
            self.scroll_to(y=row - self._page + 1, animate=False)

    def _style(self, word: str) -> Style:
        """The style that a word stands for, in the colours of the theme."""
        if not self._styles_now:
            variables = app_of(self).theme_variables
            self._styles_now = {name: Style.parse(variables[colour]) for name, colour in _THEME_COLOURS.items()}
            self._styles_now |= {"": Style(), "dim": Style(dim=True), "strong": Style(bold=True)}
        return self._styles_now[word]

    def render_line(self, y: int) -> Strip:
        """One line of the screen."""
        x, first = self.scroll_offset
        row = y - HEADER + first
        base = self.rich_style
        if y < HEADER:
            base = self.get_component_rich_style("live-table--header")
            segments = [Segment(f"{title} "[:width].ljust(width), base) for _, title, width in self._titles]
        elif row < len(self._order):
            key = self._order[row]
            if key == self._selected:
                base = self.get_component_rich_style(
                    "live-table--cursor" if self.has_focus else "live-table--cursor-blurred"
                )
            segments = [Segment(f"{cell.text} ", base + self._style(cell.style)) for cell in self._cells[key]]
        else:
            segments = []
        width = self.size.width
        return Strip(segments).crop_extend(x, x + width, base)

    def watch_has_focus(self, has_focus: bool) -> None:  # noqa: FBT001  Textual's signature
        """The cursor's row looks different with the keys on it."""
        super().watch_has_focus(has_focus)
        self._refresh_row(self.cursor_row)

    def on_click(self, event: events.Click) -> None:
        """The first click selects a row, a second one opens it; one on a title is told."""
        offset = event.get_content_offset(self)
        if offset is None:
            return
        if offset.y < HEADER:
            column = _column_at(self._titles, offset.x + self.scroll_offset.x)
            if column:
                self.post_message(self.TitleClicked(column))
            return
        row = offset.y - HEADER + self.scroll_offset.y
        if row < len(self._order):
            if self._order[row] == self._selected:
                self.action_open()
            self.select(self._order[row])

    def action_open(self) -> None:
        """Enter."""
        if self.selected:
            self.post_message(self.Opened())

    def action_move(self, rows: int) -> None:
        """So many rows down."""
        if self._order:
            self.select(self._order[max(0, min(len(self._order) - 1, self.cursor_row + rows))])

    def action_page(self, pages: int) -> None:
        """So many pages down."""
        self.action_move(pages * self._page)

    def action_edge(self, end: int) -> None:
        """The first row, or the last one."""
        if self._order:
            self.select(self._order[-1 if end else 0])
