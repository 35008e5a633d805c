"""The server's requests and responses as entries of frames, and back. Tensors are views, copied by whoever packs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ..api.datatypes import BY_WIRE_NAME, Datatype
from ..api.errors import BackendFailure, Cancelled, Code, InferError, Unsupported
from ..api.request import InferenceRequest
from ..api.response import InferenceResponse
from ..api.tensor import Tensor
from .worker import parcels
from .worker.frames import FrameError
from .worker.parcels import Entry, Item, Layout, Signatures

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from ..api.request import ParameterValue

    Memory = bytearray | NDArray[np.uint8]


def request_entry(entry_id: int, request: InferenceRequest, signatures: Signatures) -> Entry:
    """A request to send. Raises Unsupported for an input that is not on the host."""
    text = request.request_id.encode(errors="replace") if request.request_id else b""
    form = request.form
    if form is not None:
        known = signatures.of_form(form)
        if known is not None:
            return Entry(entry_id, known[0], [tensor.buffer for tensor in request.inputs.values()], 0, text, known[1])
    version = request.model_version
    head = (request.model_name, -1 if version is None else version, request.requested_outputs)
    rows, buffers = _wire(request.inputs)
    layout, extras = signatures.layout(head, rows), _request_extras(request)
    if form is not None:
        signatures.remember_form(form, layout, extras)
    return Entry(entry_id, layout, buffers, 0, text, extras)


def read_request(item: Item, memory: Memory) -> InferenceRequest:
    """A received request. Raises FrameError for a head or a tensor that makes no sense."""
    try:
        model_name, version, requested = item.layout.head
    except ValueError as exc:
        msg = f"request {item.id} does not name its model"
        raise FrameError(msg) from exc
    extras = item.extras
    if not extras:
        # Everything but the tensors' contents and the id is in the layout.
        return InferenceRequest(
            str(model_name),
            _tensors(item, memory),
            None if version < 0 else int(version),
            item.text,
            tuple(requested),
            form=item.layout,
        )
    return InferenceRequest(
        model_name=str(model_name),
        inputs=_tensors(item, memory),
        model_version=None if version < 0 else int(version),
        request_id=item.text,
        requested_outputs=tuple(requested),
        parameters=extras.get("parameters", {}),
        correlation_id=extras.get("correlation_id", 0),
        flags=extras.get("flags", 0),
        priority=extras.get("priority", 0),
        timeout_us=extras.get("timeout", 0),
        batch_size=extras.get("batch_size", 1),
    )


def response_entry(entry_id: int, response: InferenceResponse, signatures: Signatures) -> Entry:
    """A response to send."""
    flags = parcels.ENTRY_FINAL if response.final else 0
    error = response.error
    if error is not None:
        text = error.message.encode(errors="replace")
        return Entry(entry_id, signatures.layout((), ()), (), flags | parcels.ENTRY_ERROR | error.code << 8, text)
    form = None if response.parameters else response.form
    if form is not None:
        known = signatures.of_form(form)
        if known is not None:
            return Entry(entry_id, known[0], [tensor.buffer for tensor in response.outputs.values()], flags)
    rows, buffers = _wire(response.outputs)
    layout = signatures.layout((), rows)
    if form is not None:
        signatures.remember_form(form, layout, b"")
    extras = json.dumps({"parameters": response.parameters}).encode() if response.parameters else b""
    return Entry(entry_id, layout, buffers, flags, b"", extras)


def read_response(item: Item, memory: Memory) -> InferenceResponse:
    """A received response. Raises FrameError for a tensor that makes no sense."""
    final = bool(item.flags & parcels.ENTRY_FINAL)
    if item.flags & parcels.ENTRY_ERROR:
        return InferenceResponse(error=error_of(item.flags >> 8 & 0xFF, item.text), final=final)
    parameters: dict[str, ParameterValue] = item.extras.get("parameters", {}) if item.extras else {}
    return InferenceResponse(_tensors(item, memory), parameters, None, final, item.layout)


def error_of(code: int, message: str) -> InferError:
    """The error that a model answered with."""
    try:
        known = Code(code)
    except ValueError:
        known = Code.UNKNOWN
    if known is Code.CANCELLED:
        return Cancelled(message)
    return BackendFailure(message, code=known)


def _request_extras(request: InferenceRequest) -> bytes:
    extras: dict[str, Any] = {}
    if request.parameters:
        extras["parameters"] = request.parameters
    if request.correlation_id:
        extras["correlation_id"] = request.correlation_id
    if request.flags:
        extras["flags"] = request.flags
    if request.priority:
        extras["priority"] = request.priority
    if request.timeout_us:
        extras["timeout"] = request.timeout_us
    if request.batch_size != 1:
        extras["batch_size"] = request.batch_size
    if request.earlier:
        extras["earlier"] = request.earlier
    return json.dumps(extras).encode() if extras else b""


def _wire(tensors: Mapping[str, Tensor]) -> tuple[tuple[tuple[str, str, tuple[int, ...], int], ...], list[memoryview]]:
    rows: list[tuple[str, str, tuple[int, ...], int]] = []
    buffers: list[memoryview] = []
    for name, tensor in tensors.items():
        if not tensor.device.is_host:
            msg = f"tensor '{name}' is on device {tensor.device.kind}:{tensor.device.index}; workers take host tensors"
            raise Unsupported(msg)
        view = memoryview(tensor.buffer)
        rows.append((name, tensor.datatype.value, tensor.shape, view.nbytes))
        buffers.append(view)
    return tuple(rows), buffers


def _tensors(item: Item, memory: Memory) -> dict[str, Tensor]:
    layout = item.layout
    plan: list[tuple[str, Datatype, tuple[int, ...], slice]] | None = layout.derived
    if plan is None:
        plan = layout.derived = _plan(layout)
    if not plan:
        return {}
    view = memoryview(memory)  # pyright: ignore[reportArgumentType]  ndarrays export their bytes
    start = item.start
    if start:
        view = view[start:]
    return {name: Tensor(datatype, shape, view[piece]) for name, datatype, shape, piece in plan}


def _plan(layout: Layout) -> list[tuple[str, Datatype, tuple[int, ...], slice]]:
    """What all parcels with this signature have in common. Raises FrameError where sizes and shapes disagree."""
    plan: list[tuple[str, Datatype, tuple[int, ...], slice]] = []
    for (name, wire_name, shape, size), offset in zip(layout.tensors, layout.offsets, strict=True):
        datatype = BY_WIRE_NAME.get(wire_name)
        if datatype is None:
            msg = f"tensor '{name}' has an unknown datatype '{wire_name}'"
            raise FrameError(msg)
        count = 1
        for dimension in shape:
            count *= dimension
        if datatype.itemsize and count * datatype.itemsize != size:
            msg = f"tensor '{name}' of {datatype} {list(shape)} has {size} bytes and not {count * datatype.itemsize}"
            raise FrameError(msg)
        plan.append((name, datatype, shape, slice(offset, offset + size)))
    return plan
