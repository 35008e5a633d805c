"""The log as the dashboard keeps and shows it: the newest records, filtered, laid out in lines of a width. Pure."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from .filtering import Filter
from .snapshot import LogRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .snapshot import LogPage

KEPT = 5000
"""Records in memory; older ones are dropped."""

NOTE = "NOTE"
"""The level of what the dashboard itself has to say between the lines."""

LEVELS = ("", "INFO", "WARNING", "ERROR")
"""The least level that is shown; the empty one shows what is more verbose too."""

_RANKS = {"VERBOSE": 0, "INFO": 1, "WARNING": 2, "ERROR": 3, NOTE: 9}
_SHORT = {"WARNING": "WARN", "VERBOSE": "VERB"}
_LEVEL_WIDTH = 5
_CONTROLS = dict.fromkeys((*range(32), *range(127, 160)), "�") | {ord("\t"): "    "}
_NARROWEST = 20
_INDENT = 2


class LogBook:
    """Takes pages as they come. ``last`` is the number of the newest record that was taken."""

    def __init__(self, kept: int = KEPT) -> None:
        self.records: deque[LogRecord] = deque(maxlen=kept)
        self.last: int | None = None
        self.lost = 0
        self.dropped = 0

    def take(self, page: LogPage) -> list[LogRecord]:
        """Keep the records of a page; what is new to show, in order, notes on what is missing among it.

        A server that begins to count anew was started anew: its log is read from its beginning.
        """
        new: list[LogRecord] = []
        if self.last is not None and page.last < self.last:
            new.append(_note("the server was started anew"))
            self.last = 0
            self._keep(new)
            return new
        if page.lost:
            self.lost += page.lost
            new.append(_note(f"{page.lost} lines are lost: the server dropped them before they were read"))
        new += page.records
        self.last = page.records[-1].seq if page.records else max(self.last or 0, page.last)
        self._keep(new)
        return new

    def _keep(self, new: Sequence[LogRecord]) -> None:
        over = len(self.records) + len(new) - (self.records.maxlen or 0)
        self.dropped += max(0, over)
        self.records.extend(new)

    @property
    def models(self) -> tuple[str, ...]:
        """The models that lines speak of, by name."""
        return tuple(sorted({record.model for record in self.records if record.model}))


def _note(text: str) -> LogRecord:
    return LogRecord(0, 0.0, NOTE, text)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What of the log is shown, and how. ``search`` marks lines and leaves none out."""

    level: str = ""
    model: str = ""
    filter: Filter = field(default_factory=Filter)
    search: Filter = field(default_factory=Filter)
    wrap: bool = False
    times: bool = True

    def shows(self, record: LogRecord) -> bool:
        """Whether a record is shown. Notes always are."""
        if record.level == NOTE:
            return True
        if _RANKS.get(record.level, 1) < _RANKS.get(self.level, 0) or self.model not in ("", record.model):
            return False
        return self.filter.keeps(f"{record.level} {record.model} {record.message} {record.request_id}")

    def finds(self, record: LogRecord) -> bool:
        """Whether the search finds a record."""
        return self.search.active and self.search.keeps(f"{record.model} {record.message} {record.request_id}")

    def stricter(self) -> Wanted:
        """The next level; after the last, everything."""
        place = (LEVELS.index(self.level) + 1) % len(LEVELS)
        return replace(self, level=LEVELS[place])

    @property
    def words(self) -> list[str]:
        """What is left out, in words."""
        return [
            *([f"{self.level} and worse"] if self.level else []),
            *([f"model {self.model}"] if self.model else []),
        ]


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the screen: head (time and level) and text; ``first`` where a record begins."""

    record: LogRecord
    head: str
    model: str
    text: str
    first: bool = True


def rows(records: Iterable[LogRecord], wanted: Wanted, width: int) -> list[Row]:
    """The lines of those records that are shown."""
    return [row for record in records if wanted.shows(record) for row in _rows(record, wanted, width)]


def _rows(record: LogRecord, wanted: Wanted, width: int) -> list[Row]:
    if record.level == NOTE:
        return [Row(record, "", "", f"── {record.message} ──")]
    head = f"{clock(record.time)} " if wanted.times else ""
    head += f"{_SHORT.get(record.level, record.level):<{_LEVEL_WIDTH}} "
    model = f"{clean(record.model)}  " if record.model and not wanted.model else ""
    lines = [clean(line) for line in record.message.splitlines()] or [""]
    room = max(_NARROWEST, width - len(head))
    pieces: list[str] = []
    for number, line in enumerate(lines):
        taken = len(model) if number == 0 else _INDENT
        pieces += chop(line, room - taken, room - _INDENT) if wanted.wrap else [line]
    blank = " " * (len(head) + _INDENT)
    return [
        Row(record, head, model, piece) if number == 0 else Row(record, blank, "", piece, first=False)
        for number, piece in enumerate(pieces)
    ]


def chop(text: str, first: int, others: int) -> list[str]:
    """A line in pieces of at most so many columns, letters of two columns counted as such."""
    from rich.cells import cell_len, chop_cells

    first, others = max(1, first), max(1, others)
    if cell_len(text) <= first:
        return [text]
    head = chop_cells(text, first)[0]
    rest = text[len(head) :]
    return [head, *(chop_cells(rest, others) if rest else [])]


def clean(text: str) -> str:
    """Text that a terminal shows as it is: a line of a log must not move the cursor or set colours."""
    return text if text.isprintable() else text.translate(_CONTROLS)


def clock(moment: float) -> str:
    """The time of day here, to the millisecond."""
    return time.strftime("%H:%M:%S", time.localtime(moment)) + f".{int(moment * 1000) % 1000:03d}"


def found(shown: Sequence[Row], wanted: Wanted) -> list[int]:
    """The lines where a record begins that the search finds."""
    return [place for place, row in enumerate(shown) if row.first and wanted.finds(row.record)]


def next_match(places: Sequence[int], now: int, step: int) -> int | None:
    """The match after (1) or before (-1) a line, round the end; None where there is none."""
    if not places:
        return None
    if step > 0:
        return next((place for place in places if place > now), places[0])
    return next((place for place in reversed(places) if place < now), places[-1])
