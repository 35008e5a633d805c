"""``pb_utils.Logger``: lines of a model in the server's log."""

from __future__ import annotations

import enum
import os
import sys
import time

from . import frames
from .errors import require
from .frames import Kind
from .runtime import RUNTIME


class LogLevel(enum.Enum):
    """Kinds of log lines."""

    INFO = 0
    WARNING = 1
    ERROR = 2
    VERBOSE = 3


class Logger:
    """Used as a class: ``Logger.log_info("text")``. The caller's file and line go with the text."""

    LogLevel = LogLevel
    INFO = LogLevel.INFO
    WARNING = LogLevel.WARNING
    ERROR = LogLevel.ERROR
    VERBOSE = LogLevel.VERBOSE

    @staticmethod
    def log(message: str, level: LogLevel = LogLevel.INFO) -> None:
        """Write one line."""
        _log(message, level)

    @staticmethod
    def log_info(message: str) -> None:
        """Write one line."""
        _log(message, LogLevel.INFO)

    @staticmethod
    def log_warn(message: str) -> None:
        """Write one line."""
        _log(message, LogLevel.WARNING)

    @staticmethod
    def log_error(message: str) -> None:
        """Write one line."""
        _log(message, LogLevel.ERROR)

    @staticmethod
    def log_verbose(message: str) -> None:
        """Write one line that shows only where the server logs verbosely."""
        _log(message, LogLevel.VERBOSE)


def _log(message: str, level: LogLevel) -> None:
    require(message, str, "log", "message")
    require(level, LogLevel, "log", "level")
    caller = sys._getframe(2)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  the cheap way to a caller
    emit(message, level, caller.f_code.co_filename, caller.f_lineno)


def emit(message: str, level: LogLevel, path: str, line: int) -> None:
    """Send one line to the server, or write it to stderr where there is none."""
    if RUNTIME.connected:
        content = {"level": level.name, "message": message, "path": path, "line": line}
        try:
            RUNTIME.channel().send(frames.pack_json(Kind.LOG, 0, content))
        except OSError:
            pass
        else:
            return
    letter = {"WARNING": "W", "ERROR": "E"}.get(level.name, "I")
    stamp = time.strftime("%m%d %H:%M:%S")
    sys.stderr.write(f"{letter}{stamp} {os.getpid()} {os.path.basename(path)}:{line}] {message}\n")
