"""The environments in use: each prepared once, whoever asks for it, and let go of with its last user."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...api.errors import LoadFailed
from . import archive, cache, kept, requirements
from .commands import Job
from .environment import Environment, open_folder

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ...api.backend import RunBlocking
    from ..waiting import Waiting

_log = logging.getLogger("infer.python")

_THREADS = 2
"""Environments that are prepared at the same time: an installer takes a core, and loads have threads of their own."""

_PREFIX = "infer-environments-"
_LOCK = ".lock"


@dataclass(slots=True)
class _Preparation:
    """One environment under way, and who waits for it."""

    job: Job
    task: asyncio.Task[Environment]
    waiting: list[Waiting] = field(default_factory=list["Waiting"])


@dataclass(frozen=True, slots=True)
class _Source:
    """What an environment is made of: the same source is prepared once.

    ``stamp`` is the time of an archive's last change, in ns; ``kind`` is folder, archive or requirements.
    """

    kind: str
    path: Path
    stamp: int = 0


class Environments:
    """Prepares environments on threads of its own. Serving loop only."""

    def __init__(self, run_blocking: RunBlocking, retired: Callable[[Environment], Awaitable[None]]) -> None:
        """``retired(environment)`` ends the processes of one that nobody uses any more."""
        self._run_blocking = run_blocking
        self._retired = retired
        self._pool: ThreadPoolExecutor | None = None
        self._preparing: dict[_Source, _Preparation] = {}
        self._ready: dict[_Source, Environment] = {}
        self._users: dict[Path, int] = {}
        self._superseded: dict[Path, Path] = {}
        """Unpacked folders of archives that have changed since, by their environment's folder."""
        self._unpacked: dict[Path, Path] = {}
        self._shares: dict[Path, list[int]] = {}
        """Descriptors that keep others from removing an environment that is kept between runs, by its folder."""
        self._room: _Room | None = None
        self._making_room = threading.Lock()

    async def acquire(self, path: Path, waiting: Waiting, labels: dict[str, Any]) -> Environment:
        """The environment of a path, prepared where it is not; ``release`` it after use. Raises LoadFailed."""
        source = await self._run_blocking(_source_of, path)
        environment = self._ready.get(source)
        # One that is kept between runs may be removed even between its making and its use.
        while environment is None or not await self._used(source, environment):
            environment = await self._prepared(source, waiting, labels)
        return environment

    async def _used(self, source: _Source, environment: Environment) -> bool:
        """One user more, unless the environment is no longer there: whether it is."""
        # Counted first, so that nobody removes it while it is looked at.
        self._users[environment.folder] = self._users.get(environment.folder, 0) + 1
        if await self._run_blocking(self._is_there, source, environment):
            return True
        await self.release(environment)
        return False

    def _is_there(self, source: _Source, environment: Environment) -> bool:
        """Whether an environment is there; from now on others do not remove it. Blocking."""
        if source.kind != "requirements":
            return environment.python.exists()
        share = kept.hold(environment.folder)
        if share is not None:
            self._shares.setdefault(environment.folder, []).append(share)
        return share is not None

    async def release(self, environment: Environment) -> None:
        """One user less; with the last one its processes end, and an archive that has changed since is removed."""
        folder = environment.folder
        self._users[folder] -= 1
        if self._users[folder]:
            return
        del self._users[folder]
        await self._retired(environment)
        if folder not in self._users:
            self._let_go(folder)
        unpacked = self._superseded.pop(folder, None)
        if unpacked is not None:
            await self._run_blocking(cache.remove, unpacked)

    def _let_go(self, folder: Path) -> None:
        """Nobody here uses an environment any more, so that others may remove it."""
        for share in self._shares.pop(folder, ()):
            os.close(share)

    async def stop(self) -> None:
        """Break off what is under way and remove what was unpacked."""
        for preparation in self._preparing.values():
            preparation.job.stop()
        await asyncio.gather(*(each.task for each in self._preparing.values()), return_exceptions=True)
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=True)
        self._ready.clear()
        for folder in list(self._shares):
            self._let_go(folder)
        if self._room is not None:
            await self._run_blocking(self._room.close)
            self._room = None

    async def _prepared(self, source: _Source, waiting: Waiting, labels: dict[str, Any]) -> Environment:
        preparation = self._preparing.get(source)
        if preparation is None:
            preparation = self._preparing[source] = self._begin(source, labels)
        preparation.waiting.append(waiting)
        waiting.phase = f"preparing its execution environment '{source.path}'"
        try:
            return await asyncio.shield(preparation.task)
        finally:
            preparation.waiting.remove(waiting)
            if not preparation.waiting and not preparation.task.done():
                preparation.job.stop()

    def _begin(self, source: _Source, labels: dict[str, Any]) -> _Preparation:
        loop = asyncio.get_running_loop()
        job = Job(lambda line: _log.info("%s", line, extra=labels))

        def announce(what: str) -> None:
            loop.call_soon_threadsafe(tell, what)

        def tell(what: str) -> None:
            for each in preparation.waiting:
                each.phase = what

        if self._pool is None:
            self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="environment")
        work = loop.run_in_executor(self._pool, self._make, source, job, announce, labels)
        preparation = _Preparation(job, loop.create_task(self._finish(source, work)))
        return preparation

    async def _finish(self, source: _Source, work: Awaitable[Environment]) -> Environment:
        try:
            environment = await work
        finally:
            self._preparing.pop(source, None)
        for other in [each for each in self._ready if each.path == source.path and each.kind == "archive"]:
            await self._supersede(self._ready.pop(other))
        self._ready[source] = environment
        return environment

    async def _supersede(self, environment: Environment) -> None:
        unpacked = self._unpacked.pop(environment.folder, None)
        if unpacked is None:
            return
        if environment.folder in self._users:
            self._superseded[environment.folder] = unpacked
        else:
            await self._run_blocking(cache.remove, unpacked)

    def _make(self, source: _Source, job: Job, announce: Callable[[str], None], labels: dict[str, Any]) -> Environment:
        """Prepare it. A thread of the pool."""
        if source.kind == "folder":
            return open_folder(source.path, job, activate=True)
        if source.kind == "requirements":
            _log.info("preparing the execution environment of '%s'", source.path, extra=labels)
            return requirements.build(source.path, os.environ, job, announce)
        announce(f"unpacking '{source.path}'")
        folder = self._new_folder()
        _log.info("Extracting Python execution env '%s' to '%s'", source.path, folder, extra=labels)
        with ExitStack() as undo:
            undo.callback(cache.remove, folder)
            archive.unpack(source.path, folder, job)
            environment = open_folder(archive.root_of(folder), job, source=source.path)
            undo.pop_all()
        self._unpacked[environment.folder] = folder
        return environment

    def _new_folder(self) -> Path:
        """An empty folder for an archive. A thread of the pool."""
        with self._making_room:
            if self._room is None:
                self._room = _Room()
            return self._room.new_folder()


