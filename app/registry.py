"""Which servers of a user run on this machine: a folder for each, whose lock is held for as long as the server lives.

A lock ends with its process however that ends, so a server that was killed is known to be gone, and a number that
another process got since is never taken for it. What a dead server left is removed by who comes across it: first moved
aside under the lock, so that a server that starts at that moment makes its own. Nothing here is sent anywhere; the
folder is mode 0700 and the record, which holds the key for changes, 0600.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

from .failures import CommandError, ExitCode
from .places import DEFAULT_NAME, check_name, check_private, check_socket_path, is_name, make_private, run_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

_LOCK = "lock"
_RECORD = "server.json"
_SOCKET = "control.sock"
_GONE = ".gone-"
_PATIENCE_S = 1.0
"""How long a server that starts waits for a lock: who looks whether it lives holds it for a moment."""

_RETRY_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What a running server tells of itself.

    ``http``, ``grpc`` and ``operator`` are ``host:port`` as reached from this machine, or None without that door.
    ``arguments`` is its command line without program and verb, ``folder`` where it was started. ``start_page`` is what
    it shows once it has started, and empty before.
    """

    name: str
    pid: int
    version: str = ""
    started_at: float = 0.0
    http: str | None = None
    grpc: str | None = None
    operator: str | None = None
    control_socket: str | None = None
    control_key: str = ""
    log_file: str = ""
    arguments: tuple[str, ...] = ()
    folder: str = ""
    start_page: str = ""


def parse_record(text: str) -> Record | None:
    """The record in the text of a ``server.json``; None where it is not one. Pure."""
    try:
        document: Any = json.loads(text)
    except ValueError:
        return None
    if not isinstance(document, dict):
        return None
    values = cast("dict[str, Any]", document)
    known = {name: values[name] for name in Record.__dataclass_fields__ if name in values}
    if not isinstance(known.get("name"), str) or type(known.get("pid")) is not int:
        return None
    arguments: Any = known.get("arguments")
    words = cast("list[object]", arguments) if isinstance(arguments, list) else []
    known["arguments"] = tuple(str(word) for word in words)
    return Record(**known)


class NameTaken(CommandError):
    """Another live server has the name."""

    def __init__(self, name: str, holder: Record | None) -> None:
        who = f"process {holder.pid}" if holder else "a process that is starting"
        stop = "infer down" if name == DEFAULT_NAME else f"infer down --name {name}"
        super().__init__(
            f"a server named '{name}' is running already",
            f"it is {who}",
            f"stop it: {stop}   or give this one another name: --name NAME",
            code=ExitCode.REFUSED,
        )


