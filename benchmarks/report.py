"""Rows of the result: one measure of both servers, their ratio, and whether it reaches what the project promises."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_NUMBERS = (3, 4, 5)
"""Columns that stand to the right."""

_WHOLE = 100
"""Numbers from here on are shown without decimals."""


@dataclass(frozen=True)
class Target:
    """What the ratio (ours by the peer's), or our value where ``of_value`` is set, must reach."""

    limit: float
    at_most: bool = False
    of_value: bool = False

    def reached(self, ours: float, ratio: float | None) -> bool | None:
        """None where it cannot be said."""
        value = ours if self.of_value else ratio
        if value is None:
            return None
        return value <= self.limit if self.at_most else value >= self.limit

    def __str__(self) -> str:
        sign = "≤" if self.at_most else "≥"
        return f"{sign} {self.limit:g}" + ("" if self.of_value else " x")


@dataclass(frozen=True)
class Row:
    """One line of the table. ``peer`` is None where the peer could not be had."""

    part: str
    case: str
    measure: str
    ours: float | None
    peer: float | None
    target: Target | None = None

    @property
    def ratio(self) -> float | None:
        """Ours by the peer's."""
        return self.ours / self.peer if self.ours is not None and self.peer else None

    @property
    def verdict(self) -> str:
        """Reached, missed, or nothing to say."""
        if self.target is None or self.ours is None:
            return ""
        return {True: "reached", False: "MISSED", None: ""}[self.target.reached(self.ours, self.ratio)]


def table(rows: Iterable[Row]) -> str:
    """The rows as aligned text, numbers to the right."""
    cells = [("part", "case", "measure", "infer", "peer", "ratio", "target", "")]
    for row in rows:
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        target = "" if row.target is None else str(row.target)
        cells.append(
            (row.part, row.case, row.measure, _number(row.ours), _number(row.peer), ratio, target, row.verdict)
        )
    widths = [max(len(line[column]) for line in cells) for column in range(8)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column in _NUMBERS else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    )


def as_json(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """The rows as plain data."""
    return [
        {**asdict(row), "target": None if row.target is None else str(row.target), "ratio": row.ratio} for row in rows
    ]


def median(values: Sequence[float]) -> float | None:
    """The middle value; None of nothing."""
    return statistics.median(values) if values else None


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which ``share`` of the sorted values lie. Raises IndexError of nothing."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= _WHOLE else f"{value:.3g}"
