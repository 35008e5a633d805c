"""A failure is one line what, one line why, and one line how to mend it."""

from __future__ import annotations

from infer.tui.failure import ClientError, Failure, Kind


def test_a_failure_reads_as_three_lines() -> None:
    assert str(Failure("it broke", "it was old", "buy another")) == (
        "error: it broke\n  why: it was old\n  fix: buy another"
    )


def test_a_failure_that_nobody_can_mend_has_no_third_line() -> None:
    assert str(Failure("it broke", "it was old")) == "error: it broke\n  why: it was old"


def test_a_client_error_has_a_kind() -> None:
    assert ClientError("a", "b").kind is Kind.FAILED
    assert ClientError("a", "b", kind=Kind.REFUSED).kind is Kind.REFUSED


def test_kinds_differ() -> None:
    assert len({kind.value for kind in Kind}) == len(Kind) == 6
