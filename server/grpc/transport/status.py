"""gRPC's status codes."""

from __future__ import annotations

import enum

BROKEN = "internal server error; the server's log has the details"
"""What a client is told of a fault of ours."""


class StatusCode(enum.IntEnum):
    """How a call ended."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class Abort(Exception):
    """Raised by a handler to end its call with a status."""

    def __init__(self, status: StatusCode, details: str) -> None:
        super().__init__(details)
        self.status = status
        self.details = details
