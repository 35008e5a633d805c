"""Numbers are short, keep their unit, and never leave a hole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer.tui import figures

if TYPE_CHECKING:
    from collections.abc import Callable

EVERY = (figures.count, figures.rate, figures.microseconds, figures.age, figures.size, figures.percent)


@pytest.mark.parametrize("figure", EVERY)
def test_what_is_not_known_is_a_dash(figure: Callable[[float | None], str]) -> None:
    assert figure(None) == "-"


@pytest.mark.parametrize(
    ("figure", "value", "text"),
    [
        (figures.count, 0, "0"),
        (figures.count, 950, "950"),
        (figures.count, 1_000, "1.0k"),
        (figures.count, 12_345, "12.3k"),
        (figures.count, 999_999, "1.0M"),
        (figures.count, 4_100_000_000_000, "4100G"),
        (figures.rate, 0, "0"),
        (figures.rate, 0.25, "0.25"),
        (figures.rate, 9.96, "10.0"),
        (figures.rate, 12.54, "12.5"),
        (figures.rate, 240.4, "240"),
        (figures.rate, 14_200, "14.2k"),
        (figures.microseconds, 85.3, "85.3µs"),
        (figures.microseconds, 3_921, "3.92ms"),
        (figures.microseconds, 999_700, "1.00s"),
        (figures.microseconds, 1_720_000, "1.72s"),
        (figures.microseconds, 125_000_000, "2m05s"),
        (figures.age, 42.9, "42s"),
        (figures.age, -1, "0s"),
        (figures.age, 7_500, "2h05m"),
        (figures.age, 273_600, "3d04h"),
        (figures.size, 512, "512 B"),
        (figures.size, 1_503_238_554, "1.40 GiB"),
        (figures.size, 1023, "1.00 KiB"),
        (figures.size, 5 * 2**40, "5 TiB"),
        (figures.percent, 0.071, "7%"),
        (figures.percent, 1.0, "100%"),
    ],
)
def test_a_number_is_said_with_its_unit(figure: Callable[[float | None], str], value: float, text: str) -> None:
    assert figure(value) == text


@given(st.floats(0, 1e14))
def test_a_figure_fits_a_column(value: float) -> None:
    assert len(figures.count(min(value, 1e12))) <= 6
    assert len(figures.rate(min(value, 1e12))) <= 6
    assert len(figures.microseconds(value)) <= 8
    assert len(figures.age(min(value, 1e8))) <= 8
