"""A failure reads as what, why and how to mend it."""

from __future__ import annotations

from infer.app.failures import CommandError, ExitCode


def test_a_failure_is_a_line_each_of_what_why_and_fix() -> None:
    error = CommandError("what", "why", "fix", code=ExitCode.NOT_FOUND)
    assert str(error) == "error: what\n  why: why\n  fix: fix"
    assert error.code == 3


def test_a_failure_that_nobody_can_mend_has_no_fix_line() -> None:
    assert str(CommandError("what", "why")) == "error: what\n  why: why"


def test_exit_codes_are_the_documented_ones() -> None:
    assert {code.name: int(code) for code in ExitCode} == {
        "OK": 0,
        "FAILED": 1,
        "USAGE": 2,
        "NOT_FOUND": 3,
        "NOT_READY": 4,
        "REFUSED": 5,
        "NO_CONNECTION": 6,
        "PARTIAL": 7,
        "CHECK_FAILED": 8,
        "INTERRUPTED": 130,
    }
