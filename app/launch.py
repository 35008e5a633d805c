"""Start a server that outlives its terminal: in a session of its own, with its output in a file.

A new session has no terminal, so no Ctrl-C, Ctrl-Z or hang-up of the one it was started from reaches the server.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from .failures import CommandError
from .helpers import helper_command
from .log_lines import read_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from pathlib import Path

    from .registry import Record, Registry

_LOOK_S = 0.05
"""Seconds between two looks at a server that starts."""

_LAST_LINES = 20
_LAST_BYTES = 16384
_STOP_S = 40.0
"""Seconds for a server whose start was interrupted: it stops loading and is gone."""


class StartFailed(CommandError):
    """A server ended while it started; ``log`` is the last of what it wrote, and stands above the sentence."""

    def __init__(self, name: str, log: str, log_file: Path, status: int) -> None:
        errors = [record.message for record in read_lines(log.splitlines(), time.time()) if record.level == "ERROR"]
        why = errors[-1].splitlines()[0] if errors else f"it ended with {ending(status)}"
        super().__init__(f"the server '{name}' did not start", why, f"read its log: {log_file}")
        self.log = log

    def __str__(self) -> str:
        return f"{self.log}\n{super().__str__()}" if self.log else super().__str__()


@dataclass(frozen=True, slots=True)
class Launch:
    """A server process that was just started; ``log_file`` had ``log_size`` bytes before."""

    name: str
    process: subprocess.Popen[bytes]
    log_file: Path
    log_size: int

    def wait(
        self, registry: Registry, enough: Callable[[Record], bool], waiting: Callable[[Record | None], None]
    ) -> Record:
        """The server's record once it is ``enough``; ``waiting`` is called in between.

        Another live server of that name is taken in its place: it was faster. Raises CommandError with the last lines
        of the log where the server ends instead; an interrupt ends the server that nobody waits for any more.
        """
        try:
            while True:
                ended = _ends_within(self.process, _LOOK_S)
                record = registry.find(self.name)
                if record is not None and enough(record) and (ended or record.pid == self.process.pid):
                    return record
                if ended and record is None:
                    raise self._failure()
                waiting(record)
        except KeyboardInterrupt:
            self.process.terminate()
            if not _ends_within(self.process, _STOP_S):
                self.process.kill()
                self.process.wait()
            raise

    def _failure(self) -> StartFailed:
        log = last_lines(self.log_file, self.log_size)
        return StartFailed(self.name, log, self.log_file, self.process.wait())


def launch(name: str, arguments: Sequence[str], log_file: Path) -> Launch:
    """Start ``infer up --foreground`` under that name, in a session of its own, from this working folder.

    Raises CommandError where the log file cannot be written or the process not be started.
    """
    try:
        log_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _append(log_file) as output, _hang_up_ignored():
            size = os.fstat(output.fileno()).st_size
            process = subprocess.Popen(  # noqa: S603  this program itself, and no shell reads its words
                [*helper_command("up"), "--foreground", f"--name={name}", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
    except OSError as error:
        raise CommandError(
            f"the server '{name}' cannot be started", str(error), "name another file for its log: --log-file FILE"
        ) from error
    return Launch(name, process, log_file, size)


def last_lines(path: Path, after: int = 0, count: int = _LAST_LINES) -> str:
    """The last lines of a file that were written behind ``after`` bytes; empty where it cannot be read."""
    with suppress(OSError), path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        # A file that is shorter than it was is another one by now.
        start = after if after <= size else 0
        file.seek(max(start, size - _LAST_BYTES))
        return "\n".join(file.read().decode("utf-8", "replace").splitlines()[-count:])
    return ""


def ending(status: int) -> str:
    """How a process ended, from its exit status as subprocess gives it."""
    if status >= 0:
        return f"status {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"


def _ends_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _append(path: Path) -> IO[bytes]:
    """Open a log for its user only; one that is there keeps its mode."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab", buffering=0)


@contextmanager
def _hang_up_ignored() -> Generator[None]:
    """Have what is started meanwhile ignore SIGHUP, which a program inherits and keeps."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)
