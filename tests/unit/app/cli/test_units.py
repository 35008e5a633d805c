"""Numbers as a person reads them."""

from __future__ import annotations

import pytest

from infer.app.cli.units import byte_size, uptime


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (59.9, "59s"), (60, "1m 0s"), (3599, "59m 59s"), (7500, "2h 5m"), (90000, "1d 1h"), (8e6, "92d 14h")],
)
def test_a_span_of_time_has_its_two_largest_units(seconds: float, text: str) -> None:
    assert uptime(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (356700160, "340 MiB"), (5 << 60, "5120 PiB")]
)
def test_bytes_are_in_the_largest_unit_that_leaves_one(count: int, text: str) -> None:
    assert byte_size(count) == text
