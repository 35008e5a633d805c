"""What a connection may cost, and how long it lives."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Times are in seconds, 0 for none where that is said; numbers are Triton's flags ``--grpc-keepalive-…`` and so on.

    ``max_age_s`` and ``max_age_grace_s`` 0 are unset. ``max_pings_without_data`` and ``max_ping_strikes`` 0 are any
    number. ``preface_timeout_s`` is how long a client may take to say that it speaks HTTP/2. ``stream_window`` is how
    many bytes of a call may be on their way to a handler that does not read them.
    """

    keepalive_time_s: float = 7200.0
    keepalive_timeout_s: float = 20.0
    keepalive_without_calls: bool = False
    max_pings_without_data: int = 2
    min_ping_interval_s: float = 300.0
    max_ping_strikes: int = 2
    max_age_s: float = 0.0
    max_age_grace_s: float = 0.0
    max_streams: int = 4096
    max_frame: int = 4 << 20
    stream_window: int = 4 << 20
    preface_timeout_s: float = 30.0
