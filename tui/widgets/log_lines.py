"""Lines of a log on the screen: only those that can be seen are drawn, however many there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from .. import log_book
from ..dashboard import app_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..log_book import Row, Wanted
    from ..snapshot import LogRecord

_COLOURS = {"ERROR": "error", "WARNING": "warning", "VERBOSE": "text-muted", log_book.NOTE: "accent"}
_SIDEWAYS = 8


class LogLines(ScrollView, can_focus=True):
    """Scrolls by keys and mouse. Whoever scrolls up stops following; the end is followed again."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", "Down", show=False, tooltip="One line down"),
        Binding("up,k", "move(-1)", "Up", show=False, tooltip="One line up"),
        Binding("pagedown,ctrl+d", "page(1)", "Page down", show=False, tooltip="One page on"),
        Binding("pageup,ctrl+u", "page(-1)", "Page up", show=False, tooltip="One page back"),
        Binding("g,home", "top", "Top", show=False, tooltip="To the oldest line"),
        Binding("G,end", "bottom", "End", show=False, tooltip="To the newest line, and follow"),
        Binding("left", "aside(-1)", "Left", show=False, tooltip="Scroll to the left"),
        Binding("right", "aside(1)", "Right", show=False, tooltip="Scroll to the right"),
    ]

    class Followed(Message):
        """The end is followed now, or is not any more."""

    def __init__(self) -> None:
        super().__init__(id="log")
        self.rows: list[Row] = []
        self.follow = True
        self.marked = -1
        self._wanted = log_book.Wanted()
        self._styles: dict[str, Style] = {}

    def on_mount(self) -> None:
        """Colours follow the theme."""
        app_of(self).theme_changed_signal.subscribe(self, lambda _: self._recolour())

    def _recolour(self) -> None:
        self._styles = {}
        self.refresh()

    def lay_out(self, records: Iterable[LogRecord], wanted: Wanted) -> None:
        """All lines anew, since others are wanted or the width is another; the place is kept as far as it goes."""
        self._wanted = wanted
        top = self.rows[min(self.scroll_offset.y, len(self.rows) - 1)].record if self.rows else None
        self.rows = log_book.rows(records, wanted, self._width)
        self.marked = -1
        self._resized()
        if not self.follow and top is not None:
            place = next((at for at, row in enumerate(self.rows) if row.record.seq >= top.seq > 0), len(self.rows))
            self.scroll_to(y=place, animate=False)

    def append(self, records: Sequence[LogRecord], *, oldest: LogRecord | None) -> None:
        """More lines at the end; those before ``oldest`` are gone. What is being read stays where it is."""
        gone = 0
        if oldest is not None:
            gone = next((at for at, row in enumerate(self.rows) if row.record.seq >= oldest.seq > 0), 0)
        added = log_book.rows(records, self._wanted, self._width)
        if not gone and not added:
            return
        del self.rows[:gone]
        self.rows += added
        self.marked = max(-1, self.marked - gone)
        self._resized()
        if gone and not self.follow:
            self.scroll_to(y=max(0, self.scroll_offset.y - gone), animate=False)

    @property
    def _width(self) -> int:
        return max(1, self.scrollable_content_region.width or self.size.width or 80)

    def _resized(self) -> None:
        widest = 0
        if not self._wanted.wrap:
            widest = max((len(row.head) + len(row.model) + len(row.text) for row in self.rows), default=0)
        self.virtual_size = Size(widest, len(self.rows))
        if self.follow:
            self._to_end()
        self.refresh()

    def _to_end(self) -> None:
        # By force: scroll bars, which would allow it, appear with the next layout only.
        self.scroll_end(animate=False, immediate=True, force=True, x_axis=False)

    def watch_show_horizontal_scrollbar(self) -> None:
        """It takes a line away."""
        self.on_resize()

    def watch_show_vertical_scrollbar(self, shown: bool) -> None:  # noqa: FBT001  called by Textual
        """One that appears was not there when the lines were scrolled."""
        if shown:
            self.vertical_scrollbar.position = self.scroll_y

    def on_resize(self) -> None:
        """The end stays in view."""
        if self.follow:
            self._to_end()

    def render_line(self, y: int) -> Strip:
        """One line of the screen."""
        offset = self.scroll_offset
        place = offset.y + y
        width = self.size.width
        if place >= len(self.rows):
            return Strip.blank(width, self.rich_style)
        row = self.rows[place]
        strip = Strip(list(self._segments(row, marked=place == self.marked))).crop(offset.x, offset.x + width)
        return strip.extend_cell_length(width, self.rich_style).apply_style(self.rich_style)

    def _segments(self, row: Row, *, marked: bool) -> Iterable[Segment]:
        level = self._style(_COLOURS.get(row.record.level, ""))
        whole = Style(reverse=True) if marked else Style()
        text = level if row.record.level in ("ERROR", log_book.NOTE) else Style()
        yield Segment(row.head, level + whole)
        yield Segment(row.model, self._style("primary") + whole)
        if self._wanted.finds(row.record) and not marked:
            text += Style(underline=True, bold=True)
        yield Segment(row.text, text + whole)

    def _style(self, colour: str) -> Style:
        if colour not in self._styles:
            value = app_of(self).theme_variables.get(colour, "") if colour else ""
            self._styles[colour] = Style(color=value) if value.startswith("#") else Style(dim=bool(colour))
        return self._styles[colour]

    def set_follow(self, follow: bool) -> None:  # noqa: FBT001  the word says what it is
        """Follow the end, or stay."""
        changed = follow != self.follow
        self.follow = follow
        if follow:
            self._to_end()
        if changed:
            self.post_message(self.Followed())

    def show_line(self, place: int) -> None:
        """Mark a line and bring it into view, a few lines below the top."""
        self.marked = place
        self.set_follow(False)
        height = self.size.height
        if not self.scroll_offset.y <= place < self.scroll_offset.y + height:
            self.scroll_to(y=max(0, place - height // 3), animate=False)
        self.refresh()

    def action_move(self, lines: int) -> None:
        """Up or down."""
        if lines < 0:
            self.set_follow(False)
        self.scroll_relative(y=lines, animate=False)

    def action_page(self, pages: int) -> None:
        """A page up or down."""
        self.action_move(pages * max(1, self.size.height - 1))

    def action_top(self) -> None:
        """The oldest line."""
        self.set_follow(False)
        self.scroll_to(y=0, animate=False)

    def action_bottom(self) -> None:
        """The newest line."""
        self.set_follow(True)

    def action_aside(self, steps: int) -> None:
        """Left or right, where lines are not wrapped."""
        self.scroll_relative(x=steps * _SIDEWAYS, animate=False)

    def on_mouse_scroll_up(self) -> None:
        """Reading back with the wheel stops following too."""
        self.set_follow(False)
