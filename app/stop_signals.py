"""SIGINT and SIGTERM for a process whose main thread waits while others work."""

from __future__ import annotations

import signal
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType
    from typing import Self


class StopRequested(Exception):
    """Raised by a signal into what cannot be waited for: a start, or a drain that has been interrupted."""


class StopSignals:
    """SIGINT and SIGTERM, for the main thread.

    While ``armed`` a signal raises StopRequested where the main thread stands. Otherwise it is kept for :meth:`wait`,
    which reads the interpreter's wake-up descriptor: a signal that comes between the interpreter's last look and a
    wait on a lock would not wake that lock, but it always leaves a byte.
    """

    def __init__(self) -> None:
        self.armed = True
        self._received: list[signal.Signals] = []
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)  # noqa: FBT003  positional only
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._receive)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of the descriptors; signals are still taken, and change nothing any more."""
        self.armed = False
        signal.set_wakeup_fd(-1)
        self._reader.close()
        self._writer.close()

    def wait(self) -> signal.Signals:
        """Wait for the first signal that was not raised."""
        while not self._received:
            self._reader.recv(64)
        return self._received.pop(0)

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        if self.armed:
            self.armed = False  # raised once: what cleans up after it is not interrupted
            raise StopRequested(signal.Signals(number).name)
        self._received.append(signal.Signals(number))
