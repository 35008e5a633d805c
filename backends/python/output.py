"""What a model writes, line by line: to stdout and stderr, and to its Logger."""

from __future__ import annotations

import collections
import logging
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

_model_log = logging.getLogger("infer.model")
_LEVELS = {"INFO": logging.INFO, "WARNING": logging.WARNING, "ERROR": logging.ERROR}
_TAIL_LINES = 5
_READ_SIZE = 65536


def log_line(content: dict[str, Any], labels: dict[str, Any]) -> None:
    """One line of a model's Logger into the log, with its place in the model's code."""
    level = _LEVELS.get(content["level"], logging.DEBUG)
    if _model_log.isEnabledFor(level):
        record = _model_log.makeRecord(
            _model_log.name, level, content["path"], content["line"], "%s", (content["message"],), None, extra=labels
        )
        _model_log.handle(record)


def log_output(level: int, name: str, line: str, labels: dict[str, Any]) -> None:
    """One line that a model has printed into the log."""
    if _model_log.isEnabledFor(level):
        _model_log.log(level, "%s: %s", name, line, extra=labels)


class OutputReader:
    """One output stream of a worker, line by line into the log."""

    def __init__(self, loop: asyncio.AbstractEventLoop, descriptor: int, log: Callable[[str], None]) -> None:
        os.set_blocking(descriptor, False)
        self._loop = loop
        self._descriptor = descriptor
        self._log = log
        self._rest = b""
        self.tail: collections.deque[str] = collections.deque(maxlen=_TAIL_LINES)
        loop.add_reader(descriptor, self._readable)

    def close(self) -> None:
        """Read what is there and stop."""
        if self._descriptor < 0:
            return
        while self._descriptor >= 0 and self._read():
            pass
        self._stop()

    def _readable(self) -> None:
        self._read()

    def _read(self) -> bool:
        try:
            data = os.read(self._descriptor, _READ_SIZE)
        except BlockingIOError:
            return False
        if not data:
            self._stop()
            return False
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _READ_SIZE:
            lines.append(self._rest)
            self._rest = b""
        for line in lines:
            self._take(line)
        return True

    def _take(self, line: bytes) -> None:
        text = line.decode(errors="replace").rstrip("\r")
        if text:
            self.tail.append(text)
            self._log(text)

    def _stop(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            self._loop.remove_reader(descriptor)
            os.close(descriptor)
            self._take(self._rest)
            self._rest = b""
            self._log = _nowhere


def _nowhere(_: str) -> None:
    return
