"""The lines of a server's log file as records, and records as lines for a person. Pure.

A file holds lines of one of the three formats of ``--log-format``; what is in none of them (a table, a trace) belongs
to the record before it.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from ..tui.snapshot import LogRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LEVELS = ("VERBOSE", "INFO", "WARNING", "ERROR")
"""From the least to the most serious."""

_DEFAULT = re.compile(r"([IWE])(\d{4} \d\d:\d\d:\d\d\.\d+) \d+ (\S+:\d+)\] (.*)")
_ISO = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ) ([IWE]) \d+ (\S+:\d+)\] (.*)")
_LETTERS = {"I": "INFO", "W": "WARNING", "E": "ERROR"}


def read_lines(lines: Iterable[str], now: float) -> Iterator[LogRecord]:
    """The records in the lines of a file, numbered from 1. ``now`` (seconds since 1970) tells the year of a date."""
    current: LogRecord | None = None
    for line in lines:
        parsed = _parse(line, now)
        if parsed is None and current is None:
            parsed = LogRecord(0, 0.0, "INFO", line)
        if parsed is None and current is not None:
            current = replace(current, message=f"{current.message}\n{line}")
            continue
        if current is not None:
            yield current
        current = replace(cast("LogRecord", parsed), seq=current.seq + 1 if current else 1)
    if current is not None:
        yield current


def wanted(record: LogRecord, level: str, model: str) -> bool:
    """Whether a record is of that level or a more serious one, and of that model; empty is any."""
    serious = not level or LEVELS.index(record.level) >= LEVELS.index(level)
    return serious and model in ("", record.model)


def show(record: LogRecord) -> str:
    """A record for a person: time of day in UTC as in the file, level, model, message."""
    time = datetime.fromtimestamp(record.time, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] if record.time else ""
    about = f"{record.model}: " if record.model else ""
    return " ".join(part for part in (time, f"{record.level:7}", f"{about}{record.message}") if part).rstrip()


def _parse(line: str, now: float) -> LogRecord | None:
    """The record that a line begins; None where it goes on with the one before."""
    if line.startswith("{"):
        return _from_json(line)
    if match := _DEFAULT.fullmatch(line):
        letter, stamp, file, text = match.groups()
        return LogRecord(0, _recent(stamp, now), _LETTERS[letter], _unescaped(text), file)
    if match := _ISO.fullmatch(line):
        stamp, letter, file, text = match.groups()
        time = datetime.strptime(stamp, "%Y-%m-%dT%H:%M:%S%z").timestamp()
        return LogRecord(0, time, _LETTERS[letter], _unescaped(text), file)
    return None


def _from_json(line: str) -> LogRecord | None:
    try:
        document: Any = json.loads(line)
        time = datetime.fromisoformat(document["time"]).timestamp()
        level, message = str(document["level"]), str(document["message"])
    except (ValueError, KeyError, TypeError):
        return None
    if level not in LEVELS:
        level = "ERROR" if level == "CRITICAL" else "INFO"
    facts = [str(document.get(name) or "") for name in ("model", "version", "instance", "request_id")]
    more = [str(document[name]) for name in ("exception", "table") if document.get(name)]
    place = f"{document.get('file', '')}:{document.get('line', '')}"
    return LogRecord(0, time, level, "\n".join([message, *more]), place, *facts)


def _recent(stamp: str, now: float) -> float:
    """The last moment before ``now`` with that month, day and time of day, which is all that Triton's format has."""
    year = datetime.fromtimestamp(now, UTC).year
    # A day of grace for clocks that differ; four more years reach the last 29 February.
    for candidate in range(year + 1, year - 8, -1):
        try:
            time = datetime.strptime(f"{candidate}{stamp}+0000", "%Y%m%d %H:%M:%S.%f%z").timestamp()
        except ValueError:
            continue
        if time <= now + 86400:
            return time
    return 0.0


def _unescaped(text: str) -> str:
    try:
        value: object = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, str) else text
