"""The frames between the HTTP door and its codec process: a header, a small JSON part, and bytes."""

from __future__ import annotations

import enum
import struct

HEADER = struct.Struct("<IBxxxIQ")
"""Request id, kind, length of the JSON part, length of the bytes."""


class Kind(enum.IntEnum):
    """What a frame is."""

    DECODE = 1
    """JSON inference request → the equivalent binary one. Bytes: the JSON."""
    ENCODE = 2
    """Tensors → JSON arrays. Bytes: the tensors, one behind the other."""
    RESULT = 3
    FAILURE = 4
    """The JSON part holds ``code`` and ``message``."""
