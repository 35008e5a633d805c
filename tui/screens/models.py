"""The models of a server: a row a version, live, to be sorted, filtered, marked and changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from .. import columns, glyphs
from ..dashboard import app_of
from ..widgets.filter_bar import FilterBar
from ..widgets.line import Line
from ..widgets.model_table import ModelTable
from .base import DashboardScreen

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.widget import Widget

    from ..rates import History
    from ..snapshot import Overview


class ModelsScreen(DashboardScreen):
    """The first screen. Small letters that change the server ask first; capital letters sort."""

    MODE = "models"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("o", "change('load')", "Load", tooltip="Load what is marked, or selected; asks first"),
        Binding("u", "change('unload')", "Unload", tooltip="Unload what is marked, or selected; asks first"),
        Binding("r", "change('reload')", "Reload", tooltip="Reload what is marked, or selected; asks first"),
        Binding("slash", "filter", "Filter", key_display="/", tooltip="Filter as you type; ! leaves out"),
        Binding("l", "visit('logs')", "Log", show=False, tooltip="The log of the selected model"),
        Binding("x", "visit('try')", "Try", show=False, tooltip="Call the selected model"),
        Binding("d", "visit('model')", "Describe", show=False, tooltip="Open the selected model, as enter does"),
        Binding("y", "visit('config')", "Config", show=False, tooltip="The configuration of the selected model"),
        Binding("c", "copy", "Copy", show=False, tooltip="Copy the model's name to the clipboard"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._refusal: str | None = None

    @property
    def _table(self) -> ModelTable:
        return self.query_one(ModelTable)

    @property
    def subject(self) -> str:
        """The model that is selected."""
        row = self._table.row
        return row.model.name if row is not None else ""

    def compose_body(self) -> Iterable[Widget]:
        """Facts, table, the reason of the selected row, the filter."""
        yield Line("", id="facts")
        yield ModelTable()
        yield Line("", id="reason")
        yield FilterBar()

    def on_mount(self) -> None:
        """The keys go to the table."""
        self._table.focus()

    def show(self, overview: Overview, history: History) -> None:
        """Show a picture."""
        if self._refusal != self.dashboard.refusal:
            self._refusal = self.dashboard.refusal
            self.refresh_bindings()
        self._table.show_models(overview, history, self.query_one(FilterBar).filter, self.dashboard.under_way)
        self._say()

    def _say(self) -> None:
        self.query_one("#facts", Line).say(self._facts())
        reason = self.query_one("#reason", Line)
        text = self._reason()
        reason.display = bool(text)
        reason.say(text)

    def _facts(self) -> Content:
        """How many, in which order, and what is left out: a line that always stands above the table."""
        table, wanted = self._table, self.query_one(FilterBar).filter
        title = columns.BY_NAME[table.sorting.column].title
        parts = [Content(f" {table.total} models"), Content(f"by {title} {table.sorting.arrow}")]
        if wanted.active:
            parts.append(Content.styled(f" /{wanted.text} ", "reverse") + f" {len(table.rows_shown)} shown, esc clears")
        if table.marked:
            parts.append(Content.styled(f"{glyphs.MARK} {len(table.marked)} marked", "bold $accent"))
        if self.dashboard.refusal:
            parts.append(Content.styled(f"read-only: {self.dashboard.refusal}", "$warning"))
        return Content(f"  {glyphs.DOT}  ").join(parts)

    def _reason(self) -> str:
        row = self._table.row
        if not self._table.total:
            return " no models: the server's repository is empty"
        if not self._table.rows_shown:
            return " the filter leaves nothing; esc clears it"
        return f" {row.model.name} {row.model.version}: {row.model.reason}" if row and row.model.reason else ""

    def on_live_table_moved(self) -> None:
        """Another row, another order, other marks."""
        self._say()

    def on_filter_bar_typed(self) -> None:
        """Show what fits."""
        self.catch_up()

    def on_filter_bar_closed(self) -> None:
        """Back to the table."""
        self._table.focus()

    def on_live_table_opened(self) -> None:
        """Enter."""
        self.action_visit("model")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002  the base's
        """Where nothing may be changed the keys for it are dim."""
        return None if action == "change" and self.dashboard.refusal else True

    def aim(self, model: str, version: str = "") -> None:
        """Put the cursor on a model."""
        rows = self._table.rows_shown
        key = next((row.key for row in rows if row.model.name == model and version in ("", row.model.version)), None)
        if key is not None:
            self._table.select(key)

    def action_change(self, verb: str) -> None:
        """Change what is marked, or the selected model."""
        names = self._table.marked or ((self.subject,) if self.subject else ())
        if names:
            self.dashboard.change(verb, names)

    def action_filter(self) -> None:
        """Type a filter."""
        self.query_one(FilterBar).open()

    def action_visit(self, verb: str) -> None:
        """Another screen, for the selected model."""
        row = self._table.row
        if row is not None:
            self.dashboard.perform(verb, row.model.name, row.model.version)

    def action_copy(self) -> None:
        """The name to the clipboard, by the terminal's own escape sequence: it works over SSH."""
        if self.subject:
            app_of(self).copy_to_clipboard(self.subject)
            self.notify(f"copied: {self.subject}", timeout=2, markup=False)

    def action_back(self) -> None:
        """Clear the filter, then the marks."""
        if self.query_one(FilterBar).filter.active:
            self.query_one(FilterBar).reset()
        elif self._table.marked:
            self._table.unmark()
        else:
            super().action_back()
