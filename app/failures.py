"""How a command fails: one line what, one line why, one line how to mend it, and a documented exit code."""

from __future__ import annotations

import enum

from ..tui.failure import ClientError, Failure, Kind


class ExitCode(enum.IntEnum):
    """The exit codes of every command but ``serve``, which knows 0 and 1 as Triton does."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    NOT_READY = 4
    REFUSED = 5
    NO_CONNECTION = 6
    PARTIAL = 7
    CHECK_FAILED = 8
    INTERRUPTED = 130


_CODES = {
    Kind.FAILED: ExitCode.FAILED,
    Kind.USAGE: ExitCode.USAGE,
    Kind.NOT_FOUND: ExitCode.NOT_FOUND,
    Kind.NOT_READY: ExitCode.NOT_READY,
    Kind.REFUSED: ExitCode.REFUSED,
    Kind.NO_CONNECTION: ExitCode.NO_CONNECTION,
}


class CommandError(Failure):
    """A command's failure, with the exit code that it ends with."""

    def __init__(self, what: str, why: str, fix: str = "", *, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(what, why, fix)
        self.code = code


def exit_code(failure: Failure) -> ExitCode:
    """The exit code that a failure stands for."""
    if isinstance(failure, CommandError):
        return failure.code
    return _CODES[failure.kind] if isinstance(failure, ClientError) else ExitCode.FAILED
