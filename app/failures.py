"""How a command fails: one line what, one line why, one line how to mend it, and a documented exit code."""

from __future__ import annotations

import enum


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


class CommandError(Exception):
    """A command's failure, in the words that its user reads. ``fix`` may be empty where nobody knows one."""

    def __init__(self, what: str, why: str, fix: str = "", *, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.fix = fix
        self.code = code

    def __str__(self) -> str:
        lines = [f"error: {self.what}", f"  why: {self.why}"]
        if self.fix:
            lines.append(f"  fix: {self.fix}")
        return "\n".join(lines)
