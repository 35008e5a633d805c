"""How a failure looks over gRPC: its status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...backends.api.errors import Code
from .parameters import clean
from .transport.status import Abort, StatusCode

if TYPE_CHECKING:
    from ...backends.api.errors import InferError

STATUS: Final[dict[Code, StatusCode]] = {
    Code.UNKNOWN: StatusCode.UNKNOWN,
    Code.INTERNAL: StatusCode.INTERNAL,
    Code.NOT_FOUND: StatusCode.NOT_FOUND,
    Code.INVALID_ARG: StatusCode.INVALID_ARGUMENT,
    Code.UNAVAILABLE: StatusCode.UNAVAILABLE,
    Code.UNSUPPORTED: StatusCode.UNIMPLEMENTED,
    Code.ALREADY_EXISTS: StatusCode.ALREADY_EXISTS,
    Code.CANCELLED: StatusCode.CANCELLED,
}
"""One status for each code; a test holds it total."""


def abort(error: InferError) -> Abort:
    """What ends a call with a failure's status and sentence."""
    return Abort(STATUS[error.code], clean(str(error)))
