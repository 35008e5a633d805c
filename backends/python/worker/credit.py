"""How many responses of a request may be under way: who sends more waits until the server has passed some on."""

from __future__ import annotations

import threading

from . import frames


class Credit:
    """The room of one request. Any thread; with several that wait, whichever comes first goes on."""

    __slots__ = ("_left", "_lifted", "_lock", "_more")

    def __init__(self) -> None:
        self._left = frames.WINDOW
        self._lifted = False
        self._lock = threading.Lock()
        self._more = threading.Condition(self._lock)

    def take(self) -> bool:
        """Take room for one response, where there is some."""
        with self._lock:
            if self._left > 0:
                self._left -= 1
                return True
            return self._lifted

    def wait(self) -> None:
        """Take room for one response as soon as there is some."""
        with self._lock:
            while self._left <= 0 and not self._lifted:
                self._more.wait()
            self._left -= 1

    def add(self, count: int) -> None:
        """The server has passed ``count`` responses on."""
        with self._lock:
            self._left += count
            self._more.notify(count)

    def lift(self) -> None:
        """Nobody need wait any more: the request is cancelled or answered, and nothing more of it is sent."""
        with self._lock:
            self._lifted = True
            self._more.notify_all()
