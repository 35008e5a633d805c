"""Where a user's servers keep what they need while they run, and what stays: the run folder and the state folder.

The run folder is not below ``XDG_RUNTIME_DIR``: that folder ends with the last session of its user, and a server that
was left running must still be found by the next one.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from .failures import CommandError, ExitCode

if TYPE_CHECKING:
    from collections.abc import Mapping

RUN_DIR = "INFER_RUN_DIR"
"""The environment variable that names another run folder."""

STATE_DIR = "INFER_STATE_DIR"
"""The environment variable that names another state folder."""

DEFAULT_NAME = "default"
"""The name of a server that was given none."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SOCKET_PATH_LIMIT = 107
"""Bytes that the path of a Unix socket may have on Linux (unix(7))."""

_OPEN_TO_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def run_folder(environment: Mapping[str, str], uid: int) -> Path:
    """The folder of the servers that a user runs. Pure."""
    named = environment.get(RUN_DIR)
    return Path(named).absolute() if named else Path(f"/tmp/infer-{uid}")  # noqa: S108  checked for its owner and mode


def state_folder(environment: Mapping[str, str]) -> Path:
    """The folder of log files. Pure but for ``~``."""
    named = environment.get(STATE_DIR)
    if named:
        return Path(named).absolute()
    state = environment.get("XDG_STATE_HOME", "")
    # The XDG rules tell to ignore a path that is not absolute.
    return (Path(state) if state.startswith("/") else Path("~/.local/state").expanduser()) / "infer"


def log_file(environment: Mapping[str, str], name: str) -> Path:
    """Where a detached server of that name writes its log."""
    return state_folder(environment) / f"{name}.log"


def is_name(text: str) -> bool:
    """Whether a server can have this name: it is that of a folder and of a file."""
    return _NAME.fullmatch(text) is not None


def check_name(name: str) -> str:
    """The name, where a server can have it. Raises CommandError."""
    if not is_name(name):
        raise CommandError(
            f"'{name}' cannot be the name of a server",
            "a name is up to 64 letters, digits, dots, dashes and underscores, the first a letter or a digit",
            "for example: --name staging",
            code=ExitCode.USAGE,
        )
    return name


def check_socket_path(path: Path) -> Path:
    """The path, where a Unix socket can have it. Raises CommandError."""
    size = len(os.fsencode(path))
    if size > _SOCKET_PATH_LIMIT:
        raise CommandError(
            f"the control socket cannot be made at {path}",
            f"its path has {size} bytes, and that of a Unix socket may have {_SOCKET_PATH_LIMIT}",
            f"name a folder with a shorter path: {RUN_DIR}=DIR",
        )
    return path


def check_private(folder: Path, found: os.stat_result, uid: int) -> None:
    """Refuse a folder in which another user could have put something. Raises CommandError."""
    mode = stat.S_IMODE(found.st_mode)
    if stat.S_ISLNK(found.st_mode):
        why, fix = "it is a symbolic link", f"remove it: rm {folder}"
    elif not stat.S_ISDIR(found.st_mode):
        why, fix = "it is no folder", f"move it away: mv {folder} {folder}.old"
    elif found.st_uid != uid:
        why = f"it belongs to user {found.st_uid}, and you are user {uid}"
        fix = f"name one of yours: {RUN_DIR}=DIR"
    elif mode & _OPEN_TO_OTHERS:
        why, fix = f"others may enter it: its mode is {mode:04o}", f"close it: chmod 700 {folder}"
    else:
        return
    raise CommandError(f"the run folder {folder} cannot be trusted", why, fix, code=ExitCode.REFUSED)


def make_private(folder: Path, uid: int) -> Path:
    """Make the folder where it is missing, mode 0700, and check it. Raises CommandError."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()
    except OSError as error:
        raise CommandError(
            f"the folder {folder} cannot be made", error.strerror or str(error), f"name another: {RUN_DIR}=DIR"
        ) from error
    check_private(folder, found, uid)
    return folder
