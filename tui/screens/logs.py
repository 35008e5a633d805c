"""The server's log: followed while it is in front, filtered, searched."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from .. import glyphs, log_book
from ..cadence import State
from ..failure import ClientError
from ..filtering import Filter
from ..log_book import LogBook, Wanted
from ..widgets.filter_bar import FilterBar
from ..widgets.line import Line
from ..widgets.log_lines import LogLines
from ..widgets.prompt import Prompt
from .base import DashboardScreen

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.widget import Widget
    from textual.worker import Worker

    from ..rates import History
    from ..snapshot import Overview

_PAGE = 1000
_MODEL, _SEARCH = "model", "search"
_SHORTEST_S = 0.5


class LogsScreen(DashboardScreen):
    """Asks for new lines while it is in front, and only then."""

    MODE = "logs"

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

    def __init__(self) -> None:
        super().__init__()
        self._book = LogBook()
        self._wanted = Wanted()
        self._worker: Worker[None] | None = None
        self._asking = asyncio.Lock()
        self._error: ClientError | None = None

    @property
    def subject(self) -> str:
        """The model whose lines are shown."""
        return self._wanted.model

    @property
    def crumbs(self) -> tuple[str, ...]:
        """The model whose lines are shown."""
        return (self._wanted.model,) if self._wanted.model else ()

    @property
    def _lines(self) -> LogLines:
        return self.query_one(LogLines)

    def compose_body(self) -> Iterable[Widget]:
        """Facts, lines, what went wrong, and where words are typed."""
        yield Line("", id="facts")
        yield LogLines()
        yield Line("", id="reason")
        yield FilterBar()
        yield Prompt()

    def on_mount(self) -> None:
        """The keys go to the lines, which are laid out as another screen may have asked already."""
        self._lines.focus()
        self._lay_out(self._wanted)

    def show(self, overview: Overview, history: History) -> None:
        """A picture says nothing of the log."""

    def on_screen_resume(self) -> None:
        """Read on."""
        super().on_screen_resume()
        self._worker = self.run_worker(self._read, name="log", group="log", exclusive=True)

    def on_screen_suspend(self) -> None:
        """Nobody looks: nobody asks."""
        if self._worker is not None:
            self._worker.cancel()

    async def _read(self) -> None:
        while True:
            more = False
            if self.dashboard.link.state is not State.PAUSED:
                async with self._asking:
                    more = await self._ask()
            if not more:
                await asyncio.sleep(max(_SHORTEST_S, self.dashboard.link.interval_s))

    async def _ask(self) -> bool:
        """Whether there is more to read at once."""
        before = self._book.last
        try:
            page = await asyncio.to_thread(self.dashboard.source.log, after=before, limit=_PAGE)
        except ClientError as error:
            self._error = error
            self._say()
            return False
        self._error = None
        kept = len(self._book.records)
        new = self._book.take(page)
        oldest = self._book.records[0] if len(self._book.records) < kept + len(new) else None
        self._lines.append(new, oldest=oldest)
        self._say()
        return bool(page.records) and (self._book.last or 0) < page.last

    def _lay_out(self, wanted: Wanted) -> None:
        self._wanted = wanted
        if not self.is_mounted:
            return
        self._lines.lay_out(self._book.records, wanted)
        self._say()
        self.show_link(self.dashboard.link)

    def _say(self) -> None:
        wanted, lines = self._wanted, self._lines
        parts = [Content(f" {len(lines.rows)} lines"), Content("following" if lines.follow else "not following")]
        parts += [Content.styled(f" {word} ", "reverse") for word in wanted.words]
        if wanted.filter.active:
            parts.append(Content.styled(f" /{wanted.filter.text} ", "reverse"))
        if wanted.search.active:
            places = log_book.found(lines.rows, wanted)
            at = places.index(lines.marked) + 1 if lines.marked in places else 0
            parts.append(Content.styled(f" {wanted.search.text}: {at} of {len(places)} ", "bold $accent"))
        if self._book.lost:
            parts.append(Content.styled(f"{self._book.lost} lines lost", "$warning"))
        if self.dashboard.link.state is State.PAUSED:
            parts.append(Content.styled("paused", "$accent"))
        self.query_one("#facts", Line).say(Content(f"  {glyphs.DOT}  ").join(parts))
        reason = self.query_one("#reason", Line)
        reason.display = self._error is not None
        if self._error is not None:
            reason.say(f" {self._error.what}: {self._error.why}\n {self._error.fix}".rstrip())

    def on_resize(self) -> None:
        """Wrapped lines are broken anew."""
        if self._wanted.wrap:
            self.call_after_refresh(self._lay_out, self._wanted)

    def on_log_lines_followed(self) -> None:
        """The end is followed now, or is not."""
        self._say()

    def on_filter_bar_typed(self, message: FilterBar.Typed) -> None:
        """Show what fits."""
        self._lay_out(replace(self._wanted, filter=message.filter))

    def on_filter_bar_closed(self) -> None:
        """Back to the lines."""
        self._lines.focus()

    def on_prompt_closed(self) -> None:
        """Back to the lines."""
        self._lines.focus()

    def on_prompt_answered(self, message: Prompt.Answered) -> None:
        """A model, or what to search for."""
        if message.purpose == _MODEL:
            self.aim(message.text)
            return
        self._lay_out(replace(self._wanted, search=Filter(message.text)))
        self._jump(self._lines.scroll_offset.y - 1, 1)

    def aim(self, model: str, version: str = "") -> None:  # noqa: ARG002  lines of all versions belong together
        """Show the lines of one model; of all where the name is empty."""
        self._lay_out(replace(self._wanted, model=model))

    def action_follow(self) -> None:
        """Follow the end, or stay."""
        self._lines.set_follow(not self._lines.follow)

    def action_level(self) -> None:
        """The next level."""
        self._lay_out(self._wanted.stricter())

    def action_filter(self) -> None:
        """Type a filter."""
        self.query_one(FilterBar).open()

    def action_search(self) -> None:
        """Type what to search for."""
        self.query_one(Prompt).ask(_SEARCH, "search: a regular expression, then enter")

    def action_model(self) -> None:
        """Type a model's name."""
        latest = self.dashboard.history.latest
        known = dict.fromkeys([*(row.name for row in (latest.models if latest else ())), *self._book.models])
        self.query_one(Prompt).ask(_MODEL, "model: a name (right arrow completes), empty for all, then enter", known)

    def action_jump(self, step: int) -> None:
        """The next line that the search finds."""
        self._jump(self._lines.marked, step)

    def _jump(self, start: int, step: int) -> None:
        place = log_book.next_match(log_book.found(self._lines.rows, self._wanted), start, step)
        if place is not None:
            self._lines.show_line(place)
        self._say()

    def action_wrap(self) -> None:
        """Break long lines, or do not."""
        self._lay_out(replace(self._wanted, wrap=not self._wanted.wrap))

    def action_times(self) -> None:
        """Show or hide the time of day."""
        self._lay_out(replace(self._wanted, times=not self._wanted.times))

    def action_back(self) -> None:
        """Clear the search, the filter, the model, one after the other."""
        if self._wanted.search.active:
            self._lay_out(replace(self._wanted, search=Filter()))
        elif self._wanted.filter.active:
            self.query_one(FilterBar).reset()
        elif self._wanted.model:
            self.aim("")
        else:
            super().action_back()