def _source_of(path: Path) -> _Source:
    """What lies at a path. Blocking. Raises LoadFailed."""
    try:
        if path.is_dir():
            return _Source("folder", path)
        real = path.resolve(strict=True)
        if requirements.is_requirements(real):
            return _Source("requirements", real, hash(requirements.key_of(real, "")))
        return _Source("archive", real, real.stat().st_mtime_ns)
    except OSError as exc:
        msg = f"execution environment '{path}' cannot be read: {exc.strerror}"
        raise LoadFailed(msg) from exc


class _Room:
    """The temporary folder of one server, with a lock that its end frees, however it ends."""

    def __init__(self) -> None:
        """Make the folder, and remove those of servers that were killed."""
        parent = Path(tempfile.gettempdir())
        for other in parent.glob(f"{_PREFIX}*"):
            _sweep(other)
        self._folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._lock = os.open(self._folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def new_folder(self) -> Path:
        """An empty folder in it. Any thread."""
        return Path(tempfile.mkdtemp(dir=self._folder))

    def close(self) -> None:
        """Remove it with all that is in it."""
        cache.remove(self._folder)
        os.close(self._lock)


def _sweep(folder: Path) -> None:
    """Remove a folder that is this user's and whose server is gone."""
    try:
        if folder.lstat().st_uid != os.geteuid():
            return
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        cache.remove(folder)
    except BlockingIOError:
        return
    finally:
        os.close(lock)
