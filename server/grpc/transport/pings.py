"""Pings: those of a client that are too many, and ours that find out whether it is still there."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .frames import ping

if TYPE_CHECKING:
    import asyncio

    from .connection import Connection
    from .limits import ConnectionLimits

_PAYLOAD = b"infer ok"
_IDLE_INTERVAL_S = 7200.0
"""Between pings of a client that has no call under way, where it may not keep such a connection alive."""


class PingStrikes:
    """Counts a client's pings that come too soon after one another with nothing sent to it in between. Pure."""

    __slots__ = ("_last", "_limits", "_strikes")

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._last = -math.inf
        self._strikes = 0

    def sent(self) -> None:
        """Headers or data went out: a ping may follow them."""
        self._last = -math.inf
        self._strikes = 0

    def too_many(self, now: float, *, calls: bool) -> bool:
        """Whether the ping that comes at ``now`` is one too many; ``calls`` says whether any are under way."""
        limits = self._limits
        interval = limits.min_ping_interval_s if calls or limits.keepalive_without_calls else _IDLE_INTERVAL_S
        soon = now - self._last < interval
        self._last = now
        if soon:
            self._strikes += 1
        return 0 < limits.max_ping_strikes < self._strikes


class KeepAlive:
    """Pings a client that has been silent for a while, and gives it up when it does not answer."""

    __slots__ = ("_connection", "_limits", "_timer", "_unanswered", "alive")

    def __init__(self, connection: Connection, limits: ConnectionLimits) -> None:
        self._connection = connection
        self._limits = limits
        self._unanswered = 0
        self.alive = True
        """Whether anything came since the last ping."""
        self._timer: asyncio.TimerHandle | None = None
        self._wait()

    def answered(self) -> None:
        """The client has answered a ping."""
        self._wait()

    def sent(self) -> None:
        """Headers or data went out: pings may be sent again."""
        self._unanswered = 0

    def stop(self) -> None:
        """No more pings."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(self) -> None:
        self.stop()
        self._timer = self._connection.loop.call_later(self._limits.keepalive_time_s, self._ping)

    def _ping(self) -> None:
        limits = self._limits
        idle = not self._connection.streams.calls and not limits.keepalive_without_calls
        if idle or 0 < limits.max_pings_without_data <= self._unanswered:
            self._wait()
            return
        self._unanswered += 1
        self.alive = False
        self._connection.output.write(ping(_PAYLOAD))
        self._timer = self._connection.loop.call_later(limits.keepalive_timeout_s, self._give_up)

    def _give_up(self) -> None:
        # An answer may stand behind much else that the client sends.
        if self.alive:
            self._wait()
        else:
            self._connection.abort()
