"""The table of models: which columns, which order, which rows are marked."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from .. import columns
from ..columns import Row, Sorting
from ..dashboard import app_of
from .live_table import LiveTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from textual import events

    from ..columns import Cell, Key, Layout
    from ..filtering import Filter
    from ..rates import History
    from ..snapshot import Overview

_TREND = 30
_NAME_STEP = 4
_LONGEST_NAME, _LONGEST_REASON = 48, 60


def _sort_bindings() -> list[BindingType]:
    return [
        Binding(
            column.key,
            f"sort('{column.name}')",
            f"Sort by {column.title}",
            show=False,
            tooltip=f"Sort by {column.title}; again: the other way round",
        )
        for column in columns.COLUMNS
        if column.key
    ]


def _cells(row: Row, chosen: Layout) -> list[Cell]:
    return [columns.padded(column.cell(row, width), column, width) for column, width in chosen]


class ModelTable(LiveTable):
    """Shows pictures with :meth:`show_models`. It asks to be shown one again, with Moved, where its user changes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "mark", "Mark", key_display="space", tooltip="Mark the row, or take the mark away"),
        Binding("a", "mark_all", "Mark all", show=False, tooltip="Mark all rows that are shown, or none"),
        Binding("w", "wide", "Wide", show=False, tooltip="All columns, or those that fit"),
        *_sort_bindings(),
        Binding("less_than_sign,comma", "sort_next(-1)", "Sort left", show=False, tooltip="Sort by the column before"),
        Binding(
            "greater_than_sign,full_stop", "sort_next(1)", "Sort right", show=False, tooltip="Sort by the next column"
        ),
    ]

    def __init__(self) -> None:
        super().__init__(id="models")
        self.sorting = Sorting()
        self.rows_shown: list[Row] = []
        self.total = 0
        self._marked: set[Key] = set()
        self._wide = False
        self._picture: tuple[Overview, History, Filter, Mapping[str, str]] | None = None

    @property
    def row(self) -> Row | None:
        """The row that is selected."""
        return next((row for row in self.rows_shown if row.key == self.selected), None)

    @property
    def marked(self) -> tuple[str, ...]:
        """The models that are marked, by name, in the order of the server."""
        names = self._picture[0].models if self._picture is not None else ()
        return tuple(dict.fromkeys(row.name for row in names if row.key in self._marked))

    def unmark(self) -> None:
        """Take all marks away."""
        self._marked.clear()
        self._again()

    def show_models(self, overview: Overview, history: History, wanted: Filter, changing: Mapping[str, str]) -> None:
        """Show a picture: the rows that a filter keeps. ``changing`` has words for models that are being changed."""
        self._picture = (overview, history, wanted, changing)
        self._marked &= {row.key for row in overview.models}
        rows = [
            Row(
                model,
                history.rates(*model.key),
                [rates.requests_s for rates in history.series(*model.key, _TREND)],
                model.key in self._marked,
                changing.get(model.name, ""),
            )
            for model in overview.models
        ]
        self.total = len(rows)
        self.rows_shown = self.sorting.sort(row for row in rows if wanted.keeps(row.filter_text))
        chosen = self._layout()
        titles = [(column.name, self._title(column, width), width + 1) for column, width in chosen]
        self.sync(titles, {row.key: _cells(row, chosen) for row in self.rows_shown})

    def _again(self) -> None:
        if self._picture is not None:
            self.show_models(*self._picture)
        self.post_message(self.Moved())

    def _layout(self) -> Layout:
        """Widths follow the longest name in steps, so that a row that comes or goes seldom moves the columns."""
        longest = max((len(row.model.name) for row in self.rows_shown), default=0)
        longest = -(-longest // _NAME_STEP) * _NAME_STEP
        reasons = (len(row.model.reason) + len(row.model.state) for row in self.rows_shown if row.model.reason)
        reason = max(reasons, default=0) + 4
        if self._wide:
            return columns.everything(longest, reason)
        width = self.scrollable_content_region.width or app_of(self).size.width
        return columns.layout(width, min(longest, _LONGEST_NAME), min(reason, _LONGEST_REASON))

    def _title(self, column: columns.Column, width: int) -> str:
        arrow = self.sorting.arrow if column.name == self.sorting.column else ""
        title = f"{column.title}{arrow}"
        return title.rjust(width) if column.right else title

    def on_resize(self, event: events.Resize) -> None:  # noqa: ARG002  the event's handler
        """Other columns may fit now."""
        self._again()

    def on_live_table_title_clicked(self, event: LiveTable.TitleClicked) -> None:
        """A click on a column's title sorts by it."""
        event.stop()
        self.action_sort(event.column)

    def action_sort(self, column: str) -> None:
        """Sort by a column, or the other way round."""
        self.sorting = self.sorting.by(column)
        self._again()

    def action_sort_next(self, step: int) -> None:
        """Sort by the next column that is shown."""
        shown = [column.name for column, _ in self._layout() if column.title]
        place = shown.index(self.sorting.column) if self.sorting.column in shown else 0
        self.action_sort(shown[(place + step) % len(shown)])

    def action_mark(self) -> None:
        """Mark the row, or take the mark away, and go on to the next."""
        if self.selected:
            self._marked ^= {self.rows_shown[self.cursor_row].key}
            self._again()
            self.action_move(1)

    def action_mark_all(self) -> None:
        """Mark all rows that are shown; where they are already, none."""
        shown = {row.key for row in self.rows_shown}
        self._marked = self._marked - shown if shown <= self._marked else self._marked | shown
        self._again()

    def action_wide(self) -> None:
        """All columns, or those that fit."""
        self._wide = not self._wide
        self._again()
