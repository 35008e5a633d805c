"""One version of a model: how it does, its inputs and outputs, its instances, its configuration, its log."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import TabbedContent, TabPane

from .. import model_page
from ..failure import ClientError
from ..widgets.line import Line
from ..widgets.pane import Pane
from .base import DashboardScreen

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.widget import Widget

    from ..rates import History
    from ..snapshot import LogRecord, Overview

TABS = {"overview": "Overview", "io": "Inputs & outputs", "instances": "Instances", "config": "Config", "log": "Log"}
_RECORDS = 500
_LEAST_GRAPH = 6


class ModelScreen(DashboardScreen):
    """Opened from the table of models. What a picture has is drawn with it; the rest is asked for when looked at."""

    MODE = "models"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left_square_bracket", "turn(-1)", "Tab left", show=False, tooltip="The tab to the left"),
        Binding("right_square_bracket", "turn(1)", "Next tab", key_display="]", tooltip="The tab to the right"),
        Binding("y", "tab('config')", "Config", tooltip="The configuration in force"),
        Binding("l", "tab('log')", "Log", tooltip="What the server's log says of this model"),
        Binding("o", "change('load')", "Load", tooltip="Load it; asks first"),
        Binding("u", "change('unload')", "Unload", tooltip="Unload it; asks first"),
        Binding("r", "change('reload')", "Reload", tooltip="Reload it; asks first"),
        Binding("x", "try", "Try", show=False, tooltip="Call it"),
    ]

    def __init__(self, name: str, version: str, tab: str = "") -> None:
        """``tab`` is one of TABS, the first where it is empty."""
        super().__init__()
        self._name, self._version = name, version
        self._first = tab or "overview"
        self._records: deque[LogRecord] = deque(maxlen=_RECORDS)
        self._log_asked = False
        self._log_last = -1

    @property
    def crumbs(self) -> tuple[str, ...]:
        """The model and its version."""
        return (f"{self._name} {self._version}".strip(),)

    @property
    def subject(self) -> str:
        """The model."""
        return self._name

    @property
    def _tabs(self) -> TabbedContent:
        return self.query_one(TabbedContent)

    def compose_body(self) -> Iterable[Widget]:
        """The tabs."""
        with TabbedContent(initial=self._first):
            with TabPane(TABS["overview"], id="overview"):
                yield from self._overview()
            for name in list(TABS)[1:]:
                with TabPane(TABS[name], id=name):
                    yield Pane(id=f"{name}-text", follow=name == "log")

    def _overview(self) -> Iterable[Widget]:
        from textual.containers import Horizontal

        yield Line(id="head")
        with Horizontal(id="bars"):
            yield Line(id="phases")
            yield Line(id="batches")
        yield Line(id="graphs")

    def show(self, overview: Overview, history: History) -> None:
        """Draw what a picture has; ask for what it has not."""
        row = overview.model(self._name, self._version) or overview.model(self._name)
        if row is None:
            gone = f"{self._name} is no longer in the server's repository"
            self.query_one("#head", Line).say(Content.styled(gone, "$error"))
            return
        self._version = row.version
        if self._tabs.active == "overview":
            self._show_overview(overview, history)
        elif self._tabs.active == "instances":
            self.query_one("#instances-text", Pane).say(model_page.instances(row.instances))
        elif self._tabs.active == "log" and overview.log_last != self._log_last:
            self._ask_log(overview.log_last)

    def _show_overview(self, overview: Overview, history: History) -> None:
        row = overview.model(self._name, self._version)
        assert row is not None  # noqa: S101  the caller found it
        rates = history.rates(self._name, self._version)
        half = (self.size.width - 4) // 2
        self.query_one("#head", Line).say(model_page.head(row, rates, overview.dependents(self._name)))
        self.query_one("#phases", Line).say(model_page.phases(rates, half))
        self.query_one("#batches", Line).say(model_page.batches(row, half, 5))
        self._show_graphs(history)

    def _show_graphs(self, history: History) -> None:
        """As many pictures as there are columns, in the room that the rest leaves."""
        graphs = self.query_one("#graphs", Line)
        width, height = graphs.size.width, max(_LEAST_GRAPH, graphs.size.height)
        columns = max(1, width - model_page.SCALE)
        series = history.series(self._name, self._version, columns)
        first = history.pictures[max(0, len(history.pictures) - 1 - columns)]
        seconds = history.pictures[-1].server.now - first.server.now
        rates = history.rates(self._name, self._version)
        graphs.say(model_page.graphs(series, rates, seconds, width, height))

    def on_resize(self) -> None:
        """Bars and graphs are as wide as the screen."""
        self.call_after_refresh(self.catch_up)

    def on_tabbed_content_tab_activated(self) -> None:
        """Show what the tab is for."""
        name = self._tabs.active
        pane = self.query(f"#{name}-text")
        if pane:
            pane.first().focus()
        if name in ("io", "config"):
            self.run_worker(self._ask_document(name), group=name, exclusive=True)
        self._log_last = -1
        self.catch_up()

    async def _ask_document(self, tab: str) -> None:
        pane = self.query_one(f"#{tab}-text", Pane)
        source = self.dashboard.source
        try:
            if tab == "io":
                pane.say(model_page.tensors(await asyncio.to_thread(source.metadata, self._name, self._version)))
            else:
                document = await asyncio.to_thread(source.config, self._name, self._version)
                pane.say(json.dumps(document, indent=2, ensure_ascii=False))
        except ClientError as error:
            pane.say(model_page.failure(error.what, error.why, error.fix))

    def _ask_log(self, last: int) -> None:
        if not self._log_asked:
            self._log_asked = True
            self._log_last = last
            self.run_worker(self._add_log(), group="log")

    async def _add_log(self) -> None:
        pane = self.query_one("#log-text", Pane)
        after = self._records[-1].seq if self._records else None
        try:
            page = await asyncio.to_thread(self.dashboard.source.log, after=after, limit=_RECORDS, model=self._name)
        except ClientError as error:
            pane.say(model_page.failure(error.what, error.why, error.fix))
            return
        finally:
            self._log_asked = False
        self._records.extend(page.records)
        empty = Content.styled(f"the log has no records of {self._name}", "dim")
        pane.say(model_page.lines(model_page.log_line(record) for record in self._records) if self._records else empty)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002  the base's
        """Where nothing may be changed the keys for it are dim."""
        return None if action == "change" and self.dashboard.refusal else True

    def action_turn(self, step: int) -> None:
        """Another tab."""
        names = list(TABS)
        self._tabs.active = names[(names.index(self._tabs.active) + step) % len(names)]

    def action_tab(self, name: str) -> None:
        """A tab by its name."""
        self._tabs.active = name

    def action_change(self, verb: str) -> None:
        """Change the model."""
        self.dashboard.change(verb, (self._name,))

    def action_try(self) -> None:
        """Call the model."""
        self.dashboard.perform("try", self._name, self._version)
