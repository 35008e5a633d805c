"""One executing instance of an ONNX model: gather, run, scatter."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from ..api.backend import ThreadInstance
from ..api.batch_tensors import computed, cut, flat, output_shape, source_shapes
from ..api.batching import StagingBuffer, gather, scatter
from ..api.datatypes import Datatype, encode_bytes
from ..api.errors import InferError, Internal, InvalidArgument
from ..api.reshape import reshaped
from ..api.response import InferenceResponse
from ..api.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from ..api.backend import Batch, Execution
    from ..api.model_config import ModelConfig, TensorSpec
    from ..api.request import InferenceRequest
    from .session import OnnxSession


class OnnxInstance(ThreadInstance):
    """Executes batches on a session, which it may share with other instances of its model."""

    def __init__(self, config: ModelConfig, open_session: Callable[[], OnnxSession]) -> None:
        self._config = config
        self._open_session = open_session
        self._session: OnnxSession | None = None
        self._staging = StagingBuffer()
        self._batching = config.max_batch_size > 0
        self._outputs = {spec.name: spec for spec in config.outputs}
        self._output_names = tuple(self._outputs)
        self._strings = tuple(spec.name for spec in config.inputs if spec.datatype is Datatype.BYTES)
        self._ragged = frozenset(spec.name for spec in config.inputs if spec.allow_ragged_batch)
        self._sources = {name: entry.source_inputs[0] for entry in config.batch_outputs for name in entry.target_names}
        self._scalars: frozenset[str] = frozenset()

    def load(self) -> None:
        """Take the shared session, or open one of its own."""
        self._session = self._open_session()
        self._scalars = frozenset(name for name, known in self._session.graph.inputs.items() if not known.shape)

    def close(self) -> None:
        """Let go of the session."""
        self._session = None

    def execute(self, batch: Batch) -> None:
        """Run the batch in one go where the model batches and the requests give the same inputs, else one by one."""
        batch.compute_start = time.monotonic_ns()
        self._staging.reset()
        executions = self._decodable(batch.executions) if self._strings else batch.executions
        for group in self._groups(executions):
            try:
                self._run(batch, group)
            except InferError as exc:
                for execution in group:
                    execution.send(InferenceResponse(error=exc))
        batch.compute_end = time.monotonic_ns()

    def _decodable(self, executions: Sequence[Execution]) -> list[Execution]:
        """Those whose text is UTF-8, as ONNX strings are; each other one is answered with its own error."""
        good: list[Execution] = []
        for execution in executions:
            error = next((error for name in self._strings if (error := _text_error(execution.request, name))), None)
            if error is None:
                good.append(execution)
            else:
                execution.send(InferenceResponse(error=error))
        return good

    def _groups(self, executions: Sequence[Execution]) -> Sequence[Sequence[Execution]]:
        if len(executions) == 1:
            return [executions]
        if not self._batching:
            return [[execution] for execution in executions]
        groups: dict[frozenset[str], list[Execution]] = {}
        for execution in executions:
            groups.setdefault(frozenset(execution.request.inputs), []).append(execution)
        return list(groups.values())

    def _run(self, batch: Batch, group: Sequence[Execution]) -> None:
        session = self._session
        if session is None:
            msg = f"instance of model '{self._config.name}' was asked to execute before it was loaded"
            raise Internal(msg)
        feed = self._feed(group)
        wanted = self._wanted(group)
        batch.compute_input_end = batch.compute_input_end or time.monotonic_ns()
        arrays = session.run(wanted, feed)
        batch.compute_output_start = time.monotonic_ns()
        self._answer(group, dict(zip(wanted, arrays, strict=True)))

    def _feed(self, group: Sequence[Execution]) -> dict[str, NDArray[Any]]:
        """The inputs of the group by name, as the runtime takes them."""
        feed: dict[str, NDArray[Any]] = {}
        for name in group[0].request.inputs:
            tensors = [execution.request.inputs[name] for execution in group]
            if name in self._ragged:
                tensors = [flat(tensor) for tensor in tensors]
            tensor = gather(tensors, self._staging)
            array = tensor.as_numpy()
            if tensor.datatype is Datatype.BYTES:
                array = _decoded(array)
            elif not array.flags.aligned:
                # A view into a request's body starts where the header ends; kernels want whole elements.
                array = self._aligned(tensor)
            feed[name] = array.reshape(()) if name in self._scalars else array
        for entry in self._config.batch_inputs:
            shapes = source_shapes(entry.source_inputs[0], [execution.request for execution in group])
            array = computed(entry, shapes, batching=self._batching)
            feed.update(dict.fromkeys(entry.target_names, array))
        return feed

    def _aligned(self, tensor: Tensor) -> NDArray[Any]:
        target = self._staging.take(tensor.byte_size)
        target[:] = tensor.view
        return Tensor(tensor.datatype, tensor.shape, target).as_numpy()

    def _wanted(self, group: Sequence[Execution]) -> tuple[str, ...]:
        """Names of the outputs that any request of the group asks for."""
        asked: dict[str, None] = {}
        for execution in group:
            names = execution.request.requested_outputs
            if not names:
                return self._output_names
            asked.update(dict.fromkeys(names))
        return tuple(asked)

    def _answer(self, group: Sequence[Execution], arrays: dict[str, NDArray[Any]]) -> None:
        rows = [_rows(execution.request) for execution in group] if self._batching else []
        parts: dict[str, list[Tensor]] = {}
        for name, array in arrays.items():
            if name in self._sources:
                parts[name] = self._cut(name, array, group)
            else:
                spec = self._outputs[name]
                tensor = _tensor(spec, array, _client_shape(spec, array.shape, batching=self._batching))
                parts[name] = scatter(tensor, rows) if self._batching else [tensor]
        for index, execution in enumerate(group):
            wanted = execution.request.requested_outputs or self._output_names
            execution.send(InferenceResponse({name: parts[name][index] for name in wanted}))

    def _cut(self, name: str, array: NDArray[Any], group: Sequence[Execution]) -> list[Tensor]:
        """A flat output's share for each request, in the shape that its source input gives it."""
        spec, source, batching = self._outputs[name], self._sources[name], self._batching
        sources = source_shapes(source, [execution.request for execution in group])
        dims = spec.dims if spec.reshape is None else spec.reshape
        shapes = [output_shape(dims, shape, batching=batching) for shape in sources]
        pieces = cut(array, shapes, name=name, source=source)
        return [_tensor(spec, piece, _client_shape(spec, piece.shape, batching=batching)) for piece in pieces]


