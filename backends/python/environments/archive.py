"""Unpacking an environment from tar or zip, with nothing written outside its folder.

An archive may hold folders, files and links that stay inside. One link may lead outside: the interpreter's
(``bin/python…``), because that is how a virtual environment refers to it, and nothing is ever written through a link.
"""

from __future__ import annotations

import os
import posixpath
import shutil
import stat
import tarfile
import zipfile
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from ...api.errors import LoadFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from pathlib import Path

    from .commands import Job

RESERVE = 256 << 20
"""Bytes of the disk that unpacking leaves free."""
HOW_TO_PACK = "pack a virtual or conda environment with conda-pack, or with tar -C FOLDER -czf FILE ."


class RefusedEntry(Exception):
    """An entry that would leave the folder or is no file; the text says which and why."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One member of an archive. ``kind`` is folder, file, link (symbolic), hard or other; ``mode`` are permissions."""

    name: str
    kind: str
    target: str = ""
    size: int = 0
    mode: int = 0o644
    mtime: float = 0.0


class Guard:
    """Looks at the entries of one archive in their order. Pure."""

    def __init__(self, room: int) -> None:
        """``room``: bytes that may be unpacked."""
        self._links: set[str] = set()
        self._room = room

    def admit(self, entry: Entry) -> str:
        """The path of an entry below the folder, normalised. Raises RefusedEntry."""
        name = _inside(entry.name, entry)
        if name in self._links or _parents(name) & self._links:
            raise RefusedEntry(f"Path goes through a link: entry '{entry.name}'")
        if entry.kind == "link":
            self._links.add(name)
            if not _is_interpreter(name):
                if posixpath.isabs(entry.target):
                    raise RefusedEntry(f"Link leads outside: entry '{entry.name}' to '{entry.target}'")
                _inside(posixpath.join(posixpath.dirname(name), entry.target), entry, link=True)
        elif entry.kind == "hard":
            target = _inside(entry.target, entry, link=True)
            if target in self._links or _parents(target) & self._links:
                raise RefusedEntry(f"Link leads to a link: entry '{entry.name}' to '{entry.target}'")
        elif entry.kind == "other":
            raise RefusedEntry(f"Neither file, folder nor link: entry '{entry.name}'")
        self._room -= entry.size
        if self._room < 0:
            raise RefusedEntry(f"Not enough room on the disk to unpack entry '{entry.name}'")
        return name


def unpack(path: Path, folder: Path, job: Job) -> None:
    """Unpack the archive into the empty folder. Blocking.

    Raises LoadFailed, naming the entry, for one that must not be unpacked, and for what is no whole archive.
    """
    guard = Guard(shutil.disk_usage(folder).free - RESERVE)
    try:
        with _opened(path) as entries:
            for entry, read in entries:
                job.check()
                _write(entry, folder / guard.admit(entry), folder, read)
    except RefusedEntry as exc:
        msg = f"execution environment '{path}' is refused: {exc}"
        raise LoadFailed(msg) from exc
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, OSError, ValueError, RuntimeError) as exc:
        # A number says that the machine failed, and not the archive.
        mend = "" if isinstance(exc, OSError) and exc.errno else f"; {HOW_TO_PACK}"
        msg = f"execution environment '{path}' cannot be unpacked: {exc or type(exc).__name__}{mend}"
        raise LoadFailed(msg) from exc


def root_of(folder: Path) -> Path:
    """Where the environment begins: in the unpacked folder, or in the only folder that it holds."""
    if not (folder / "bin").is_dir():
        inner = [each for each in folder.iterdir() if each.is_dir()]
        if len(inner) == 1 and (inner[0] / "bin").is_dir():
            return inner[0]
    return folder


def _inside(name: str, entry: Entry, *, link: bool = False) -> str:
    """A path in an archive, normalised. Raises RefusedEntry where it leads outside."""
    if posixpath.isabs(name):
        raise RefusedEntry(f"Path is absolute: entry '{entry.name}'")
    if link:
        normal = posixpath.normpath(name)
        if normal == ".." or normal.startswith("../"):
            raise RefusedEntry(f"Link leads outside: entry '{entry.name}' to '{entry.target}'")
        return normal
    if ".." in name.split("/"):
        raise RefusedEntry(f"Path contains '..': entry '{entry.name}'")
    return posixpath.normpath(name)


def _parents(name: str) -> set[str]:
    """The folders above a path in an archive."""
    return {name[:index] for index, letter in enumerate(name) if letter == "/"}


def _is_interpreter(name: str) -> bool:
    folder, _, file = name.rpartition("/")
    return file.startswith("python") and folder.rpartition("/")[2] == "bin"


def _write(entry: Entry, path: Path, folder: Path, read: Callable[[], IO[bytes] | None]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if entry.kind == "folder":
        path.mkdir(exist_ok=True)
    elif entry.kind == "link":
        path.symlink_to(entry.target)
    elif entry.kind == "hard":
        path.hardlink_to(folder / entry.target)
    else:
        source = read()
        path.unlink(missing_ok=True)
        with path.open("xb") as file:
            if source is not None:
                with source:
                    shutil.copyfileobj(source, file, 1 << 20)
        path.chmod(stat.S_IMODE(entry.mode) & 0o755 | 0o600)
        # Compiled files are valid for one time of their source.
        os.utime(path, (entry.mtime, entry.mtime))


@contextmanager
def _opened(path: Path) -> Generator[Iterator[tuple[Entry, Callable[[], IO[bytes] | None]]]]:
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as packed:
            yield _zip_members(packed)
    else:
        try:
            packed = tarfile.open(path, "r:*")  # noqa: SIM115  the with below closes it
        except tarfile.ReadError as exc:
            # Its own words are a line for each compression that it is not.
            msg = f"execution environment '{path}' cannot be unpacked: it is no tar or zip archive; {HOW_TO_PACK}"
            raise LoadFailed(msg) from exc
        with packed:
            yield _tar_members(packed)


def _tar_members(packed: tarfile.TarFile) -> Iterator[tuple[Entry, Callable[[], IO[bytes] | None]]]:
    for member in packed:
        kind = (
            "folder" if member.isdir()
            else "file" if member.isreg()
            else "link" if member.issym()
            else "hard" if member.islnk()
            else "other"
        )  # fmt: skip
        size = member.size if kind == "file" else 0
        entry = Entry(member.name, kind, member.linkname, size, member.mode, member.mtime)
        yield entry, lambda member=member: packed.extractfile(member)


def _zip_members(packed: zipfile.ZipFile) -> Iterator[tuple[Entry, Callable[[], IO[bytes] | None]]]:
    for member in packed.infolist():
        mode = member.external_attr >> 16
        kind, target = "folder" if member.is_dir() else "file", ""
        if stat.S_ISLNK(mode):
            kind, target = "link", packed.read(member).decode(errors="surrogateescape")
        elif stat.S_IFMT(mode) and not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            kind = "other"
        # A zip may hold no permissions: what can be run is then not known, and all of it may be.
        yield (
            Entry(member.filename, kind, target, member.file_size, mode or 0o755),
            lambda member=member: packed.open(member),
        )
