"""One executing instance of a TorchScript model: gather, run, scatter."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import torch

from ..api.backend import ThreadInstance
from ..api.batching import StagingBuffer, gather, scatter
from ..api.datatypes import BY_WIRE_NAME, Datatype
from ..api.errors import BackendFailure, InferError, Internal, InvalidArgument
from ..api.response import InferenceResponse
from ..api.tensor import Tensor
from . import tensors
from .script import mode, unoptimized
from .staging import PinnedBuffer
from .worker.values import TEXT, Spec, ValueMismatch, checked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..api.backend import Batch, Execution
    from ..api.model_config import ModelConfig
    from ..api.request import InferenceRequest
    from .script import Script
    from .worker.options import TorchOptions


class ScriptInstance(ThreadInstance):
    """Executes batches on a module, which it may share with other instances of its model.

    ``device`` is where inputs go, None for a model that decides itself (they stay on the host). Requests arrive on the
    host: for a GPU they are gathered in pinned memory, from where the copy to the device needs no second one.
    """

    def __init__(
        self,
        config: ModelConfig,
        outputs: Sequence[Spec],
        options: TorchOptions,
        open_script: Callable[[], Script],
        device: torch.device | None,
    ) -> None:
        self._config = config
        self._outputs = tuple(outputs)
        self._output_names = tuple(spec.name for spec in outputs)
        self._options = options
        self._mode = mode(options)
        self._open_script = open_script
        self._script: Script | None = None
        self._device = device
        self._on_gpu = device is not None and device.type == "cuda"
        self._staging = PinnedBuffer() if self._on_gpu else StagingBuffer()
        self._batching = config.max_batch_size > 0

    def load(self) -> None:
        """Take the shared module, or open one of its own."""
        self._script = self._open_script()

    def close(self) -> None:
        """Let go of the module."""
        self._script = None

    def execute(self, batch: Batch) -> None:
        """Run the batch in one go where the model batches and the requests are alike, else one by one."""
        batch.compute_start = time.monotonic_ns()
        self._staging.reset()
        for group in self._groups(batch.executions):
            self._execute(batch, group)
        batch.compute_end = time.monotonic_ns()

    def _execute(self, batch: Batch, group: Sequence[Execution]) -> None:
        try:
            self._run(batch, group)
        except InferError as exc:
            if isinstance(exc, InvalidArgument) and len(group) > 1:
                # The text of one request cannot be decoded; the others are answered.
                for execution in group:
                    self._execute(batch, [execution])
                return
            for execution in group:
                execution.send(InferenceResponse(error=exc))

    def _groups(self, executions: Sequence[Execution]) -> Sequence[Sequence[Execution]]:
        if len(executions) == 1:
            return [executions]
        if not self._batching:
            return [[execution] for execution in executions]
        groups: dict[Any, list[Execution]] = {}
        for execution in executions:
            key = tuple([(name, *tensor.shape[1:]) for name, tensor in execution.request.inputs.items()])
            groups.setdefault(key, []).append(execution)
        return list(groups.values())

    def _run(self, batch: Batch, group: Sequence[Execution]) -> None:
        script = self._script
        if script is None:
            msg = f"instance of model '{self._config.name}' was asked to execute before it was loaded"
            raise Internal(msg)
        rows = [_rows(execution.request) for execution in group] if self._batching else []
        # Made outside the mode, so that in it only what the model makes is an inference tensor.
        feed = {name: self._input(name, group, script) for name in group[0].request.inputs}
        with self._mode():
            batch.compute_input_end = batch.compute_input_end or time.monotonic_ns()
            values = script.run(feed) if self._options.optimized else self._run_unoptimized(script, feed)
            if self._on_gpu:
                torch.cuda.current_stream(self._device).synchronize()
            batch.compute_output_start = time.monotonic_ns()
            outputs = self._wanted(group, values, lambda tensor: _is_lent(tensor, feed, script), sum(rows))
        self._answer(group, outputs, rows)
        if self._options.clean_cache and self._on_gpu:
            torch.cuda.empty_cache()

    def _run_unoptimized(self, script: Script, feed: dict[str, Any]) -> list[Any]:
        with unoptimized():
            return script.run(feed)

    def _input(self, name: str, group: Sequence[Execution], script: Script) -> Any:  # noqa: ANN401  a tensor or a list
        parts = [execution.request.inputs[name] for execution in group]
        if parts[0].datatype is Datatype.BYTES:
            model = self._config.name
            return [text for part in parts for text in tensors.texts(model, name, part)]
        joined = gather(parts, self._staging)
        value = tensors.borrowed(joined)
        lent = joined is parts[0]
        if lent and (self._on_gpu or script.changes_inputs or not tensors.aligned(value)):
            # PERF: only these are copied. A GPU reads pinned memory; what the model writes into must be its own.
            value = tensors.borrowed(self._copied(joined))
        return value.to(self._device, non_blocking=True) if self._on_gpu else value

    def _copied(self, tensor: Tensor) -> Tensor:
        target = self._staging.take(tensor.byte_size)
        target[:] = tensor.view
        return Tensor(tensor.datatype, tensor.shape, target)

    def _wanted(
        self, group: Sequence[Execution], values: Sequence[Any], is_lent: Callable[[torch.Tensor], bool], rows: int
    ) -> dict[str, Tensor]:
        """The outputs that any request of the group asks for, checked, on the host, in memory that is theirs alone."""
        asked: set[str] = set()
        for execution in group:
            asked.update(execution.request.requested_outputs or self._output_names)
        found: dict[str, Tensor] = {}
        for spec, value in zip(self._outputs, values, strict=True):
            if spec.name in asked:
                try:
                    whole, shape = checked(spec, value, batching=self._batching, rows=rows)
                except ValueMismatch as exc:
                    msg = f"PyTorch error in model '{self._config.name}': {exc}"
                    raise BackendFailure(msg) from exc
                found[spec.name] = _to_host(spec, whole, shape, is_lent)
        return found

    def _answer(self, group: Sequence[Execution], outputs: dict[str, Tensor], rows: Sequence[int]) -> None:
        if self._batching:
            parts = {name: scatter(tensor, rows) for name, tensor in outputs.items()}
        else:
            parts = {name: [tensor] for name, tensor in outputs.items()}
        for index, execution in enumerate(group):
            wanted = execution.request.requested_outputs or self._output_names
            execution.send(InferenceResponse({name: parts[name][index] for name in wanted}))


def _rows(request: InferenceRequest) -> int:
    """Rows that a request brings; none at all for tensors of shape [0, …]."""
    return next((tensor.shape[0] for tensor in request.inputs.values()), request.batch_size)


def _is_lent(tensor: torch.Tensor, feed: Mapping[str, Any], script: Script) -> bool:
    """Whether an output lies in the memory of an input, of a parameter or of a buffer.

    PERF: asking a new tensor for its storage takes 20 µs. What the model makes in inference mode is an inference
    tensor, and what was there before is none, nor is a view of it.
    """
    if tensor.is_inference():
        return False
    start = tensor.untyped_storage().data_ptr()
    inputs = (value for value in feed.values() if isinstance(value, torch.Tensor))
    return start in script.memory or any(value.untyped_storage().data_ptr() == start for value in inputs)


def _to_host(spec: Spec, value: Any, shape: tuple[int, ...], is_lent: Callable[[torch.Tensor], bool]) -> Tensor:  # noqa: ANN401  a tensor or a list
    """An output as a tensor of ours, in memory that is its own."""
    if spec.data_type == TEXT:
        return tensors.text_tensor(value, shape)
    tensor: torch.Tensor = value if value.device.type == "cpu" else value.cpu()
    if is_lent(tensor):
        # The input's memory is used again for the next batch, and the model may write into its own.
        tensor = tensor.clone()
    return Tensor(BY_WIRE_NAME[spec.data_type.removeprefix("TYPE_")], shape, tensors.lent(tensor))
