"""A listening address is shown as one that can be reached."""

from __future__ import annotations

import pytest

from infer.server.addresses import host_and_port


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        (("127.0.0.1", 8000), "127.0.0.1:8000"),
        (("0.0.0.0", 8000), "127.0.0.1:8000"),
        (("", 8000), "127.0.0.1:8000"),
        (("::", 8000), "[::1]:8000"),
        (("fe80::1", 8000), "[fe80::1]:8000"),
        (("box", 8000), "box:8000"),
    ],
)
def test_an_address_leads_there_from_this_machine(address: tuple[str, int], shown: str) -> None:
    assert host_and_port(address) == shown
