"""How talking to a server fails: one line what, one line why, one line how to mend it, and a kind."""

from __future__ import annotations

import enum


class Kind(enum.Enum):
    """What sort of failure it is; the command line has an exit code for each."""

    FAILED = "failed"
    USAGE = "usage"
    NOT_FOUND = "not found"
    NOT_READY = "not ready"
    REFUSED = "refused"
    NO_CONNECTION = "no connection"


class Failure(Exception):
    """A failure in the words that its user reads. ``fix`` may be empty where nobody knows one."""

    def __init__(self, what: str, why: str, fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.fix = fix

    def __str__(self) -> str:
        lines = [f"error: {self.what}", f"  why: {self.why}"]
        if self.fix:
            lines.append(f"  fix: {self.fix}")
        return "\n".join(lines)


class ClientError(Failure):
    """A server did not do, or was not asked, what was wanted. ``late``: the time was over before it answered."""

    def __init__(self, what: str, why: str, fix: str = "", *, kind: Kind = Kind.FAILED, late: bool = False) -> None:
        super().__init__(what, why, fix)
        self.kind = kind
        self.late = late
