"""Whether a model's folder changed since it was loaded. Taking a stamp is blocking, comparing two is pure.

The rule is Triton's: a folder changed when the newest time in its tree, those of folders included, is greater than
the one that was recorded. A name or a size that differs is a change too, because what is copied with its old times,
or twice within one tick of the file system's clock, shows no newer time.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_BYTECODE = "__pycache__"
"""Written by the model's own interpreter while it loads; neither it nor the time that it leaves is a change."""


@dataclass(frozen=True, slots=True)
class EntryStamp:
    """One file or folder directly in a model's folder, with all that is below it. ``newest`` is in nanoseconds."""

    newest: int
    sizes: Mapping[str, int]
    """Bytes by path, folders as -1."""


@dataclass(frozen=True, slots=True)
class FolderStamp:
    """A model's folder at one moment. ``newest`` is over the whole tree, in nanoseconds."""

    newest: int = 0
    entries: Mapping[str, EntryStamp] = field(default_factory=dict[str, EntryStamp])


OLDEST = FolderStamp()
"""Older than any folder: what is compared with it has changed."""


def take(folder: Path) -> FolderStamp:
    """The folder's stamp. What vanishes while it is looked at is left out."""
    entries: dict[str, EntryStamp] = {}
    for entry in _listed(folder):
        found = {path: (time, size) for path, time, size in _walk(folder / entry, entry, frozenset())}
        if found:
            newest = max(time for time, _ in found.values())
            entries[entry] = EntryStamp(newest, {path: size for path, (_, size) in found.items()})
    newest = max((stamp.newest for stamp in entries.values()), default=0)
    return FolderStamp(max(newest, _own_time(folder)), entries)


def is_changed(before: FolderStamp, now: FolderStamp) -> bool:
    """Whether a model that was loaded with ``before`` is to be loaded anew."""
    names = before.entries.keys() | now.entries.keys()
    return now.newest > before.newest or any(
        _is_touched(before.entries.get(name), now.entries.get(name)) for name in names
    )


def unchanged_versions(before: FolderStamp, now: FolderStamp, *, config_files: frozenset[str]) -> frozenset[int]:
    """The versions that nothing between two stamps touched.

    What is neither a version's folder nor one of ``config_files`` belongs to every version: where it changed, none is
    left.
    """
    names = (before.entries.keys() | now.entries.keys()) - config_files
    touched = {name for name in names if _is_touched(before.entries.get(name), now.entries.get(name))}
    if any(not _is_version(name) for name in touched):
        return frozenset()
    return frozenset(int(name) for name in names - touched if _is_version(name))


def _is_touched(before: EntryStamp | None, now: EntryStamp | None) -> bool:
    return before is None or now is None or now.newest > before.newest or now.sizes != before.sizes


def _is_version(name: str) -> bool:
    return name.isascii() and name.isdigit()


def _listed(folder: Path) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if name != _BYTECODE)  # noqa: PTH208  names, not paths
    except OSError:
        return []


def _own_time(folder: Path) -> int:
    """When a folder's list of names changed, 0 where an interpreter left its bytecode in it."""
    try:
        return 0 if (folder / _BYTECODE).is_dir() else folder.stat().st_mtime_ns
    except OSError:
        return 0


def _walk(path: Path, name: str, above: frozenset[tuple[int, int]]) -> Iterator[tuple[str, int, int]]:
    """Path, time and size of a file, or of a folder and all that is below it.

    Links are followed, because versions often are links; ``above`` are the folders around it, so that a link to one
    of them ends there.
    """
    try:
        status = path.stat()
    except OSError:
        return
    if not path.is_dir():
        yield name, status.st_mtime_ns, status.st_size
        return
    yield name, _own_time(path), -1
    identity = (status.st_dev, status.st_ino)
    if identity not in above:
        for entry in _listed(path):
            yield from _walk(path / entry, f"{name}/{entry}", above | {identity})
