from __future__ import annotations

from infer.backends.api.errors import Code
from infer.server.operator.errors import STATUS


def test_every_code_has_a_status() -> None:
    assert set(STATUS) == set(Code)
