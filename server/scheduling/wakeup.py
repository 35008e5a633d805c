"""A timer on the serving loop that can be moved."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

_MS = 1_000_000
_BELOW_TIMER_NS = 500_000
"""What is nearer than this is waited for turn by turn: the loop's timers count milliseconds."""


class Wakeup:
    """Calls ``callback`` on the loop at one moment at a time.

    :param clock: nanoseconds; the moments are its.
    """

    __slots__ = ("_at", "_callback", "_clock", "_handle", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Callable[[], int], callback: Callable[[], None]) -> None:
        self._loop = loop
        self._clock = clock
        self._callback = callback
        self._at: int | None = None
        self._handle: asyncio.Handle | None = None

    def at(self, moment: int | None) -> None:
        """Call back at this moment and at no other; None for not at all."""
        if moment == self._at:
            return
        self.cancel()
        if moment is not None:
            self._at = moment
            self._schedule(moment - self._clock())

    def by(self, moment: int) -> None:
        """Call back at this moment or before.

        PERF: a call that comes too early costs less than a timer that is moved again and again.
        """
        if self._at is None or moment < self._at:
            self.at(moment)

    def cancel(self) -> None:
        """Do not call back."""
        self._at = None
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def close(self) -> None:
        """Never call back again, and let go of who was to be called."""
        self.cancel()
        self._callback = _nothing

    def _schedule(self, remaining: int) -> None:
        if remaining < _BELOW_TIMER_NS:
            self._handle = self._loop.call_soon(self._due)
        else:
            self._handle = self._loop.call_later(max(remaining // _MS, 1) / 1000, self._due)

    def _due(self) -> None:
        self._handle = None
        moment = self._at
        if moment is None:
            return
        remaining = moment - self._clock()
        if remaining > 0:
            self._schedule(remaining)
            return
        self._at = None
        self._callback()


def _nothing() -> None:
    return
