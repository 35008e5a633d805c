"""The HTTP status of every kind of failure, the same at both doors."""

from __future__ import annotations

from typing import Final

from ...backends.api.errors import Code

STATUS: Final[dict[Code, int]] = {
    Code.UNKNOWN: 400,
    Code.INTERNAL: 500,
    Code.NOT_FOUND: 404,
    Code.INVALID_ARG: 400,
    Code.UNAVAILABLE: 503,
    Code.UNSUPPORTED: 501,
    Code.ALREADY_EXISTS: 400,
    Code.CANCELLED: 400,
}
"""One status for each code; a test holds it total."""
