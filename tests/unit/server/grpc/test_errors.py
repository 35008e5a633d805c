"""Every code has a status."""

from __future__ import annotations

import pytest

from infer.backends.api.errors import Code
from infer.server.grpc.errors import STATUS
from infer.server.grpc.transport.status import StatusCode


def test_the_table_is_total() -> None:
    assert set(STATUS) == set(Code)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (Code.INVALID_ARG, "INVALID_ARGUMENT"),
        (Code.NOT_FOUND, "NOT_FOUND"),
        (Code.INTERNAL, "INTERNAL"),
        (Code.UNSUPPORTED, "UNIMPLEMENTED"),
        (Code.UNAVAILABLE, "UNAVAILABLE"),
        (Code.CANCELLED, "CANCELLED"),
        (Code.ALREADY_EXISTS, "ALREADY_EXISTS"),
        (Code.UNKNOWN, "UNKNOWN"),
    ],
)
def test_a_code_has_tritons_status(code: Code, status: str) -> None:
    assert STATUS[code] is StatusCode[status]
