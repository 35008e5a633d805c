"""When the next picture is asked for, and how the link to the server is doing. Pure.

An interval between pictures while the server answers; while it does not, waits that double up to a limit, so that a
server that comes back is seen within seconds and one that stays away costs next to nothing.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .failure import ClientError

INTERVALS_S = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""The steps of `+` and `-`, in seconds."""

LONGEST_WAIT_S = 15.0
"""A server that is away is asked again at least this often."""

PATIENCE_S = 2.0
"""An answer that takes longer than this is told in the header."""


class State(enum.Enum):
    """How the link is doing, in the word that the header shows."""

    CONNECTING = "connecting"
    LIVE = "live"
    PAUSED = "paused"
    SLOW = "slow"
    LOST = "no answer"


@dataclass(frozen=True, slots=True)
class Link:
    """The link to the server now. Times in seconds: ``retry_in_s`` until the next try, ``waited_s`` for an answer."""

    state: State = State.CONNECTING
    interval_s: float = 1.0
    error: ClientError | None = None
    failures: int = 0
    retry_in_s: float = 0.0
    waited_s: float = 0.0

    @property
    def stale(self) -> bool:
        """Whether the last picture may no longer be true."""
        return self.state in (State.LOST, State.SLOW)

    def answered(self) -> Link:
        """A picture has come."""
        return replace(self, state=State.LIVE, error=None, failures=0, retry_in_s=0.0, waited_s=0.0)

    def failed(self, error: ClientError) -> Link:
        """No picture has come."""
        failures = self.failures + 1
        wait = min(LONGEST_WAIT_S, max(1.0, self.interval_s) * 2.0 ** (min(failures, 8) - 1))
        return replace(self, state=State.LOST, error=error, failures=failures, retry_in_s=wait, waited_s=0.0)

    def counted_down(self, seconds: float) -> Link:
        """Time has passed before the next try."""
        return replace(self, retry_in_s=max(0.0, self.retry_in_s - seconds))

    def waiting(self, seconds: float) -> Link:
        """No answer yet after so many seconds; one that is known to be lost stays so."""
        if self.state is State.LOST or seconds < PATIENCE_S:
            return replace(self, waited_s=seconds)
        return replace(self, state=State.SLOW, waited_s=seconds)

    def paused(self, paused: bool) -> Link:  # noqa: FBT001  the word says what it is
        """The user has stopped the pictures, or asked for them again."""
        return replace(self, state=State.PAUSED if paused else State.CONNECTING, waited_s=0.0)

    def at_interval(self, interval_s: float) -> Link:
        """The user has chosen another interval."""
        return replace(self, interval_s=interval_s)


def next_interval(interval_s: float, step: int) -> float:
    """The interval ``step`` places further on the scale of INTERVALS_S, staying on it."""
    nearest = min(range(len(INTERVALS_S)), key=lambda index: abs(INTERVALS_S[index] - interval_s))
    return INTERVALS_S[max(0, min(len(INTERVALS_S) - 1, nearest + step))]
