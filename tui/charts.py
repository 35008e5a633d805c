"""Bars and graphs of block characters, as plain lines. Pure.

A bar has an eighth of a column as its smallest step, a graph an eighth of a row; in ASCII both are coarser.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .glyphs import BARS

if TYPE_CHECKING:
    from collections.abc import Sequence

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_FULL = 8


def bar(share: float, width: int) -> str:
    """A bar of ``share`` (0..1) of ``width`` columns; what is more than nothing is at least a sliver."""
    eighths = round(max(0.0, min(1.0, share)) * width * _FULL)
    if share > 0:
        eighths = max(1, eighths)
    whole, rest = divmod(eighths, _FULL)
    return (_EIGHTHS[_FULL] * whole + (_EIGHTHS[rest] if rest else "")).ljust(width)


def graph(values: Sequence[float | None], width: int, height: int, top: float) -> list[str]:
    """The last ``width`` values as columns from 0 to ``top``, newest on the right; lines from the top down."""
    shown = list(values)[-width:]
    steps = [0 if not value or top <= 0 else max(1, round(min(1.0, value / top) * height * _FULL)) for value in shown]
    lines: list[str] = []
    for row in range(height - 1, -1, -1):
        fills = (max(0, min(_FULL, step - row * _FULL)) for step in steps)
        lines.append("".join(BARS[fill - 1] if fill else " " for fill in fills).rjust(width))
    return lines


def ceiling(values: Sequence[float | None]) -> float:
    """The end of a scale that holds all values: 1, 2 or 5 times a power of ten, so that it seldom moves."""
    most = max((value for value in values if value is not None), default=0.0)
    if most <= 0:
        return 1.0
    power = 1.0
    while power * 10 <= most:
        power *= 10
    while power > most:
        power /= 10
    return next(power * step for step in (1, 2, 5, 10) if power * step >= most)
