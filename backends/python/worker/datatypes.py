"""Datatypes as a model meets them: wire names, config names and numbers against numpy types.

The server has its own table; this folder must stand alone, and a test holds the two together. numpy has no bfloat16,
so BF16 is carried as bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

TABLE: tuple[tuple[str, str, int, Any], ...] = (
    ("BOOL", "TYPE_BOOL", 1, np.bool_),
    ("UINT8", "TYPE_UINT8", 2, np.uint8),
    ("UINT16", "TYPE_UINT16", 3, np.uint16),
    ("UINT32", "TYPE_UINT32", 4, np.uint32),
    ("UINT64", "TYPE_UINT64", 5, np.uint64),
    ("INT8", "TYPE_INT8", 6, np.int8),
    ("INT16", "TYPE_INT16", 7, np.int16),
    ("INT32", "TYPE_INT32", 8, np.int32),
    ("INT64", "TYPE_INT64", 9, np.int64),
    ("FP16", "TYPE_FP16", 10, np.float16),
    ("FP32", "TYPE_FP32", 11, np.float32),
    ("FP64", "TYPE_FP64", 12, np.float64),
    ("BYTES", "TYPE_STRING", 13, np.object_),
)
"""Wire name, config name, number, numpy type."""

NUMBERS: dict[str, int] = {**{row[0]: row[2] for row in TABLE}, "BF16": 14}
DTYPES: dict[str, np.dtype[Any]] = {row[0]: np.dtype(row[3]) for row in TABLE}
"""Wire name → dtype; BF16 is not in it."""
WIRE_NAMES: dict[np.dtype[Any], str] = {np.dtype(row[3]): row[0] for row in TABLE}
ITEM_SIZES: dict[str, int] = {**{name: dtype.itemsize for name, dtype in DTYPES.items() if name != "BYTES"}, "BF16": 2}
"""Bytes of one element; BYTES, whose elements carry their own length, is not in it."""


def wire_name(dtype: np.dtype[Any]) -> str | None:
    """The wire name of a numpy dtype in native byte order; ``S<n>`` is BYTES; None where there is none."""
    return WIRE_NAMES.get(dtype) or ("BYTES" if dtype.kind == "S" else None)
