"""The environments that are kept between runs: which there are, who uses them, and the removal of those nobody needs.

One is a folder that is named by a hash. The last thing that is made in it is its mark, without which it counts as not
made; the mark's time is that of the last use. Who uses an environment shares the mark's lock, who removes one needs it
alone. The lock beside the folder is held by whoever makes or removes it. Everything here is blocking file I/O.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import cache

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from pathlib import Path

MARK = "infer-environment.json"


@dataclass(frozen=True, slots=True)
class Kept:
    """One environment on the disk.

    ``requirements`` is the file that it was made from and ``python`` its version, both "" where its making was broken
    off. ``size`` is in bytes, its own files only; ``used_at`` is the time of the last use, in seconds since 1970.
    """

    folder: Path
    requirements: str
    python: str
    size: int
    used_at: float
    in_use: bool


def place(environ: Mapping[str, str]) -> Path:
    """The folder that holds them."""
    return cache.cache_folder(environ) / "environments"


def lock_of(folder: Path) -> Path:
    """The file whose lock is held by whoever makes or removes an environment."""
    return folder.with_name(f"{folder.name}.lock")


def is_made(folder: Path) -> bool:
    """Whether it has its mark and still its interpreter, which a tidy user may have removed."""
    return (folder / MARK).is_file() and (folder / "bin" / "python").exists()


def hold(folder: Path) -> int | None:
    """Take a share in an environment, which counts as a use: nobody removes it while the descriptor is open.

    None where it is not made, or just being removed.
    """
    if not is_made(folder):
        return None
    try:
        descriptor = os.open(folder / MARK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    if os.fstat(descriptor).st_nlink == 0:
        # It was removed between the opening and the lock.
        os.close(descriptor)
        return None
    with contextlib.suppress(OSError):  # a cache that may only be read serves as well
        os.utime(descriptor)
    return descriptor


def listed(environ: Mapping[str, str]) -> list[Kept]:
    """All of them, the one that was used last first."""
    parent = place(environ)
    folders = [each for each in parent.iterdir() if each.is_dir()] if parent.is_dir() else []
    return sorted((_picture(each) for each in folders), key=lambda kept: kept.used_at, reverse=True)


def remove(folder: Path, unused_since: float) -> bool:
    """Remove one that was not used since a time and that nobody uses, makes or removes now; whether it was removed."""
    with _alone(lock_of(folder), make=True) as ours, _alone(folder / MARK) as unused:
        # Looked at once more: it may have been used since somebody decided.
        if not (ours and unused) or not folder.is_dir() or _used_at(folder) > unused_since:
            return False
        # First the mark, so that what is left counts as not made if this is broken off.
        (folder / MARK).unlink(missing_ok=True)
        cache.remove(folder)
        return not folder.exists()


def _picture(folder: Path) -> Kept:
    with _alone(lock_of(folder), make=True) as ours, _alone(folder / MARK) as unused:
        in_use = not (ours and unused)
    requirements, version = _origin(folder)
    return Kept(folder, requirements, version.partition(" ")[0], _size(folder), _used_at(folder), in_use)


def _origin(folder: Path) -> tuple[str, str]:
    """The requirements file and the version as the mark tells them, "" for what it does not."""
    try:
        content = json.loads((folder / MARK).read_bytes())
        return str(content["requirements"]), str(content["version"])
    except (OSError, ValueError, LookupError, TypeError):
        return "", ""


def _used_at(folder: Path) -> float:
    """When it was used last, or when its making was begun."""
    for path in (folder / MARK, folder):
        with contextlib.suppress(OSError):
            return path.stat().st_mtime
    return 0.0


def _size(folder: Path) -> int:
    found = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                found += os.lstat(os.path.join(parent, name)).st_blocks * 512  # noqa: PTH118  thousands of files
    return found


@contextlib.contextmanager
def _alone(path: Path, *, make: bool = False) -> Generator[bool]:
    """Hold the lock of a file alone, without waiting; whether that is so. One that is not there holds nobody up."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | (os.O_CREAT if make else 0), 0o600)
    except OSError:
        yield True
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
    else:
        yield True
    finally:
        os.close(descriptor)
