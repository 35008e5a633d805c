from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer.backends.api.reshape import reshaped


@pytest.mark.parametrize(
    ("shape", "before", "after", "batching", "expected"),
    [
        ((5, 1), (1,), (), True, (5,)),
        ((5,), (), (1,), True, (5, 1)),
        ((4,), (4,), (2, 2), False, (2, 2)),
        ((2, 3, 4), (-1, 4), (4, -1), True, (2, 4, 3)),
        ((7, 8), (-1, -1), (-1, 1, -1), False, (7, 1, 8)),
        ((0, 3), (-1,), (-1, 1), True, (0, 3, 1)),
    ],
)
def test_sizes_captured_at_wildcards_fill_those_of_the_other_shape(
    shape: tuple[int, ...], before: tuple[int, ...], after: tuple[int, ...], batching: bool, expected: tuple[int, ...]
) -> None:
    assert reshaped(shape, before, after, batching=batching) == expected


@given(st.lists(st.integers(0, 9), max_size=4), st.integers(0, 9))
def test_there_and_back_is_the_same_shape(sizes: list[int], rows: int) -> None:
    dims = tuple(-1 for _ in sizes)
    inside = (1, *dims, 1)
    there = reshaped((rows, *sizes), dims, inside, batching=True)
    assert reshaped(there, inside, dims, batching=True) == (rows, *sizes)


def test_a_shape_of_another_rank_is_an_error() -> None:
    with pytest.raises(ValueError, match="argument"):
        reshaped((1, 2, 3), (-1,), (1, -1), batching=True)
