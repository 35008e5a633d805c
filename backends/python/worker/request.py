"""``pb_utils.InferenceRequest``: received in ``execute``, or made by the model to call another one (BLS)."""

from __future__ import annotations

import enum
import json
from typing import TYPE_CHECKING, Any

from . import calls, parcels
from .answer import Answer, InferenceResponseSender, no_sender
from .errors import TritonModelException, checked_parameters, require, text, whole
from .response import not_a_tensor
from .runtime import request_extras
from .tensor import Tensor

if TYPE_CHECKING:
    import asyncio
    from typing import SupportsIndex

    import numpy as np
    from numpy.typing import NDArray

    from .parcels import Entry, Item, Signatures

RELEASE_ALL = 1
"""TRITONSERVER_REQUEST_RELEASE_ALL."""
RELEASE_RESCHEDULE = 2
"""TRITONSERVER_REQUEST_RELEASE_RESCHEDULE."""


class MemoryType(enum.Enum):
    """Where outputs of a BLS call should land."""

    TRITONSERVER_MEMORY_CPU = 0
    TRITONSERVER_MEMORY_CPU_PINNED = 1
    TRITONSERVER_MEMORY_GPU = 2


class PreferredMemory:
    """A wish for where outputs of a BLS call should land; a server without GPU puts all on the host."""

    __slots__ = ("device_id", "memory_type")

    def __init__(self, preferred_memory_type: MemoryType, preferred_device_id: int = 0) -> None:
        require(preferred_memory_type, MemoryType, "PreferredMemory", "preferred_memory_type")
        self.memory_type = preferred_memory_type
        self.device_id = whole(preferred_device_id, "PreferredMemory", "preferred_device_id", 0, _INT64)


class InferenceTrace:
    """The trace a request belongs to; none is kept yet."""

    __slots__ = ()

    def get_context(self) -> str | None:
        """The OpenTelemetry context as JSON text, or None."""
        return None


_UINT32, _INT64, _UINT64 = (1 << 32) - 1, (1 << 63) - 1, (1 << 64) - 1
_NONE, _ANY_VERSION = 0, -1
"""The defaults: by them one sees at once that an argument was not given."""
_LISTS = (list, tuple, set, frozenset)
_ANYWHERE = PreferredMemory(MemoryType.TRITONSERVER_MEMORY_CPU)
_NO_TRACE = InferenceTrace()


