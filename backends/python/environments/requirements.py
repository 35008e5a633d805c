"""A virtual environment made from a ``requirements.txt``, once for every server of a user.

Its name is the hash of what decides its content: the file, the files that it includes, and the interpreter. It is made
in its place, because its programs hold its path, under a lock that several servers take in turn; the last step is its
mark (``kept.py``). The lock is inherited by the installer, so it holds as long as that runs.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sys
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...api.errors import LoadFailed
from . import cache, kept
from .environment import Environment, check_interpreter

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

    from .commands import Job

_INCLUDES = ("-r", "--requirement", "-c", "--constraint")
_LAST_LINES = 6


def is_requirements(path: Path) -> bool:
    """Whether the path names a requirements file."""
    return path.suffix == ".txt"


def key_of(path: Path, interpreter: str) -> str:
    """The name of the environment that a requirements file stands for. Blocking. Raises LoadFailed."""
    digest = sha256(interpreter.encode())
    for each in _included(path, seen=set()):
        digest.update(b"\0" + each)
    return digest.hexdigest()[:24]


def interpreter_of(environ: Mapping[str, str]) -> Path:
    """The interpreter that new environments are made of: the server's own. Raises LoadFailed.

    A single-file server has none to give away and takes ``python3`` of the path.
    """
    if not getattr(sys, "frozen", False):
        return Path(sys.executable)
    found = shutil.which("python3", path=environ.get("PATH"))
    if found is None:
        msg = "this server is a single file, and there is no python3 on the path to make an environment of"
        raise LoadFailed(msg)
    return Path(found)


def build(path: Path, environ: Mapping[str, str], job: Job, announce: Callable[[str], None]) -> Environment:
    """The environment of a requirements file, made now or found. Blocking, for minutes where it is made.

    ``announce`` is told what is going on, in words that follow "is". Raises LoadFailed with the installer's last lines.
    """
    python = interpreter_of(environ)
    parent = cache.made(kept.place(environ))
    # One that was made by another interpreter, or that borrows numpy of another place, is another one.
    folder = parent / key_of(path, f"{sys.version}|{python}|{Path(np.__file__).parent}")
    if kept.is_made(folder):
        return Environment(folder)
    announce(f"waiting for another server that installs '{path}'")
    with _locked(kept.lock_of(folder), python, job) as lock:
        if kept.is_made(folder):
            return Environment(folder)
        announce(f"installing '{path}'")
        with ExitStack() as undo:
            undo.callback(cache.remove, folder)
            environment = _make(path, folder, python, job, lock)
            undo.pop_all()
        return environment


def installer(folder: Path, python: Path, uv: str | None) -> tuple[Sequence[str], Sequence[str]]:
    """The commands that make an environment and that install into it; the words of what to install follow. Pure."""
    if uv is not None:
        made = [uv, "venv", "--quiet", "--python", str(python), str(folder)]
        return made, [uv, "pip", "install", "--python", str(folder / "bin" / "python")]
    made = [str(python), "-m", "venv", str(folder)]
    return made, [str(folder / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check"]


def _make(path: Path, folder: Path, python: Path, job: Job, lock: int) -> Environment:
    cache.remove(folder)
    make, install = installer(folder, python, shutil.which("uv"))
    environ = {**os.environ, "PYTHONNOUSERSITE": "1"}
    environ.pop("PYTHONHOME", None)

    def step(command: Sequence[str]) -> None:
        # Paths in the file are meant from where it lies.
        code, lines = job.run(command, environ=environ, folder=path.parent, keep=(lock,), logged=True)
        if code != 0:
            words = " | ".join(lines[-_LAST_LINES:])
            msg = f"'{path}' could not be installed (exit status {code}): {words}"
            raise LoadFailed(msg)

    step(make)
    step([*install, "-r", str(path)])
    environment = Environment(folder)
    if job.run([str(environment.python), "-c", "import numpy"], environ=environ)[0] != 0 and not _lend_numpy(folder):
        step([*install, "numpy"])
    check_interpreter(environment, job)
    content = {"requirements": str(path), "python": str(python), "version": sys.version}
    partial = folder / f"{kept.MARK}.part"
    partial.write_text(json.dumps(content, indent=1))
    partial.rename(folder / kept.MARK)
    return environment


def _lend_numpy(folder: Path) -> bool:
    """Let an environment that was given no numpy use the server's; whether that is one for its interpreter."""
    sites = list(folder.glob(f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"))
    source = Path(np.__file__).parent
    if not sites or getattr(sys, "frozen", False) or not source.is_dir():
        return False
    for each in (source, source.with_name("numpy.libs")):
        if each.is_dir():
            (sites[0] / each.name).symlink_to(each)
    return True


def _included(path: Path, seen: set[Path]) -> Iterator[bytes]:
    """The content of a requirements file and of those that it includes."""
    if path in seen:
        return
    seen.add(path)
    try:
        content = path.read_bytes()
    except OSError as exc:
        msg = f"requirements file '{path}' cannot be read: {exc.strerror}"
        raise LoadFailed(msg) from exc
    yield content
    for line in content.decode(errors="replace").splitlines():
        words = line.replace("=", " ", 1).split() if line.startswith("--") else line.split()
        if len(words) > 1 and words[0] in _INCLUDES and "://" not in words[1]:
            yield from _included(path.parent / words[1], seen)


@contextmanager
def _locked(path: Path, python: Path, job: Job) -> Generator[int]:
    """Hold the lock file; its descriptor. Waits for another server, as long as somebody waits for this one."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        # A blocking flock() could not be broken off, so a program waits for it on the inherited descriptor.
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            job.run([str(python), "-c", _WAIT, str(descriptor)], keep=(descriptor,))
        yield descriptor
    finally:
        os.close(descriptor)


_WAIT = "import fcntl, sys; fcntl.flock(int(sys.argv[1]), fcntl.LOCK_EX)"
