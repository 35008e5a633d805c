"""The control socket: a Unix socket that only the server's own user can reach, so whoever does may change things."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from typing import TYPE_CHECKING, Final

from ...backends.api.errors import Unavailable

if TYPE_CHECKING:
    from pathlib import Path

_LONGEST: Final = 107
"""Bytes of a Unix socket's path, the kernel's limit."""

_PROBE_S: Final = 1.0


class ControlSocket:
    """A listening socket with mode 0600 and the file that it is reached by."""

    def __init__(self, path: Path) -> None:
        """Bind it, in place of one that a killed server left. Raises Unavailable, naming the path, where it cannot."""
        self.path = path
        try:
            self.listener = _bind(path)
            bound = path.lstat()
        except OSError as error:
            reason = error.strerror or str(error)
            raise Unavailable(f"control socket '{path}' cannot be opened: {reason}") from error
        self._identity = (bound.st_dev, bound.st_ino)

    def remove(self) -> None:
        """Remove the file, unless it is another server's by now. Idempotent."""
        with contextlib.suppress(FileNotFoundError):
            there = self.path.lstat()
            if (there.st_dev, there.st_ino) == self._identity:
                self.path.unlink()


def _bind(path: Path) -> socket.socket:
    if len(os.fsencode(path)) > _LONGEST:
        raise OSError(f"its path is longer than the {_LONGEST} bytes that the system allows; choose a shorter folder")
    _remove_stale(path)
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        # Linux makes the file with the mode of the socket, so that there is no moment in which others could connect.
        os.fchmod(listener.fileno(), stat.S_IRUSR | stat.S_IWUSR)
        listener.bind(str(path))
        stack.pop_all()
    return listener


def _remove_stale(path: Path) -> None:
    """Remove what a killed server left. Raises OSError for a socket that answers, and for what is no socket."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise OSError("there is a file of that name that is no socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_S)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
    raise OSError("another server listens on it")
