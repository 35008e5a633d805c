"""``pb_utils.InferenceResponse``, and how it becomes an entry of a frame."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NoReturn

from . import parcels
from .errors import TritonError, TritonErrorCode, TritonModelException, checked_parameters, require
from .tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    import numpy as np
    from numpy.typing import NDArray

    from .parcels import Entry, Item, Signatures


class InferenceResponse:
    """``InferenceResponse(output_tensors=[], error=None, parameters=None)``. With an error the outputs are ignored."""

    __slots__ = ("__weakref__", "_error", "_outputs", "_parameters")

    def __init__(
        self,
        output_tensors: list[Tensor] = [],  # noqa: B006  part of the interface, never changed
        error: TritonError | None = None,
        parameters: dict[str, Any] | None = None,
    ) -> None:
        if not isinstance(output_tensors, list):  # pyright: ignore[reportUnnecessaryIsInstance]
            require(output_tensors, (list, tuple), "InferenceResponse", "output_tensors")
        for tensor in output_tensors:
            if not isinstance(tensor, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
                not_a_tensor("InferenceResponse", "output_tensors", tensor)
        if error is not None:
            require(error, TritonError, "InferenceResponse", "error")
        self._outputs = output_tensors
        self._error = error
        self._parameters = checked_parameters(parameters, floats=False) if parameters is not None else None

    @classmethod
    def received(cls, item: Item, memory: bytearray | NDArray[np.uint8]) -> InferenceResponse:
        """A response of another model, over the memory of its parcel."""
        if item.flags & parcels.ENTRY_ERROR:
            return cls(error=TritonError(item.text, TritonErrorCode(item.flags >> 8 & 0xFF)))
        self = cls.__new__(cls)
        self._outputs = Tensor.received(item, memory)
        self._error = None
        # Those of other backends may be floats, which a model's own may not.
        self._parameters = item.extras.get("parameters")
        return self

    def output_tensors(self) -> list[Tensor]:
        """The outputs; empty where there is an error."""
        return [] if self._error is not None else list(self._outputs)

    def has_error(self) -> bool:
        """Whether the response is an error."""
        return self._error is not None

    def error(self) -> TritonError | None:
        """The error, or None."""
        return self._error

    def parameters(self) -> str:
        """The parameters as JSON text."""
        return json.dumps(self._parameters or {})

    def entry(self, entry_id: int, signatures: Signatures, requested: AbstractSet[str], flags: int) -> Entry:
        """The response as it is sent: outputs that nobody asked for are left out."""
        if self._error is not None:
            return error_entry(entry_id, signatures, self._error.message(), self._error.code(), flags)
        rows: list[tuple[str, str, tuple[int, ...], int]] = []
        buffers: list[Any] = []
        for tensor in self._outputs:
            row, data = tensor.wire()
            if row[0] in requested:
                rows.append(row)
                buffers.append(data)
        extras = json.dumps({"parameters": self._parameters}).encode() if self._parameters else b""
        return parcels.Entry(entry_id, signatures.layout((), tuple(rows)), buffers, flags, b"", extras)


def not_a_tensor(what: str, argument: str, value: object) -> NoReturn:
    """Refuse an element of a list of tensors: None is another mistake than a foreign object, as in the C++ binding."""
    if value is None:
        msg = f"{what}(): '{argument}' must not contain None."
        raise TritonModelException(msg)
    msg = f"{what}(): incompatible argument '{argument}': expected a list of Tensor, found a {type(value).__name__}"
    raise TypeError(msg)


def error_entry(entry_id: int, signatures: Signatures, message: str, code: int, flags: int) -> Entry:
    """An error as it is sent."""
    text = message.encode(errors="replace")
    return parcels.Entry(entry_id, signatures.layout((), ()), (), flags | parcels.ENTRY_ERROR | int(code) << 8, text)


def empty_entry(entry_id: int, signatures: Signatures) -> Entry:
    """The final flag alone."""
    return parcels.Entry(entry_id, signatures.layout((), ()), (), parcels.ENTRY_FINAL)
