"""Numbers as a person reads them."""

from __future__ import annotations

import pytest

from infer.app.cli.units import byte_size


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (200 << 20, "200 MiB"),
        (3 << 30, "3.0 GiB"),
        (5 << 60, "5120 PiB"),
    ],
)
def test_bytes_have_the_largest_unit_that_leaves_one(count: int, text: str) -> None:
    assert byte_size(count) == text
