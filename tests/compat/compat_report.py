"""What became of each example, as a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

PASSED, FAILED, SKIPPED = "PASS", "FAIL", "skipped"


@dataclass(frozen=True)
class Result:
    """One example's end, and why."""

    example: str
    outcome: str
    reason: str = ""


def judged(example: str, status: int, output: str) -> Result:
    """What a client that ended with this exit status has shown: it has to say PASS, and to end well.

    Some say more after it, as they close their connections.
    """
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    said = next((line for line in reversed(lines) if line.startswith("PASS")), "")
    if status == 0 and said:
        return Result(example, PASSED, said)
    return Result(example, FAILED, f"exit status {status}: {lines[-1] if lines else 'it printed nothing'}")


def table(results: Sequence[Result]) -> str:
    """The results as aligned text, and a line that counts them."""
    lines = [
        ("example", "result", ""),
        *((each.example, each.outcome, " ".join(each.reason.split())) for each in results),
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(2)]
    text = [f"{name:<{widths[0]}}  {outcome:<{widths[1]}}  {reason}".rstrip() for name, outcome, reason in lines]
    counts = [f"{_count(results, outcome)} {outcome}" for outcome in (PASSED, FAILED, SKIPPED)]
    return "\n".join([*text, f"# {', '.join(counts)}"])


def failures(results: Sequence[Result]) -> int:
    """How many failed: the script's exit status."""
    return _count(results, FAILED)


def _count(results: Sequence[Result], outcome: str) -> int:
    return sum(each.outcome == outcome for each in results)
