"""A table that follows a picture: rows have an identity, and only cells whose text is another are drawn again."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import DataTable

from ..dashboard import app_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from textual import events
    from textual.coordinate import Coordinate

    from ..columns import Cell

Key = tuple[str, ...]
SEPARATOR = "\x1f"
"""Between the parts of a row's key in Textual's own keys, which are texts."""

_THEME_COLOURS = {
    "good": "success",
    "bad": "error",
    "warn": "warning",
    "accent": "primary",
}


class _Anchor(Text):
    """A cell of the first column, which knows its row so that the rows can be put in order."""

    key: Key = ()


class LiveTable(DataTable[Text]):
    """Rows by key, moved through by arrows and by letters. The cursor stays on its row wherever that goes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "select_cursor", "Open", key_display="enter", tooltip="Open what is selected"),
        Binding("down,j", "cursor_down", "Down", show=False, tooltip="Next row"),
        Binding("up,k", "cursor_up", "Up", show=False, tooltip="Previous row"),
        Binding("left", "cursor_left", "Left", show=False, tooltip="Scroll to the left"),
        Binding("right", "cursor_right", "Right", show=False, tooltip="Scroll to the right"),
        Binding("pagedown,ctrl+d", "page_down", "Page down", show=False, tooltip="One page on"),
        Binding("pageup,ctrl+u", "page_up", "Page up", show=False, tooltip="One page back"),
        Binding("g,home,ctrl+home", "scroll_top", "Top", show=False, tooltip="First row"),
        Binding("G,end,ctrl+end", "scroll_bottom", "Bottom", show=False, tooltip="Last row"),
    ]

    class Moved(Message):
        """Another row is selected now."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  Textual's name
        super().__init__(
            id=id, cursor_type="row", zebra_stripes=False, cell_padding=0, cursor_foreground_priority="renderable"
        )
        self._columns_shown: tuple[tuple[str, str, int], ...] = ()
        self._shown: dict[Key, tuple[Cell, ...]] = {}
        self._order: list[Key] = []
        self._selected: Key = ()
        self._syncing = False
        self._styles_now: dict[str, str] = {}

    @property
    def selected(self) -> Key:
        """The key of the row under the cursor; empty where there is none."""
        return self._selected if self._selected in self._shown else ()

    def on_mount(self) -> None:
        """Colours follow the theme."""
        app_of(self).theme_changed_signal.subscribe(self, lambda _: self._forget())

    def _forget(self) -> None:
        """Draw everything anew with the next picture."""
        self._columns_shown = ()
        self._styles_now = {}

    def style_of(self, word: str) -> str:
        """The style that a word stands for, in the colours of the theme."""
        if not self._styles_now:
            variables = app_of(self).theme_variables
            self._styles_now = {name: variables[colour] for name, colour in _THEME_COLOURS.items()}
            self._styles_now |= {"": "", "dim": "dim", "strong": "bold"}
        return self._styles_now[word]

    def sync(self, columns: Sequence[tuple[str, str, int]], rows: Mapping[Key, Sequence[Cell]]) -> None:
        """Show these rows, in this order. ``columns``: name, title, width with its gap."""
        self._syncing = True
        try:
            self._sync(tuple(columns), rows)
        finally:
            self._syncing = False

    def _sync(self, wanted: tuple[tuple[str, str, int], ...], rows: Mapping[Key, Sequence[Cell]]) -> None:
        if wanted != self._columns_shown:
            self._build(wanted)
        for key in [key for key in self._order if key not in rows]:
            self.remove_row(SEPARATOR.join(key))
            del self._shown[key]
        for key, cells in rows.items():
            if key in self._shown:
                self._update(key, tuple(cells))
            else:
                self._add(key, tuple(cells))
        order = list(rows)
        if list(self._shown) != order:
            self._arrange(order)
        elif self._order != order:
            self._order = order
        self._hold()

    def _build(self, columns: tuple[tuple[str, str, int], ...]) -> None:
        offset = self.scroll_offset
        self.clear(columns=True)
        self._shown, self._order = {}, []
        for name, title, width in columns:
            self.add_column(Text(title, no_wrap=True, overflow="ellipsis"), key=name, width=width)
        self._columns_shown = columns
        self.call_after_refresh(self.scroll_to, offset.x, offset.y, animate=False)

    def _text(self, cell: Cell, *, anchor: Key | None = None) -> Text:
        kind = Text if anchor is None else _Anchor
        text = kind(cell.text, self.style_of(cell.style), no_wrap=True)
        if isinstance(text, _Anchor) and anchor is not None:
            text.key = anchor
        return text

    def _add(self, key: Key, cells: tuple[Cell, ...]) -> None:
        texts = [self._text(cell, anchor=None if index else key) for index, cell in enumerate(cells)]
        self.add_row(*texts, key=SEPARATOR.join(key))
        self._shown[key] = cells

    def _update(self, key: Key, cells: tuple[Cell, ...]) -> None:
        before = self._shown[key]
        if cells == before:
            return
        row = SEPARATOR.join(key)
        for index, (old, new) in enumerate(zip(before, cells, strict=True)):
            if old != new:
                name = self._columns_shown[index][0]
                self.update_cell(row, name, self._text(new, anchor=None if index else key))
        self._shown[key] = cells

    def _arrange(self, order: list[Key]) -> None:
        places = {key: place for place, key in enumerate(order)}

        def place(cell: _Anchor) -> int:
            return places[cell.key]

        self.sort(self._columns_shown[0][0], key=place)
        self._shown = {key: self._shown[key] for key in order}
        self._order = order

    def _hold(self) -> None:
        """Keep the cursor on its row; where that is gone, where it was."""
        if not self._order:
            return
        if self._selected in self._shown:
            place = self._order.index(self._selected)
        else:
            place = min(self.cursor_row, len(self._order) - 1)
            self._selected = self._order[place]
            self.post_message(self.Moved())
        if place != self.cursor_row:
            self.move_cursor(row=place, animate=False)

    def select(self, key: Key) -> None:
        """Put the cursor on a row."""
        if key in self._shown:
            self._selected = key
            self.move_cursor(row=self._order.index(key), animate=False)
            self.post_message(self.Moved())

    def watch_cursor_coordinate(self, old_coordinate: Coordinate, new_coordinate: Coordinate) -> None:
        """The cursor has moved; by the user where no picture is being taken over."""
        super().watch_cursor_coordinate(old_coordinate, new_coordinate)
        if not self._syncing and new_coordinate.row < len(self._order):
            key = self._order[new_coordinate.row]
            if key != self._selected:
                self._selected = key
                self.post_message(self.Moved())

    async def _on_click(self, event: events.Click) -> None:
        """The first click selects a row, a second one opens it; the header sorts."""
        if self.row_count and event.style.meta.get("row", -1) == self.cursor_row:
            event.stop()
            self.action_select_cursor()
        else:
            await super()._on_click(event)

    def action_cursor_left(self) -> None:
        """Scroll, where the table is wider than the screen."""
        self.scroll_left()

    def action_cursor_right(self) -> None:
        """Scroll, where the table is wider than the screen."""
        self.scroll_right()

    def _on_mouse_move(self, event: events.MouseMove) -> None:
        """A row under the mouse is no row under the cursor: nothing is drawn for it."""
