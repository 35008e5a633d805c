"""Programs that prepare an environment: run on a pool thread, ended when nobody waits for them any more."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from typing import TYPE_CHECKING

from ...api.errors import LoadFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path


class Job:
    """One preparation. ``run`` and ``check`` belong to its thread, ``stop`` may be called by any."""

    def __init__(self, log: Callable[[str], None] = lambda _: None) -> None:
        """``log`` gets the lines that logged programs write."""
        self._log = log
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._stopped = False

    def stop(self) -> None:
        """End the program that runs, and have nothing more begun."""
        with self._lock:
            self._stopped = True
            if self._process is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)

    def check(self) -> None:
        """Raise LoadFailed once it was stopped."""
        if self._stopped:
            msg = "the preparation of the execution environment was broken off"
            raise LoadFailed(msg)

    def run(
        self,
        command: Sequence[str],
        *,
        environ: Mapping[str, str] | None = None,
        folder: Path | None = None,
        keep: Sequence[int] = (),
        logged: bool = False,
    ) -> tuple[int, list[str]]:
        """Run a program in a session of its own; its exit status and the lines that it wrote.

        It inherits the descriptors ``keep``. Raises LoadFailed where it was stopped.
        """
        self.check()
        try:
            with self._lock:
                process = self._process = subprocess.Popen(  # noqa: S603  an interpreter of the user's, or an installer
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    errors="replace",
                    env=environ,
                    cwd=folder,
                    pass_fds=keep,
                    start_new_session=True,
                )
        except OSError as exc:
            return 127, [f"cannot run '{command[0]}': {exc.strerror}"]
        with process:
            lines = self._read(process, logged=logged)
        with self._lock:
            self._process = None
        self.check()
        return process.returncode, lines

    def _read(self, process: subprocess.Popen[str], *, logged: bool) -> list[str]:
        if self._stopped:
            # It was stopped while the program began.
            self.stop()
        lines: list[str] = []
        for line in process.stdout or ():
            text = line.rstrip()
            if text:
                lines.append(text)
                if logged:
                    self._log(text)
        return lines
