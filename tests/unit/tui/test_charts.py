"""Bars and graphs."""

from __future__ import annotations

import pytest

from infer.tui.charts import bar, ceiling, graph


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0, "    "), (1, "████"), (0.5, "██  "), (2, "████"), (-1, "    "), (0.001, "▏   "), (0.28125, "█▏  ")],
)
def test_a_bar_is_filled_by_eighths(share: float, expected: str) -> None:
    assert bar(share, 4) == expected


def test_a_graph_has_its_rows_from_the_top_down_and_the_newest_on_the_right() -> None:
    assert graph([8, 16], 3, 2, 16) == ["  █", " ██"]
    assert graph([1, 2, 3], 2, 1, 8) == ["▂▃"]


def test_a_graph_draws_nothing_for_nothing_and_at_least_a_sliver_for_a_little() -> None:
    assert graph([None, 0, 0.001], 3, 1, 100) == ["  ▁"]
    assert graph([], 2, 1, 0) == ["  "]
    assert graph([5], 1, 1, 0) == [" "]


def test_what_is_above_the_scale_fills_the_column() -> None:
    assert graph([50], 1, 2, 10) == ["█", "█"]


@pytest.mark.parametrize(
    ("values", "top"),
    [([], 1.0), ([None], 1.0), ([0], 1.0), ([1], 1), ([3], 5), ([101], 200), ([0.03], 0.05), ([999], 1000)],
)
def test_a_scale_ends_at_a_round_number(values: list[float | None], top: float) -> None:
    assert ceiling(values) == pytest.approx(top)
