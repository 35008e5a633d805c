"""The deadlines of a connection: by when the client must have sent something, and have taken what was sent to it.

Nothing waits for ever, yet nearly every deadline moves long before it is due. So one lazy timer a connection serves
them all: a deadline that moves costs an assignment, and a timer that fires early is set again.
"""

from __future__ import annotations

import logging
from math import inf
from typing import TYPE_CHECKING, Protocol

from .limits import Phase

if TYPE_CHECKING:
    import asyncio

    from .limits import Limits

log = logging.getLogger("infer.http")

PROGRESS_STEP = 65536
"""Bytes that must move, either way, within a body or write deadline for it to be extended."""


class _Owner(Protocol):
    transport: asyncio.Transport
    client: tuple[str, int] | None

    def read_is_late(self, phase: Phase) -> None: ...


class Deadlines:
    """The read deadline and the write deadline of one connection, times on the loop's clock.

    ``read_due`` is also written by the connection: ``inf`` says that nothing need arrive. ``phase`` is what the read
    deadline was last set for.
    """

    __slots__ = (
        "_loop",
        "_owner",
        "_received_mark",
        "_timeouts",
        "_timer",
        "_write_due",
        "_write_mark",
        "_write_timeout",
        "phase",
        "read_due",
    )

    def __init__(self, owner: _Owner, limits: Limits, loop: asyncio.AbstractEventLoop) -> None:
        self._owner = owner
        self._loop = loop
        self._timeouts = limits.read_timeouts()
        self._write_timeout = limits.write_timeout_s
        self._timer: asyncio.TimerHandle | None = None
        self._write_due = inf
        self._write_mark = 0
        self._received_mark = 0
        self.phase = Phase.IDLE
        self.read_due = inf

    def wait_for(self, phase: Phase) -> None:
        """From now on the client has the time of this phase."""
        self.phase = phase
        self.read_due = due = self._loop.time() + self._timeouts[phase]
        self._arm(due)

    def follow(self, phase: Phase, received: int) -> None:
        """Extend the read deadline where a request has come far enough: a new phase, or enough of the body.

        ``received`` is the number of bytes of the body so far.
        """
        if phase is Phase.IDLE:
            return
        if phase is not self.phase or (phase is Phase.BODY and received - self._received_mark >= PROGRESS_STEP):
            self._received_mark = received
            self.wait_for(phase)

    def start_write(self) -> None:
        """The client does not take what was sent: from now on it must."""
        self._write_mark = self._owner.transport.get_write_buffer_size()
        self._write_due = self._loop.time() + self._write_timeout
        self._arm(self._write_due)

    def end_write(self) -> None:
        """Everything is with the kernel."""
        self._write_due = inf

    def stop(self) -> None:
        """The connection is gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.read_due = self._write_due = inf

    def _arm(self, due: float) -> None:
        """See to it that the timer fires at ``due`` or before; a timer that fires early is set again."""
        timer = self._timer
        if timer is not None:
            if timer.when() <= due:
                return
            timer.cancel()
        self._timer = self._loop.call_at(due, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        now = self._loop.time()
        if self._write_due <= now and not self._extend_write(now):
            return
        if self.read_due <= now:
            self.read_due = inf
            self._owner.read_is_late(self.phase)
        due = min(self.read_due, self._write_due)
        if due < inf and self._timer is None and not self._owner.transport.is_closing():
            self._timer = self._loop.call_at(due, self._on_timer)

    def _extend_write(self, now: float) -> bool:
        """Give a client that reads more time, and cut off one that does not; whether the connection lives on."""
        owner = self._owner
        left = owner.transport.get_write_buffer_size()
        if self._write_mark - left < PROGRESS_STEP:
            log.info("closing %s: it has not read its response for %g s", owner.client, self._write_timeout)
            owner.transport.abort()
            return False
        self._write_mark = left
        self._write_due = now + self._write_timeout
        return True
