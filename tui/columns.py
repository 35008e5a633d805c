"""The table of models: its columns, which of them fit into a width, what cells say, and the order of rows. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size

from . import figures, glyphs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from .rates import Rates
    from .snapshot import ModelSnapshot

Key = tuple[str, str]
Value = float | str | None


@dataclass(frozen=True, slots=True)
class Row:
    """One version of a model: its picture, what it does now, and its requests a second before, oldest first."""

    model: ModelSnapshot
    rates: Rates
    history: Sequence[float] = ()
    marked: bool = False
    changing: str = ""

    @property
    def key(self) -> Key:
        """What makes this the same row in the next picture."""
        return self.model.key

    @property
    def filter_text(self) -> str:
        """What a filter looks at."""
        model = self.model
        return f"{model.name} {model.version} {glyphs.state_word(model.state)} {model.backend} {model.reason}"


@dataclass(frozen=True, slots=True)
class Cell:
    """A text and its style: a word of :data:`STYLES`."""

    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """One column. ``least`` is its width without the gap; a high ``rank`` goes first where room is short.

    ``key`` is the letter that sorts by it, ``value`` what it is sorted by.
    """

    name: str
    title: str
    least: int
    rank: int
    cell: Callable[[Row, int], Cell]
    value: Callable[[Row], Value]
    key: str = ""
    right: bool = True


STYLES = ("", "good", "bad", "warn", "dim", "accent", "strong")
"""What the words for styles are; the widget knows their colours."""

_LEAST_REASON = 8
"""Fewer letters of a reason say nothing; the line below the table has it in full."""

_STATE_STYLES = {"READY": "good", "UNAVAILABLE": "bad", "": "dim"}


def clip(text: str, width: int) -> str:
    """The text in ``width`` columns at most, an ellipsis where it was cut."""
    text = " ".join(text.split())
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(0, width - 1)).rstrip() + "…" if width > 0 else ""


def _state(row: Row, width: int) -> Cell:
    model = row.model
    if row.changing:
        return Cell(clip(f"◐ {row.changing}", width), "warn")
    words = f"{glyphs.state_sign(model.state, model.reason)} {glyphs.state_word(model.state)}"
    if model.reason and width > len(words) + _LEAST_REASON:
        words += f": {model.reason}"
    calm = glyphs.unloaded(model.state, model.reason)
    return Cell(clip(words, width), "dim" if calm else _STATE_STYLES.get(model.state, "warn"))


def _failures(row: Row, width: int) -> Cell:
    recent = row.rates.failures_s > 0
    text = figures.count(row.model.failed) + ("!" if recent else "")
    return Cell(clip(text, width), "bad" if recent else "dim" if not row.model.failed else "")


def _queue(row: Row, width: int) -> Cell:
    pending = row.model.pending
    full = bool(pending) and pending > max(1, row.model.max_batch_size)
    return Cell(
        clip(figures.count(pending) + ("!" if full else ""), width), "warn" if full else "" if pending else "dim"
    )


def _instances(row: Row, width: int) -> Cell:
    instances = row.model.instances
    away = [one for one in instances if one.state in ("dead", "restarting")]
    if away:
        return Cell(clip(f"{len(instances) - len(away)}/{len(instances)}!", width), "bad")
    return Cell(figures.count(len(instances)) if instances else figures.NONE, "" if instances else "dim")


def _number(text: Callable[[float | None], str], value: Callable[[Row], float | None]) -> Callable[[Row, int], Cell]:
    """A cell with a number; nothing and zero step back."""

    def cell(row: Row, width: int) -> Cell:
        found = value(row)
        return Cell(clip(text(found), width), "" if found else "dim")

    return cell


def _spark(row: Row, width: int) -> Cell:
    return Cell(figures.spark_line(list(row.history), width), "accent")


def _plain(text: Callable[[Row], str], style: str = "") -> Callable[[Row, int], Cell]:
    return lambda row, width: Cell(clip(text(row), width), style)


COLUMNS = (
    Column("mark", "", 1, 0, _plain(lambda row: glyphs.MARK if row.marked else "", "accent"), lambda row: row.marked),
    Column(
        "name",
        "model",
        12,
        0,
        _plain(lambda row: row.model.name, "strong"),
        lambda row: row.model.name,
        "N",
        right=False,
    ),
    Column("version", "ver", 3, 9, _plain(lambda row: row.model.version), lambda row: row.model.version),
    Column("state", "state", 13, 1, _state, lambda row: row.model.state, "S", right=False),
    Column(
        "backend",
        "backend",
        11,
        13,
        _plain(lambda row: row.model.backend, "dim"),
        lambda row: row.model.backend,
        "B",
        right=False,
    ),
    Column("instances", "inst", 5, 11, _instances, lambda row: float(len(row.model.instances))),
    Column(
        "requests",
        "req/s",
        6,
        2,
        _number(figures.rate, lambda row: row.rates.requests_s),
        lambda row: row.rates.requests_s,
        "R",
    ),
    Column(
        "p50",
        "p50",
        7,
        8,
        _number(figures.duration_us, lambda row: row.rates.p50_us),
        lambda row: row.rates.p50_us,
        "L",
    ),
    Column(
        "p99",
        "p99",
        7,
        3,
        _number(figures.duration_us, lambda row: row.rates.p99_us),
        lambda row: row.rates.p99_us,
        "P",
    ),
    Column("queue", "queue", 6, 4, _queue, lambda row: row.model.pending, "Q"),
    Column(
        "in_flight",
        "in fl",
        6,
        10,
        _number(figures.count, lambda row: row.model.in_flight),
        lambda row: row.model.in_flight,
        "I",
    ),
    Column(
        "batch",
        "batch",
        5,
        12,
        _number(figures.count, lambda row: row.rates.batch_size),
        lambda row: row.rates.batch_size,
    ),
    Column("failures", "fail", 6, 6, _failures, lambda row: float(row.model.failed), "F"),
    Column(
        "memory",
        "mem",
        7,
        7,
        _number(figures.size, lambda row: row.model.memory_bytes),
        lambda row: row.model.memory_bytes,
        "M",
    ),
    Column("trend", "trend", 8, 5, _spark, lambda row: row.rates.requests_s, right=False),
)
"""From left to right."""

BY_NAME = {column.name: column for column in COLUMNS}

Layout = tuple[tuple[Column, int], ...]
"""Columns with their widths, the gap of one column behind each not counted."""


def padded(cell: Cell, column: Column, width: int) -> Cell:
    """The cell filled up to its width, numbers to the right."""
    gap = " " * max(0, width - cell_len(cell.text))
    return Cell(gap + cell.text if column.right else cell.text + gap, cell.style)


def layout(width: int, longest_name: int, longest_state: int) -> Layout:
    """The columns that fit into ``width``, and how the room that is left is shared: names, the trend, then reasons."""
    chosen: list[Column] = []
    room = width
    for column in sorted(COLUMNS, key=lambda column: column.rank):
        if column.least + 1 <= room:
            chosen.append(column)
            room -= column.least + 1
        elif column.rank:
            break
    widths = {column.name: column.least for column in chosen}
    for name, most in (("name", longest_name), ("trend", 16), ("state", longest_state), ("trend", 30)):
        if name in widths:
            more = max(0, min(room, most - widths[name]))
            widths[name] += more
            room -= more
    return tuple((column, widths[column.name]) for column in COLUMNS if column.name in widths)


def everything(longest_name: int, longest_state: int) -> Layout:
    """All columns as wide as they like; the table scrolls."""
    wish = {"name": longest_name, "state": longest_state, "trend": 20}
    return tuple((column, max(column.least, wish.get(column.name, 0))) for column in COLUMNS)


@dataclass(frozen=True, slots=True)
class Sorting:
    """By which column, and which way."""

    column: str = "name"
    descending: bool = False

    def by(self, column: str) -> Sorting:
        """The same column again turns the order round; figures begin with the largest."""
        if column == self.column:
            return Sorting(column, not self.descending)
        return Sorting(column, BY_NAME[column].right)

    @property
    def arrow(self) -> str:
        """The sign beside the column's title."""
        return glyphs.DOWN if self.descending else glyphs.UP

    def sort(self, rows: Iterable[Row]) -> list[Row]:
        """Rows in order; equal ones by name and version, and what has no value at the end, whichever way it goes."""
        value = BY_NAME[self.column].value
        ordered = sorted(rows, key=lambda row: row.key)
        known = [row for row in ordered if value(row) is not None]
        known.sort(key=lambda row: _comparable(value(row)), reverse=self.descending)
        return [*known, *(row for row in ordered if value(row) is None)]


def _comparable(value: Value) -> tuple[int, float, str]:
    return (1, 0.0, value.lower()) if isinstance(value, str) else (0, float(value or 0), "")
