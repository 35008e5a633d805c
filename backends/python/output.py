"""What a worker writes to stdout and stderr, line by line."""

from __future__ import annotations

import collections
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

_TAIL_LINES = 5
_READ_SIZE = 65536


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
