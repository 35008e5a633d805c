"""``print`` for a model that shares its process: line by line to whoever wants them, with a word of whose they are."""

from __future__ import annotations

import builtins
import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Printer:
    """``write(is_error, line)`` takes what is printed to the process's own stdout or stderr. Any thread."""

    def __init__(self, write: Callable[[bool, str], None]) -> None:
        self._write = write
        self._streams = (sys.stdout, sys.stderr)
        self._rests = ["", ""]
        self._lock = threading.Lock()

    def print(
        self,
        *values: object,
        sep: str | None = " ",
        end: str | None = "\n",
        file: Any = None,  # noqa: ANN401  anything with write()
        flush: bool = False,
    ) -> None:
        """The builtin ``print``."""
        stream: Any = sys.stdout if file is None else file
        if stream not in self._streams:
            # A file of the model's, or what it has put in place of stdout for a while.
            builtins.print(*values, sep=sep, end=end, file=file, flush=flush)
            return
        text = (" " if sep is None else sep).join(map(str, values)) + ("\n" if end is None else end)
        self._take(self._streams.index(stream), text)

    def close(self) -> None:
        """Write what is left of lines without an end."""
        for number, rest in enumerate(self._rests):
            if rest:
                self._take(number, "\n")

    def _take(self, number: int, text: str) -> None:
        with self._lock:
            *lines, self._rests[number] = (self._rests[number] + text).split("\n")
        for line in lines:
            if line:
                self._write(number == 1, line)
