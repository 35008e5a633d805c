"""The states of a model version, and the entries of the repository index."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...backends.api.errors import Code

if TYPE_CHECKING:
    from ...backends.api.errors import InferError


class ModelState(enum.Enum):
    """As Triton's repository index spells them."""

    LOADING = "LOADING"
    READY = "READY"
    UNLOADING = "UNLOADING"
    UNAVAILABLE = "UNAVAILABLE"


UNLOADED = "unloaded"
"""The reason of a version that was unloaded on request; it does not make the server unready."""


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One line of the repository index; empty strings where a model was never loaded."""

    name: str
    version: str = ""
    state: str = ""
    reason: str = ""


_STATUS = {
    Code.UNKNOWN: "Unknown",
    Code.INTERNAL: "Internal",
    Code.NOT_FOUND: "Not found",
    Code.INVALID_ARG: "Invalid argument",
    Code.UNAVAILABLE: "Unavailable",
    Code.UNSUPPORTED: "Unsupported",
    Code.ALREADY_EXISTS: "Already exists",
    Code.CANCELLED: "Cancelled",
}
"""A code as Triton spells it in a reason."""


def reason_of(error: InferError) -> str:
    """A failure as the reason of a version: ``Internal: no such file``."""
    return f"{_STATUS[error.code]}: {error}"
