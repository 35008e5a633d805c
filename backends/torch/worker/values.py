"""Configured tensors against PyTorch's: datatypes, shapes, and what is wrong with an output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TEXT = "TYPE_STRING"
DTYPES: dict[str, torch.dtype] = {
    "TYPE_BOOL": torch.bool,
    "TYPE_UINT8": torch.uint8,
    "TYPE_UINT16": torch.uint16,
    "TYPE_UINT32": torch.uint32,
    "TYPE_UINT64": torch.uint64,
    "TYPE_INT8": torch.int8,
    "TYPE_INT16": torch.int16,
    "TYPE_INT32": torch.int32,
    "TYPE_INT64": torch.int64,
    "TYPE_FP16": torch.float16,
    "TYPE_FP32": torch.float32,
    "TYPE_FP64": torch.float64,
    "TYPE_BF16": torch.bfloat16,
}
"""Config name → dtype. Text has none: it is a list of ``str``."""
CONFIG_NAMES: dict[torch.dtype, str] = {dtype: name for name, dtype in DTYPES.items()}


class ValueMismatch(Exception):
    """A tensor that the configuration does not allow; the text is a sentence."""


@dataclass(frozen=True, slots=True)
class Spec:
    """One configured input or output. ``model_dims`` is the shape that the model sees, without the batch dimension."""

    name: str
    data_type: str
    dims: tuple[int, ...]
    reshape: tuple[int, ...] | None = None

    @property
    def model_dims(self) -> tuple[int, ...]:
        """``reshape`` where there is one, else ``dims``."""
        return self.dims if self.reshape is None else self.reshape


def specs(model: str, entries: Sequence[Mapping[str, Any]]) -> tuple[Spec, ...]:
    """The specs of a configuration's ``input`` or ``output``. Raises ValueMismatch for what PyTorch does not have."""
    found = tuple(
        Spec(
            entry["name"],
            entry["data_type"],
            tuple(entry["dims"]),
            tuple(entry["reshape"].get("shape", ())) if "reshape" in entry else None,
        )
        for entry in entries
    )
    for spec in found:
        if spec.data_type != TEXT and spec.data_type not in DTYPES:
            msg = f"model '{model}', tensor '{spec.name}': PyTorch has no datatype {spec.data_type}"
            raise ValueMismatch(msg)
        if spec.data_type == TEXT and len(spec.model_dims) != 1:
            msg = (
                f"model '{model}', tensor '{spec.name}': text is a list of strings in PyTorch, so TYPE_STRING tensors "
                f"have one dimension, not {len(spec.model_dims)}; configure dims: [ -1 ] or dims: [ 1 ]"
            )
            raise ValueMismatch(msg)
    return found


def checked(spec: Spec, value: object, *, batching: bool, rows: int) -> tuple[Any, tuple[int, ...]]:
    """An output, a tensor or a list of strings, and its shape as clients see it.

    Raises ValueMismatch, naming output, what came and what was configured, where it does not fit.
    """
    if spec.data_type == TEXT:
        return _text(spec, value, batching=batching, rows=rows)
    if not isinstance(value, torch.Tensor):
        msg = f"output '{spec.name}' is {_kind(value)}, and a tensor of {spec.data_type} is configured"
        raise ValueMismatch(msg)
    if value.dtype != DTYPES[spec.data_type]:
        came = CONFIG_NAMES.get(value.dtype, str(value.dtype))
        msg = f"output '{spec.name}' is {came}, and {spec.data_type} is configured"
        raise ValueMismatch(msg)
    shape = tuple(value.shape)
    if batching and (not shape or shape[0] != rows):
        msg = (
            f"output '{spec.name}' has shape {list(shape)} for a batch of {rows}; its first dimension must be the "
            "batch's, or set max_batch_size: 0"
        )
        raise ValueMismatch(msg)
    return value, _client_shape(spec, shape, batching=batching)


def _client_shape(spec: Spec, shape: tuple[int, ...], *, batching: bool) -> tuple[int, ...]:
    """A shape that fits the configured one, with ``reshape`` undone; a scalar is [1]."""
    lead = shape[:1] if batching else ()
    sizes = shape[len(lead) :]
    wanted = spec.model_dims
    if not sizes and wanted == (1,) and not batching:
        return (1,)
    if sizes != wanted and not _fits(sizes, wanted):
        whole = [-1, *wanted] if batching else list(wanted)
        msg = f"output '{spec.name}' has shape {list(shape)}, and {whole} is configured"
        raise ValueMismatch(msg)
    if spec.reshape is None:
        return shape
    captured = iter([size for size, dim in zip(sizes, wanted, strict=True) if dim == -1])
    return (*lead, *(next(captured) if dim == -1 else dim for dim in spec.dims))


def _fits(sizes: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    return len(sizes) == len(wanted) and all(dim in (-1, size) for size, dim in zip(sizes, wanted, strict=True))


def _text(spec: Spec, value: object, *, batching: bool, rows: int) -> tuple[list[str], tuple[int, ...]]:
    items = cast("list[object]", value) if isinstance(value, list) else None
    if items is None or not all(isinstance(item, str) for item in items):
        msg = f"output '{spec.name}' is {_kind(cast('object', value))}, and a list of strings is configured"
        raise ValueMismatch(msg)
    texts = cast("list[str]", items)
    if not batching:
        return texts, _client_shape(spec, (len(texts),), batching=False)
    if len(texts) % max(rows, 1):
        msg = f"output '{spec.name}' has {len(texts)} strings, which are not the same number for each of {rows} rows"
        raise ValueMismatch(msg)
    return texts, _client_shape(spec, (rows, len(texts) // max(rows, 1)), batching=True)


def _kind(value: object) -> str:
    return CONFIG_NAMES.get(value.dtype, str(value.dtype)) if isinstance(value, torch.Tensor) else type(value).__name__
