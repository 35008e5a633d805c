"""The states of a model version, and the entries of the repository index."""

from __future__ import annotations

import enum
from dataclasses import dataclass


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
