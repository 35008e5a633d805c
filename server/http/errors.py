"""How a failure looks over HTTP: its status, the error body, and what a refusal says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import orjson
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from ...backends.api.errors import Internal
from ..wire.status import STATUS

if TYPE_CHECKING:
    from ...backends.api.errors import InferError

NOT_FOUND = "Not Found"
METHOD_NOT_ALLOWED = "Method Not Allowed"


def status_of(error: InferError) -> int:
    """The HTTP status of a failure."""
    return STATUS[error.code]


def error_body(message: str) -> bytes:
    """``{"error":"<message>"}``, compact; bytes that are no UTF-8 pass through as they came."""
    return b'{"error":' + json_string(message) + b"}"


def refusal(status: int, message: str) -> bytes:
    """A whole response with an error body, the last one on its connection."""
    body = error_body(message)
    return (
        STATUS_LINE[status]
        + b"content-type: application/json\r\nconnection: close\r\n"
        + b"content-length: %d\r\n\r\n" % len(body)
        + body
    )


def json_string(text: str) -> bytes:
    """A JSON string literal. Surrogate-escaped bytes come out as those bytes."""
    try:
        return orjson.dumps(text)
    except orjson.JSONEncodeError:
        return json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogateescape")


def mistyped(key: str, expected: str) -> Internal:
    """A member of the request's JSON that is not of the expected kind."""
    return Internal(f"Unable to parse '{key}': attempt to access JSON non-{expected} as {expected}")


def missing(key: str) -> Internal:
    """A member of the request's JSON that is not there."""
    return Internal(f"Unable to parse '{key}': attempt to access non-existing object member '{key}'")


def too_large(nbytes: int, limit: int) -> str:
    """The sentence for JSON over ``--http-max-input-size``."""
    return (
        f"request JSON size of {nbytes} bytes exceeds the maximum allowed input size of {limit} bytes. "
        "Use --http-max-input-size to increase the limit."
    )


def header_too_large(limit: int) -> str:
    """The sentence for headers, trailers or chunk extensions over the limit."""
    return f"request header, chunk extension or trailer exceeds the maximum of {limit} bytes"
