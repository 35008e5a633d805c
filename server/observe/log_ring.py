"""The newest log lines, kept in memory for who looks at a running server.

The log writer's thread adds what it has written; any thread reads pages. Every record has a number, counted from 1, so
that a reader can go on where it was and is told what it has missed.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

CAPACITY: Final = 2000
"""Records that are kept."""

MESSAGE_LIMIT: Final = 8192
"""Characters of a message that are kept, so that a model that prints a lot does not fill the memory."""

LEVELS: Final = {
    "VERBOSE": logging.NOTSET,
    "INFO": logging.INFO,
    "WARNING": logging.WARNING,
    "ERROR": logging.ERROR,
}
"""The lowest stdlib level of each name."""


class LogEntry(NamedTuple):
    """One record. ``time`` is in seconds since 1970, ``file`` is ``name:line``; what is not known is ""."""

    seq: int
    time: float
    level: str
    message: str
    file: str
    model: str
    version: str
    instance: str
    request_id: str


@dataclass(frozen=True, slots=True)
class LogQuery:
    """What is asked for.

    ``after`` None asks for the last ``limit`` records, a number for the first ``limit`` that came after it. ``level``
    is the lowest one wanted, ``model`` "" any.
    """

    after: int | None = None
    limit: int = 200
    level: str = "VERBOSE"
    model: str = ""


class LogPage(NamedTuple):
    """An answer.

    ``last`` is the number to go on after: that of the newest record, or of the last one given where the page is full
    and more may follow. ``lost`` counts those after ``after`` that are not kept any more.
    """

    last: int
    lost: int
    records: tuple[LogEntry, ...]


class LogRing:
    """The last CAPACITY records. Any thread."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        """``capacity`` is how many are kept."""
        self._records: deque[LogEntry] = deque(maxlen=capacity)
        self._lock = threading.Lock()
        self._last = 0

    @property
    def last(self) -> int:
        """The number of the newest record, 0 where there was none yet."""
        return self._last

    def extend(self, records: Iterable[logging.LogRecord]) -> None:
        """Add records, the oldest first."""
        with self._lock:
            for record in records:
                self._last += 1
                self._records.append(entry(self._last, record))

    def read(self, query: LogQuery) -> LogPage:
        """What is asked for, the oldest first.

        A number beyond the newest one belongs to an earlier life of the server, and is answered like none.
        """
        with self._lock:
            kept, last = tuple(self._records), self._last
        if query.after is None or query.after > last:
            newest = islice((each for each in reversed(kept) if _fits(each, query)), query.limit)
            return LogPage(last, 0, tuple(newest)[::-1])
        first = last - len(kept) + 1
        lost = max(0, first - query.after - 1)
        following = kept[max(0, query.after - first + 1) :]
        found = tuple(islice((each for each in following if _fits(each, query)), query.limit))
        return LogPage(found[-1].seq if len(found) == query.limit else last, lost, found)


def entry(seq: int, record: logging.LogRecord) -> LogEntry:
    """What is kept of a record. Facts that were attached to it (``extra``) may be of any type."""
    facts = vars(record)
    message = record.getMessage()
    if record.exc_text:
        message = f"{message}\n{record.exc_text}"
    if len(message) > MESSAGE_LIMIT:
        message = f"{message[:MESSAGE_LIMIT]}… ({len(message)} characters)"
    return LogEntry(
        seq,
        record.created,
        level_name(record.levelno),
        message,
        f"{record.filename}:{record.lineno}",
        *(_fact(facts.get(name)) for name in ("model", "version", "instance", "request_id")),
    )


def level_name(level: int) -> str:
    """ERROR, WARNING, INFO or VERBOSE."""
    if level >= logging.ERROR:
        return "ERROR"
    if level >= logging.WARNING:
        return "WARNING"
    return "INFO" if level >= logging.INFO else "VERBOSE"


def _fact(value: object) -> str:
    return "" if value is None else str(value)


def _fits(record: LogEntry, query: LogQuery) -> bool:
    return LEVELS[record.level] >= LEVELS[query.level] and (not query.model or record.model == query.model)
