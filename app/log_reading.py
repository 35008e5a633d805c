"""A server's log from the server itself: the newest records, and those that follow, across what was lost in between."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .log_lines import read_lines, wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ..tui.snapshot import LogRecord
    from ..tui.source import Source

PAGE = 1000
"""The most records of one answer."""

_FILE_BYTES = 16 << 20
"""How much of the end of a file is read."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which records: at least of that level, of that model; empty is any."""

    level: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True)
class Gap:
    """Records that were gone before they could be read."""

    lost: int


def newest(source: Source, count: int, choice: Choice) -> tuple[tuple[LogRecord, ...], int]:
    """The last ``count`` records of a server, and the number to go on after. Raises ClientError."""
    if count <= PAGE:
        page = source.log(limit=max(1, count), level=choice.level, model=choice.model)
        return page.records[len(page.records) - count :] if count else (), page.last
    records: list[LogRecord] = []
    after = 0
    while True:
        page = source.log(after=after, limit=PAGE, level=choice.level, model=choice.model)
        records += page.records
        after = page.last
        if len(page.records) < PAGE:
            return tuple(records[-count:]), after


def follow(source: Source, after: int, choice: Choice, pause: Callable[[], None]) -> Iterator[LogRecord | Gap]:
    """What a server logs from now on, without an end. Raises ClientError when it does not answer any more."""
    while True:
        page = source.log(after=after, limit=PAGE, level=choice.level, model=choice.model)
        if page.lost:
            yield Gap(page.lost)
        yield from page.records
        after = page.last
        if len(page.records) < PAGE:
            pause()


def from_file(path: Path, count: int, choice: Choice, now: float) -> list[LogRecord]:
    """The last ``count`` records in a file and the one that was put aside before it.

    ``now`` is in seconds since 1970. Raises OSError where the file cannot be read.
    """
    lines = _tail(path)
    with suppress(OSError):
        lines = _tail(path.with_name(f"{path.name}.1")) + lines
    records = (about(record, choice.model) for record in read_lines(lines, now))
    found = [record for record in records if wanted(record, choice.level, choice.model)]
    return found[len(found) - min(count, len(found)) :]


def _tail(path: Path) -> list[str]:
    """The last lines of a file. Raises OSError."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _FILE_BYTES))
        lines = file.read().decode("utf-8", "replace").splitlines()
    return lines[1:] if size > _FILE_BYTES else lines


def about(record: LogRecord, model: str) -> LogRecord:
    """The record, with the model that its text is about: lines of the two text formats say it only there."""
    text = record.message
    if model and not record.model and (f"'{model}'" in text or text.startswith(f"{model}_")):
        return replace(record, model=model)
    return record
