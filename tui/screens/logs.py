"""The server's log: followed while it is in front, filtered, searched."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ..cadence import State
from ..failure import ClientError
from ..widgets.line import Line
from ..widgets.log_view import LogView
from .base import DashboardScreen

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.widget import Widget
    from textual.worker import Worker

    from ..rates import History
    from ..snapshot import Overview

_PAGE = 1000
_SHORTEST_S = 0.5


class LogsScreen(DashboardScreen):
    """Asks for new lines while it is in front, and only then."""

    MODE = "logs"

    def __init__(self) -> None:
        super().__init__()
        self._view = LogView()
        self._worker: Worker[None] | None = None
        self._asking = asyncio.Lock()

    @property
    def subject(self) -> str:
        """The model whose lines are shown."""
        return self._view.wanted.model

    @property
    def crumbs(self) -> tuple[str, ...]:
        """The model whose lines are shown."""
        return (self.subject,) if self.subject else ()

    def compose_body(self) -> Iterable[Widget]:
        """The log, and below it what went wrong."""
        yield self._view
        yield Line("", id="reason")

    def on_mount(self) -> None:
        """Nothing is wrong yet."""
        self._explain(None)

    def show(self, overview: Overview, history: History) -> None:  # noqa: ARG002  the base's argument
        """A picture says which models there are, and nothing of the log."""
        self._view.models = tuple(row.name for row in overview.models)

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
        book = self._view.book
        try:
            page = await asyncio.to_thread(self.dashboard.source.log, after=book.last, limit=_PAGE)
        except ClientError as error:
            self._explain(error)
            return False
        self._explain(None)
        kept = len(book.records)
        new = book.take(page)
        oldest = book.records[0] if len(book.records) < kept + len(new) else None
        self._view.lines.append(new, oldest=oldest)
        self._view.say()
        return bool(page.records) and (book.last or 0) < page.last

    def _explain(self, error: ClientError | None) -> None:
        reason = self.query_one("#reason", Line)
        reason.display = error is not None
        if error is not None:
            reason.say(f" {error.what}: {error.why}\n {error.fix}".rstrip())

    def on_resize(self) -> None:
        """Wrapped lines are broken anew."""
        if self._view.wanted.wrap:
            self.call_after_refresh(self._view.lay_out, self._view.wanted)

    def on_log_view_aimed(self) -> None:
        """The breadcrumb names the model."""
        self.show_link(self.dashboard.link)

    def aim(self, model: str, version: str = "") -> None:  # noqa: ARG002  lines of all versions belong together
        """Show the lines of one model; of all where the name is empty."""
        self._view.aim(model)

    def action_back(self) -> None:
        """Clear the search, the filter, the model, one after the other."""
        if not self._view.clear_one():
            super().action_back()
