"""Requests that came ahead of their turn, and the pauses in reading that keep a connection within its share.

A connection goes on reading while a request executes, because only so does it notice that the client is gone. What it
reads meanwhile waits here, up to a bound; and however much a client sends, other connections get their turn of the
loop.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio

    from uvicorn.protocols.http.flow_control import FlowControl

    from .cycle import Cycle

FULL_READ = 200 << 10
"""A read of this size filled uvloop's buffer, so more is waiting."""
MAX_FULL_READS = 4


class _Owner(Protocol):
    transport: asyncio.Transport
    flow: FlowControl
    loop: asyncio.AbstractEventLoop


class Pipeline:
    """The requests that wait for the one that executes, oldest first in ``waiting``."""

    __slots__ = ("_full_reads", "_max", "_owner", "waiting")

    def __init__(self, owner: _Owner, max_waiting: int) -> None:
        self._owner = owner
        self._max = max_waiting
        self._full_reads = 0
        self.waiting: deque[Cycle] = deque()

    def add(self, cycle: Cycle) -> None:
        """Queue a request; reading pauses where that makes as many as may wait."""
        self.waiting.append(cycle)
        if len(self.waiting) >= self._max:
            # Beyond this a client that goes away is noticed late, which costs it one answer nobody reads.
            self._owner.flow.pause_reading()

    def take(self) -> Cycle:
        """The request whose turn it is; there is room for another. Raises IndexError where none waits."""
        self._owner.flow.resume_reading()
        return self.waiting.popleft()

    def note_read(self, size: int) -> None:
        """Count full reads, and let others have their turn after many.

        libuv reads up to 32 buffers, eight megabytes, before it looks around.
        """
        if size < FULL_READ:
            self._full_reads = 0
            return
        self._full_reads += 1
        if self._full_reads >= MAX_FULL_READS:
            self._full_reads = 0
            if not self._owner.flow.read_paused:
                self._owner.flow.pause_reading()
                self._owner.loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        if not self._owner.transport.is_closing() and len(self.waiting) < self._max:
            self._owner.flow.resume_reading()