class Registration:
    """A server's place in the registry, from :meth:`Registry.take` to :meth:`release`."""

    def __init__(self, folder: Path, descriptors: tuple[int, ...]) -> None:
        self._folder = folder
        self._descriptors = descriptors

    @property
    def control_socket(self) -> Path:
        """Where the server listens for its operator."""
        return self._folder / _SOCKET

    @property
    def name(self) -> str:
        """The server's name."""
        return self._folder.name

    def publish(self, record: Record) -> None:
        """Write the record, all of it or none. Raises OSError."""
        written = self._folder / f"{_RECORD}.{os.getpid()}"
        descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(asdict(record), file, indent=2)
        written.replace(self._folder / _RECORD)

    def release(self) -> None:
        """Take the server out of the registry. Idempotent."""
        if self._descriptors:
            _remove(self._folder)
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class Registry:
    """The servers in one run folder."""

    def __init__(self, folder: Path) -> None:
        """``folder`` need not be there yet."""
        self.folder = folder

    @classmethod
    def of_user(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """That of the user who asks."""
        return cls(run_folder(environment, os.getuid()))

    def take(self, name: str, *, patience_s: float = _PATIENCE_S) -> Registration:
        """Take a name for this process, until it ends. Raises NameTaken, and CommandError for an unusable folder."""
        check_name(name)
        folder = self.folder / name
        check_socket_path(folder / _SOCKET)
        make_private(self.folder, os.getuid())
        ends = time.monotonic() + patience_s
        while True:
            registration = _try_to_take(folder)
            if registration is not None:
                return registration
            if time.monotonic() >= ends:
                raise NameTaken(name, _read(folder))
            threading.Event().wait(_RETRY_S)

    def live(self) -> list[Record]:
        """The servers that run, the one named ``default`` first, then the oldest first; dead ones are cleaned away.

        A server that has taken its name and tells nothing of itself yet is not among them. Raises CommandError where
        the folder cannot be trusted.
        """
        records = [record for name in self._names() if (record := self.find(name)) is not None]
        return sorted(records, key=lambda record: (record.name != DEFAULT_NAME, record.started_at))

    def find(self, name: str) -> Record | None:
        """The live server of that name, None where there is none. Raises CommandError as ``live`` does."""
        folder = self.folder / check_name(name)
        if not self._is_trusted() or not self.holds(name):
            return None
        record = _read(folder)
        return record if record is not None and record.name == name else None

    def holds(self, name: str) -> bool:
        """Whether a live process has that name; what a dead one left is removed."""
        folder = self.folder / name
        try:
            descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return False
        try:
            # Shared, so that two who look do not take each other for a server.
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        else:
            _remove(folder)
            return False
        finally:
            os.close(descriptor)

    def is_held_by(self, name: str, pid: int) -> bool:
        """Whether that very process has the lock open: a number alone may be another's, also in another container.

        Raises PermissionError for a process of another user.
        """
        try:
            lock = (self.folder / name / _LOCK).lstat()
            opened = list(Path(f"/proc/{pid}/fd").iterdir())
        except (FileNotFoundError, ProcessLookupError):
            return False
        return any(_is_file(descriptor, lock) for descriptor in opened)

    def _names(self) -> list[str]:
        if not self._is_trusted():
            return []
        with suppress(OSError):
            return sorted(entry.name for entry in self.folder.iterdir() if is_name(entry.name))
        return []

    def _is_trusted(self) -> bool:
        """Whether the folder is there; raises CommandError where another user could have put something into it."""
        try:
            found = self.folder.lstat()
        except OSError:
            return False
        check_private(self.folder, found, os.getuid())
        return True


def _try_to_take(folder: Path) -> Registration | None:
    """The lock of a folder, made where it is missing; None where somebody else holds it or has just moved it away."""
    try:
        # Not exist_ok: pathlib looks twice for it, and the folder may be moved away in between.
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CommandError(f"the folder {folder} cannot be used", error.strerror or str(error)) from error
    # The folder may have been moved away between opening and locking.
    if not _is_locked(descriptor) or not _is_same(descriptor, folder / _LOCK):
        os.close(descriptor)
        return None
    for leftover in (_RECORD, _SOCKET):
        (folder / leftover).unlink(missing_ok=True)
    return Registration(folder, (descriptor, *_shield(folder)))


def _is_locked(descriptor: int) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _shield(folder: Path) -> tuple[int, ...]:
    """Keep what tidies up temporary files from a folder that is in use: it passes over one that is locked."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return (descriptor,)


def _is_same(descriptor: int, path: Path) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    return False


def _is_file(descriptor: Path, wanted: os.stat_result) -> bool:
    """Whether a descriptor in /proc is that file; it may be closed by now."""
    with suppress(OSError):
        return os.path.samestat(descriptor.stat(), wanted)
    return False


def _read(folder: Path) -> Record | None:
    """The record in a folder; None where there is none, or a broken one."""
    with suppress(OSError, UnicodeDecodeError):
        descriptor = os.open(folder / _RECORD, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        with os.fdopen(descriptor, encoding="utf-8") as file:
            return parse_record(file.read())
    return None


def _remove(folder: Path) -> None:
    """Remove a folder whose lock the caller holds; it is gone from its name at once."""
    aside = folder.with_name(f"{_GONE}{secrets.token_hex(8)}")
    with suppress(OSError):
        folder.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)
