from __future__ import annotations

import pytest

from infer.server.operator.control import refusal


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
def test_this_machine_may_change_things(address: str) -> None:
    assert refusal(address, {"Content-Type": "application/json"}) is None


@pytest.mark.parametrize("address", ["10.0.0.1", "::ffff:10.0.0.1", "fe80::1%eth0", "2001:db8::1", "", "localhost"])
def test_nobody_else_may(address: str) -> None:
    reason = refusal(address, {})
    assert reason is not None
    assert "this machine only" in reason
