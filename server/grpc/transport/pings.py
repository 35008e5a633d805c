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

    __slots__ = ("_data_count", "_last", "_limits", "_strikes")

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._last = -math.inf
        self._strikes = 0
        self._data_count = 0

    def too_many(self, now: float, data_count: int, *, calls: bool) -> bool:
        """Whether the ping that comes at ``now`` is one too many.

        :param data_count: goes up with what is sent.
        :param calls: whether any are under way.
        """
        limits = self._limits
        if data_count != self._data_count:
            self._data_count, self._last, self._strikes = data_count, -math.inf, 0
        interval = limits.min_ping_interval_s if calls or limits.keepalive_without_calls else _IDLE_INTERVAL_S
        soon = now - self._last < interval
        self._last = now
        if soon:
            self._strikes += 1
        return 0 < limits.max_ping_strikes < self._strikes


class KeepAlive:
    """Pings a client that has been silent for a while, and gives it up when it does not answer."""

    __slots__ = ("_connection", "_data_count", "_limits", "_timer", "_unanswered", "alive")

    def __init__(self, connection: Connection, limits: ConnectionLimits) -> None:
        self._connection = connection
        self._limits = limits
        self._unanswered = 0
        self._data_count = 0
        self.alive = True
        """Whether anything came since the last ping."""
        self._timer: asyncio.TimerHandle | None = None
        self._wait()

    def answered(self) -> None:
        """The client has answered a ping."""
        self._wait()

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
        data_count = self._connection.output.data_count
        if data_count != self._data_count:
            self._data_count, self._unanswered = data_count, 0
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
