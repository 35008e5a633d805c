"""Numbers in few letters, with their unit."""

from __future__ import annotations

import pytest

from infer.tui import figures


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0, "0"), (7, "7"), (7.25, "7.2"), (0.04, "0.04"), (9999, "9999"), (12_345, "12.3k"),
     (4_560_000, "4560k"), (45_600_000, "45.6M"), (12_000_000_000, "12G")],
)  # fmt: skip
def test_counts(value: float | None, text: str) -> None:
    assert figures.count(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0, "0 µs"),
        (870.4, "870 µs"),
        (4200, "4.2 ms"),
        (123_456, "123 ms"),
        (1_250_000, "1.2 s"),
        (90e6, "90 s"),
    ],
)
def test_durations(value: float | None, text: str) -> None:
    assert figures.duration_us(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "-"), (512, "512 B"), (84 << 20, "84 MB"), (1_503_238_553, "1.4 GB"), (3 << 40, "3 TB")]
)
def test_sizes(value: float | None, text: str) -> None:
    assert figures.size(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (42.4, "42 s"), (200, "3 min"), (7500, "2 h 05 min"), (3 * 86400 + 4 * 3600 + 5, "3 d 4 h")],
)
def test_spans(value: float | None, text: str) -> None:
    assert figures.span(value) == text


def test_no_figure_of_the_table_is_wider_than_its_column() -> None:
    for exponent in range(13):
        for digits in (1, 9.99, 9.994, 9.996, 1.005):
            value = digits * 10**exponent
            assert len(figures.count(value)) <= 6
            assert len(figures.duration_us(min(value, 9e9))) <= 7
            assert len(figures.size(value)) <= 7


def test_a_spark_line_has_the_newest_on_the_right_and_zeros_blank() -> None:
    assert figures.spark_line([0, 1, 4, 8], 6) == "   ▁▄█"
    assert figures.spark_line([1, 2], 1) == "█"
    assert figures.spark_line([], 3) == "   "
    assert figures.spark_line([0, 0], 3) == "   "
    assert figures.spark_line([4], 1, top=8) == "▄"
