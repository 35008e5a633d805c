"""Every code has a status, and every error one shape."""

from __future__ import annotations

import json

import pytest

from infer.backends.api.errors import Code, InferError
from infer.server.http import errors


def test_the_table_is_total() -> None:
    assert set(errors.STATUS) == set(Code)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (Code.INVALID_ARG, 400),
        (Code.NOT_FOUND, 404),
        (Code.INTERNAL, 500),
        (Code.UNSUPPORTED, 501),
        (Code.UNAVAILABLE, 503),
        (Code.CANCELLED, 400),
        (Code.ALREADY_EXISTS, 400),
        (Code.UNKNOWN, 400),
    ],
)
def test_a_code_has_tritons_status(code: Code, status: int) -> None:
    assert errors.status_of(InferError("x", code=code)) == status


def test_an_error_body_is_compact_and_has_one_key() -> None:
    assert errors.error_body('it\'s "bad"\n') == b'{"error":"it\'s \\"bad\\"\\n"}'


def test_a_message_with_bytes_that_are_no_utf8_is_still_sent() -> None:
    assert errors.error_body(b"a\xff".decode("utf-8", "surrogateescape")) == b'{"error":"a\xff"}'
    assert json.loads(errors.error_body("grün"))["error"] == "grün"


def test_a_refusal_is_a_whole_response_and_the_last() -> None:
    assert errors.refusal(408, "too late") == (
        b"HTTP/1.1 408 Request Timeout\r\ncontent-type: application/json\r\nconnection: close\r\n"
        b'content-length: 20\r\n\r\n{"error":"too late"}'
    )
