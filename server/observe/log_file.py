"""A log file that is appended to, put aside when it is full, and opened anew where somebody moved it away.

Full files are named ``FILE.1`` (the newest) to ``FILE.n``; older ones are removed. One thread writes.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

from ...backends.api.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class LogFile:
    """The file at ``path``: at most ``max_bytes`` (0: no limit), ``count`` older ones beside it.

    A line that is longer than the limit is written whole, into a file of its own. ``count`` 0 keeps nothing of a full
    file.
    """

    def __init__(self, path: Path, max_bytes: int = 0, count: int = 3) -> None:
        """Open it. Raises Unavailable naming it where that fails."""
        self._path = path
        self._max_bytes = max_bytes
        self._count = count
        try:
            self._open()
        except OSError as error:
            raise Unavailable(f"log file '{path}' cannot be opened for appending: {error.strerror}") from error

    def write(self, lines: Sequence[str]) -> None:
        """Append lines, each with its line break. Raises OSError where the disk does not take them."""
        self._follow()
        chunk: list[bytes] = []
        size = 0
        for line in lines:
            data = line.encode()
            begun = self._size + size
            if self._limit and begun and begun + len(data) > self._limit:
                self._append(chunk)
                chunk, size = [], 0
                self._roll_over()
            chunk.append(data)
            size += len(data)
        self._append(chunk)

    def close(self) -> None:
        """Let go of the file. Idempotent."""
        self._file.close()

    def _append(self, chunk: list[bytes]) -> None:
        rest = memoryview(b"".join(chunk))
        while rest:
            written = self._file.write(rest)
            self._size += written
            rest = rest[written:]

    def _open(self) -> None:
        # Unbuffered: a line is in the file when write returns, and nothing is left to be lost at the end.
        self._file = self._path.open("ab", buffering=0)
        opened = os.fstat(self._file.fileno())
        self._identity = (opened.st_dev, opened.st_ino)
        self._size = opened.st_size
        # A pipe or /dev/null is not full, and not to be renamed.
        self._limit = self._max_bytes if stat.S_ISREG(opened.st_mode) else 0

    def _follow(self) -> None:
        """Open the file anew where the path is another file's or nobody's: a log rotator has moved ours away."""
        try:
            there = self._path.stat()
        except FileNotFoundError:
            there = None
        if there is None or (there.st_dev, there.st_ino) != self._identity:
            moved = self._file
            self._open()
            moved.close()

    def _roll_over(self) -> None:
        """Put the full file aside. Where that is not allowed it just goes on growing: no line is lost for it."""
        with suppress(OSError):
            for number in range(self._count - 1, 0, -1):
                with suppress(FileNotFoundError):
                    self._aside(number).replace(self._aside(number + 1))
            if self._count:
                self._path.replace(self._aside(1))
            else:
                self._path.unlink()
            self._follow()

    def _aside(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")