def _tensor(spec: TensorSpec, array: NDArray[Any], shape: tuple[int, ...]) -> Tensor:
    """An array of the runtime's as the output that it is, in another shape of as many elements."""
    if spec.datatype is Datatype.BYTES:
        return Tensor(spec.datatype, shape, encode_bytes(array))
    return Tensor(spec.datatype, shape, array.reshape(-1).view(np.uint8).data)


def _rows(request: InferenceRequest) -> int:
    """Rows that a request brings; none at all for tensors of shape [0, …]."""
    return next((tensor.shape[0] for tensor in request.inputs.values()), request.batch_size)


def _client_shape(spec: TensorSpec, shape: tuple[int, ...], *, batching: bool) -> tuple[int, ...]:
    """An output's shape as clients see it: a scalar is [1], and ``reshape`` is undone."""
    if spec.reshape is not None and len(shape) == len(spec.reshape) + batching:
        return reshaped(shape, spec.reshape, spec.dims, batching=batching)
    return shape or (1,)


def _text_error(request: InferenceRequest, name: str) -> InvalidArgument | None:
    """Why an input's text cannot be decoded, or None."""
    tensor = request.inputs.get(name)
    if tensor is None:
        return None
    try:
        _decoded(tensor.as_numpy())
    except UnicodeDecodeError as exc:
        msg = (
            f"input '{name}' of model '{request.model_name}' is not UTF-8 text, which ONNX strings are: "
            f"byte 0x{exc.object[exc.start]:02x} at position {exc.start}; encode the text as UTF-8"
        )
        return InvalidArgument(msg)
    except InvalidArgument as exc:
        return exc
    return None


def _decoded(array: NDArray[Any]) -> NDArray[np.object_]:
    """An object array of ``bytes`` as one of ``str``. Raises UnicodeDecodeError."""
    decoded: NDArray[np.object_] = np.empty(array.size, dtype=np.object_)
    decoded[:] = [item.decode() for item in array.ravel().tolist()]
    return decoded.reshape(array.shape)