class InferenceRequest:
    """One request. Everything but ``parameters`` rejects None with TypeError."""

    __slots__ = (
        "__weakref__",
        "_answer",
        "_correlation_id",
        "_flags",
        "_inputs",
        "_model_name",
        "_model_version",
        "_outputs",
        "_parameters",
        "_request_id",
        "_sender",
        "_timeout",
        "_trace",
    )

    def __init__(  # noqa: PLR0913, PLR0917  the interface
        self,
        request_id: str = "",
        correlation_id: int | str = _NONE,
        inputs: list[Tensor] | None = None,
        requested_output_names: list[str] | None = None,
        model_name: str | None = None,
        model_version: int = _ANY_VERSION,
        flags: int = _NONE,
        timeout: int = _NONE,
        preferred_memory: PreferredMemory = _ANYWHERE,
        trace: InferenceTrace = _NO_TRACE,
        parameters: dict[str, Any] | None = None,
    ) -> None:
        what = "InferenceRequest"
        # PERF: a model may make one a call; what is as it nearly always is needs no function to say so.
        if type(inputs) is not list:
            require(inputs, (list, tuple), what, "inputs")
        if type(requested_output_names) is not list:
            require(requested_output_names, _LISTS, what, "requested_output_names")
        if preferred_memory is not _ANYWHERE:
            require(preferred_memory, PreferredMemory, what, "preferred_memory")
        if trace is not _NO_TRACE:
            require(trace, InferenceTrace, what, "trace")
        self._inputs = _checked_inputs(inputs or [])
        self._outputs = _checked_names(requested_output_names or [])
        self._request_id = request_id if type(request_id) is str else text(request_id, what, "request_id")
        self._correlation_id = (
            correlation_id
            if isinstance(correlation_id, str) or correlation_id is _NONE
            else whole(correlation_id, what, "correlation_id", 0, _UINT64)
        )
        self._model_name = model_name if type(model_name) is str else text(model_name, what, "model_name")
        self._model_version = (
            model_version
            if model_version is _ANY_VERSION
            else whole(model_version, what, "model_version", -_INT64 - 1, _INT64)
        )
        self._flags = flags if flags is _NONE else whole(flags, what, "flags", 0, _UINT32)
        self._timeout = timeout if timeout is _NONE else whole(timeout, what, "timeout", 0, _UINT64)
        self._trace = trace
        self._parameters: dict[str, Any] = checked_parameters(parameters, floats=True) if parameters is not None else {}
        self._answer: Answer | None = None
        self._sender: InferenceResponseSender | None = None

    @classmethod
    def received(cls, item: Item, memory: bytearray | NDArray[np.uint8], answer: Answer) -> InferenceRequest:
        """A request to execute, over the memory of its parcel."""
        self = cls.__new__(cls)
        self._inputs = Tensor.received(item, memory)
        self._outputs = ()
        self._request_id = item.text
        self._answer = answer
        self._sender = None
        self._trace = _NO_TRACE
        self._model_name, self._model_version, _ = item.layout.head
        extras = item.extras
        self._correlation_id = 0
        self._flags = self._timeout = 0
        self._parameters = {}
        if extras:
            self._correlation_id = extras.get("correlation_id", 0)
            self._flags = extras.get("flags", 0)
            self._timeout = extras.get("timeout", 0)
            self._parameters = extras.get("parameters", {})
        return self

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        if self._answer is not None:
            msg = "a request that execute got cannot be pickled; send the arrays of its inputs"
            raise TypeError(msg)
        return super().__reduce_ex__(protocol)

    def inputs(self) -> list[Tensor]:
        """The inputs, in the order of the request."""
        return self._inputs

    def request_id(self) -> str:
        """The client's id of the request, or ""."""
        return self._request_id

    def correlation_id(self) -> int | str:
        """The id of the sequence, 0 for none."""
        return self._correlation_id

    def flags(self) -> int:
        """Sum of TRITONSERVER_REQUEST_FLAG_SEQUENCE_START and _END."""
        return self._flags

    def set_flags(self, flags: int) -> None:
        """Set them."""
        self._flags = whole(flags, "set_flags", "flags", 0, _UINT32)

    def timeout(self) -> int:
        """The timeout in microseconds, 0 for none."""
        return self._timeout

    def parameters(self) -> str:
        """The parameters as JSON text."""
        return json.dumps(self._parameters)

    def trace(self) -> InferenceTrace:
        """The trace the request belongs to."""
        return self._trace

    def requested_output_names(self) -> set[str]:
        """The outputs that are wanted; all of the model's where the client named none."""
        return set(self._outputs) if self._answer is None else set(self._answer.requested)

    def get_response_sender(self) -> InferenceResponseSender:
        """The sender of this request, the same object each time."""
        if self._sender is None:
            self._sender = InferenceResponseSender(self._answer) if self._answer is not None else no_sender()
        return self._sender

    def is_cancelled(self) -> bool:
        """Whether nobody waits for the request any more."""
        return self._answer is not None and self._answer.is_cancelled()

    def set_release_flags(self, flags: int) -> None:
        """Whether the request is done with when ``execute`` returns, or comes once more in a later batch.

        TRITONSERVER_REQUEST_RELEASE_ALL or _RESCHEDULE, the latter for models with ``iterative_sequence``. Raises
        TritonModelException for anything else, and for a request that was not received in ``execute``.
        """
        require(flags, int, "set_release_flags", "flags")
        if self._answer is None:
            msg = "set_release_flags is for requests received in execute"
            raise TritonModelException(msg)
        if flags not in (RELEASE_ALL, RELEASE_RESCHEDULE):
            msg = (
                f"Unable to set release flags {flags}; use TRITONSERVER_REQUEST_RELEASE_ALL or "
                "TRITONSERVER_REQUEST_RELEASE_RESCHEDULE"
            )
            raise TritonModelException(msg)
        self._answer.rescheduled = flags == RELEASE_RESCHEDULE

    def exec(self, decoupled: bool = False) -> Any:  # noqa: ANN401, FBT001, FBT002  the interface
        """Call the model and wait: an InferenceResponse, or with ``decoupled`` a ResponseIterator.

        Failures are in the response. Raises TritonModelException outside of execute.
        """
        return calls.execute(self, decoupled=decoupled)

    def async_exec(self, decoupled: bool = False) -> asyncio.Future[Any]:  # noqa: FBT001, FBT002  the interface
        """The same as a future of the running event loop: the call is under way at once, and awaited when one likes.

        Cancelling the future ends the call. Raises TritonModelException outside of execute.
        """
        return calls.start(self, decoupled=decoupled)

    def model_name(self) -> str:
        """The model to call."""
        return self._model_name

    def entry(self, call_id: int, signatures: Signatures) -> Entry:
        """The request as a CALL frame carries it."""
        rows: list[tuple[str, str, tuple[int, ...], int]] = []
        buffers: list[Any] = []
        for tensor in self._inputs:
            row, data = tensor.wire()
            rows.append(row)
            buffers.append(data)
        layout = signatures.layout((self._model_name, self._model_version, self._outputs), tuple(rows))
        extras = b""
        if self._parameters or self._correlation_id or self._flags or self._timeout:
            fields = request_extras(
                parameters=self._parameters,
                correlation_id=self._correlation_id,
                flags=self._flags,
                timeout=self._timeout,
            )
            extras = json.dumps(fields).encode()
        name = self._request_id
        return parcels.Entry(call_id, layout, buffers, 0, name.encode(errors="replace") if name else b"", extras)


def _checked_inputs(inputs: list[Tensor]) -> list[Tensor]:
    for tensor in inputs:
        if not isinstance(tensor, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
            not_a_tensor("InferenceRequest", "inputs", tensor)
    return list(inputs)


def _checked_names(names: list[str]) -> tuple[str, ...]:
    checked = tuple(
        [name if type(name) is str else text(name, "InferenceRequest", "requested_output_names") for name in names]
    )
    if "" in checked:
        msg = "Requested output name should not be empty."
        raise TritonModelException(msg)
    return checked
