"""What the screen of one model says of its batches, in the room that there is."""

from __future__ import annotations

import pytest

from infer.tui.model_page import batches, head
from infer.tui.rates import Rates
from infer.tui.snapshot import ModelSnapshot

WIDTH = 38
"""Half of the smallest terminal."""


def said(limits: dict[str, int], width: int = WIDTH, sizes: tuple[tuple[int, int], ...] = ((1, 10), (8, 5))) -> str:
    return batches(ModelSnapshot("m", "1", batches=sizes, batch_limits=limits), width, 5).plain


@pytest.mark.parametrize("size", [0, 8])
def test_the_largest_batch_is_told_by_the_name_it_is_configured_with(size: int) -> None:
    row = ModelSnapshot("m", "1", "READY", max_batch_size=size)
    assert f"   max_batch_size {size}   " in head(row, Rates(), ["e"]).plain


def test_of_a_model_whose_configuration_was_never_read_no_largest_batch_is_told() -> None:
    assert "max_batch_size" not in head(ModelSnapshot("m", "1", "UNAVAILABLE"), Rates(), []).plain


def test_what_limits_batches_stands_below_their_sizes_the_most_frequent_first() -> None:
    lines = said({"full": 30, "delay over": 70, "no others": 0}).splitlines()
    assert [line.split()[0] for line in lines] == ["batch", "1", "8", "limited"]
    assert lines[-1] == "limited by delay over 70 %, full 30 %"


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (20, "limited by next does not fit 60 %"),
        (WIDTH, "limited by next does not fit 60 %"),
        (60, "limited by next does not fit 60 %, shape differs 30 %"),
        (80, "limited by next does not fit 60 %, shape differs 30 %, full 10 %"),
    ],
)
def test_there_are_as_many_reasons_as_fit_and_the_first_in_any_case(width: int, line: str) -> None:
    assert said({"full": 1, "shape differs": 3, "next does not fit": 6}, width).splitlines()[-1] == line


def test_every_size_keeps_its_line() -> None:
    sizes = tuple((size, 1) for size in range(1, 9))
    assert len(said({"full": 1}, sizes=sizes).splitlines()) == 6


@pytest.mark.parametrize("limits", [{}, {"full": 0, "no others": 0}])
def test_without_a_batcher_or_a_batch_nothing_is_said_of_limits(limits: dict[str, int]) -> None:
    assert "limited" not in said(limits)
    assert said(limits, sizes=()).splitlines()[-1] == "none yet"
