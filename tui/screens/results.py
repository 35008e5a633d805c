"""What came of loads and unloads: a table of all of them, or the one failure in full."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from ..changes import result_rows, summary
from .dialog import Answer, Dialog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..changes import Outcome


class ResultsScreen(Dialog):
    """Stays until it is read."""

    def __init__(self, outcomes: Sequence[Outcome]) -> None:
        failed = [outcome for outcome in outcomes if outcome.error is not None]
        lines = _failure(failed[0]) if len(outcomes) == 1 and failed else _table(outcomes)
        super().__init__(summary(outcomes), lines, [Answer("ok", "Close", "enter", "primary")])


def _failure(outcome: Outcome) -> list[Content]:
    error = outcome.error
    assert error is not None  # noqa: S101  the caller chose an outcome that failed
    lines = [
        Content.styled(f"{outcome.verb} {outcome.name}: {error.what}", "bold $error"),
        Content.assemble(("why  ", "dim"), error.why),
    ]
    return [*lines, Content.assemble(("fix  ", "dim"), error.fix)] if error.fix else lines


def _table(outcomes: Sequence[Outcome]) -> list[Content]:
    rows = list(result_rows(outcomes))
    width = max(len(name) for name, _, _ in rows)
    return [
        Content.assemble(
            f"{name:<{width}}  ", (f"{result:<9}", "$error" if result == "failed" else "$success"), f"  {text}"
        )
        for name, result, text in rows
    ]
