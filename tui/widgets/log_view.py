"""The log with everything that chooses among its lines: level, filter, model, search, and what is said of it above."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message

from .. import glyphs, log_book
from ..filtering import Filter
from ..log_book import LogBook, Wanted
from .filter_bar import FilterBar
from .line import Line
from .log_lines import LogLines
from .prompt import Prompt

if TYPE_CHECKING:
    from textual.app import ComposeResult

_MODEL, _SEARCH = "model", "search"


class LogView(Vertical):
    """Shows a :class:`LogBook`, which somebody else fills."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "follow", "Follow", tooltip="Follow the end, or stay where you read"),
        Binding("v", "level", "Level", tooltip="All, INFO and worse, WARNING and worse, ERROR"),
        Binding("slash", "filter", "Filter", key_display="/", tooltip="Filter as you type; ! leaves out"),
        Binding("s", "search", "Search", tooltip="Mark what a regular expression finds; n and N go on"),
        Binding("n", "jump(1)", "Next", show=False, tooltip="The next line that the search finds"),
        Binding("N", "jump(-1)", "Previous", show=False, tooltip="The line before that the search finds"),
        Binding("a", "model", "Model", tooltip="The lines of one model; an empty name shows all"),
        Binding("w", "wrap", "Wrap", tooltip="Break long lines, or scroll to the right"),
        Binding("T", "times", "Times", show=False, tooltip="Show or hide the time of day"),
    ]

    class Aimed(Message):
        """Another model's lines are shown now."""

    def __init__(self) -> None:
        super().__init__(id="log-view")
        self.book = LogBook()
        self.wanted = Wanted()
        self.models: tuple[str, ...] = ()

    @property
    def lines(self) -> LogLines:
        """The lines on the screen."""
        return self.query_one(LogLines)

    def compose(self) -> ComposeResult:
        """Facts, lines, and where words are typed."""
        yield Line("", id="facts")
        yield LogLines()
        yield FilterBar()
        yield Prompt()

    def on_mount(self) -> None:
        """The keys go to the lines, which are laid out as another screen may have asked already."""
        self.lines.focus()
        self.lay_out(self.wanted)

    def lay_out(self, wanted: Wanted) -> None:
        """Show what is wanted now."""
        self.wanted = wanted
        if self.is_mounted:
            self.lines.lay_out(self.book.records, wanted)
            self.say()

    def say(self) -> None:
        """Say what is shown, and what is left out."""
        wanted, lines = self.wanted, self.lines
        parts = [Content(f" {len(lines.rows)} lines"), Content("following" if lines.follow else "not following")]
        parts += [Content.styled(f" {word} ", "reverse") for word in wanted.words]
        if wanted.filter.active:
            parts.append(Content.styled(f" /{wanted.filter.text} ", "reverse"))
        if wanted.search.active:
            places = log_book.found(lines.rows, wanted)
            at = places.index(lines.marked) + 1 if lines.marked in places else 0
            parts.append(Content.styled(f" {wanted.search.text}: {at} of {len(places)} ", "bold $accent"))
        if self.book.lost:
            parts.append(Content.styled(f"{self.book.lost} lines lost", "$warning"))
        self.query_one("#facts", Line).say(Content(f"  {glyphs.DOT}  ").join(parts))

    on_log_lines_followed = say

    def aim(self, model: str) -> None:
        """Show the lines of one model; of all where the name is empty."""
        self.lay_out(replace(self.wanted, model=model))
        self.post_message(self.Aimed())

    def clear_one(self) -> bool:
        """Clear the search, else the filter, else the model; whether there was any."""
        if self.wanted.search.active:
            self.lay_out(replace(self.wanted, search=Filter()))
        elif self.wanted.filter.active:
            self.query_one(FilterBar).reset()
        elif self.wanted.model:
            self.aim("")
        else:
            return False
        return True

    def on_filter_bar_typed(self, message: FilterBar.Typed) -> None:
        """Show what fits."""
        self.lay_out(replace(self.wanted, filter=message.filter))

    def on_filter_bar_closed(self) -> None:
        """Back to the lines."""
        self.lines.focus()

    on_prompt_closed = on_filter_bar_closed

    def on_prompt_answered(self, message: Prompt.Answered) -> None:
        """A model, or what to search for."""
        if message.purpose == _MODEL:
            self.aim(message.text)
            return
        self.lay_out(replace(self.wanted, search=Filter(message.text)))
        self._jump(self.lines.scroll_offset.y - 1, 1)

    def _jump(self, start: int, step: int) -> None:
        place = log_book.next_match(log_book.found(self.lines.rows, self.wanted), start, step)
        if place is not None:
            self.lines.show_line(place)
        self.say()

    def action_follow(self) -> None:
        """Follow the end, or stay."""
        self.lines.set_follow(not self.lines.follow)

    def action_level(self) -> None:
        """The next level."""
        self.lay_out(self.wanted.stricter())

    def action_filter(self) -> None:
        """Type a filter."""
        self.query_one(FilterBar).open()

    def action_search(self) -> None:
        """Type what to search for."""
        self.query_one(Prompt).ask(_SEARCH, "search: a regular expression, then enter")

    def action_model(self) -> None:
        """Type a model's name."""
        known = dict.fromkeys([*self.models, *self.book.models])
        self.query_one(Prompt).ask(_MODEL, "model: a name (right arrow completes), empty for all, then enter", known)

    def action_jump(self, step: int) -> None:
        """The next line that the search finds."""
        self._jump(self.lines.marked, step)

    def action_wrap(self) -> None:
        """Break long lines, or do not."""
        self.lay_out(replace(self.wanted, wrap=not self.wanted.wrap))

    def action_times(self) -> None:
        """Show or hide the time of day."""
        self.lay_out(replace(self.wanted, times=not self.wanted.times))
