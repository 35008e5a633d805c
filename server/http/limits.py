"""The bounds of a connection: how large, how many and how long, and the phases for which times differ.

They stand apart from what keeps them, because the door's settings extend them and three objects of a connection
read them.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

MAX_INT32 = 2**31 - 1
MAX_CHUNKS = 65536


class Phase(enum.IntEnum):
    """What the reading side of a connection waits for."""

    IDLE = 0
    HEADERS = 1
    BODY = 2
    REFUSED = 3


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one connection: sizes in bytes, times in seconds."""

    max_input_size: int = 64 << 20
    max_header_size: int = 64 << 10
    max_pipelined: int = 32
    header_timeout_s: float = 60.0
    body_timeout_s: float = 60.0
    write_timeout_s: float = 60.0
    keep_alive_timeout_s: float = 300.0
    linger_s: float = 2.0

    def read_timeouts(self) -> tuple[float, float, float, float]:
        """How long the client may take for what each phase waits for, in seconds; the index is the phase."""
        return (self.keep_alive_timeout_s, self.header_timeout_s, self.body_timeout_s, self.linger_s)
