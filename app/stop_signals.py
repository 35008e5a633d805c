"""SIGINT and SIGTERM for a process whose main thread waits while others work."""

from __future__ import annotations

import signal
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import FrameType
    from typing import Self


class StopRequested(BaseException):
    """Raised by a signal into what cannot be waited for: a start, or a drain that has been interrupted.

    Like KeyboardInterrupt it is nothing that who handles failures could mend.
    """


class StopSignals:
    """SIGINT and SIGTERM, for the main thread.

    Within :meth:`raising` a signal raises StopRequested where the main thread stands. Otherwise it is kept for
    :meth:`wait`, which reads the interpreter's wake-up descriptor: a signal that comes between the interpreter's last
    look and a wait on a lock would not wake that lock, but it always leaves a byte.
    """

    def __init__(self) -> None:
        self._armed = False
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
        signal.set_wakeup_fd(-1)
        self._reader.close()
        self._writer.close()

    @contextmanager
    def raising(self) -> Generator[None]:
        """Have a signal raise StopRequested, at the latest at the end; one that was kept raises it at once."""
        self._armed = True
        try:
            self._raise_kept()
            yield
        finally:
            self._armed = False
        # What runs at any time, as a finalizer does, may have been where it was raised, and have swallowed it.
        self._raise_kept()

    def wait(self) -> signal.Signals:
        """Wait for the first signal that was not raised."""
        while not self._received:
            self._reader.recv(64)
        return self._received.pop(0)

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        self._received.append(signal.Signals(number))
        if self._armed:
            self._armed = False  # raised once: what cleans up after it is not interrupted
            self._raise_kept()

    def _raise_kept(self) -> None:
        if self._received:
            raise StopRequested(self._received[0].name)
