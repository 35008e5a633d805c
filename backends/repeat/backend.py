"""Answer ``IN`` element by element, as Triton's repeat backend does: the first model of everyone who tries streams.

Inputs are ``IN`` (INT32 [n]), ``DELAY`` (UINT32 [n], milliseconds before each response) and ``WAIT`` (UINT32 [1],
milliseconds that the instance is held); outputs are ``OUT`` (INT32 [1]) and ``IDX`` (UINT32 [1]). The final flag of a
decoupled model comes apart from the data. A model that is not decoupled answers an ``IN`` of one element.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ..api.backend import Backend, Model
from ..api.coroutine_instance import CoroutineInstance
from ..api.datatypes import Datatype
from ..api.errors import InvalidArgument
from ..api.response import InferenceResponse
from ..api.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..api.backend import Execution, InstanceSpec, ModelFiles
    from ..api.model_config import ModelConfig, TensorSpec
    from ..api.request import InferenceRequest

_INPUTS = (("IN", Datatype.INT32), ("DELAY", Datatype.UINT32), ("WAIT", Datatype.UINT32))
_OUTPUTS = (("OUT", Datatype.INT32), ("IDX", Datatype.UINT32))
_MS = 0.001


class RepeatBackend(Backend):
    """Needs no model file; the version folder must exist."""

    name: ClassVar[str] = "repeat"

    @property
    def supports_gpu(self) -> bool:
        """It copies on the host."""
        return False

    async def load(self, config: ModelConfig, files: ModelFiles) -> Model:  # noqa: ARG002  the contract's signature
        """Check inputs and outputs. Raises InvalidArgument that names what was expected."""
        _check(config)
        return RepeatModel(config)


class RepeatModel(Model):
    """One version."""

    def __init__(self, config: ModelConfig) -> None:
        self.config = config

    def create_instance(self, spec: InstanceSpec) -> RepeatInstance:  # noqa: ARG002  the contract's signature
        """Make an instance."""
        return RepeatInstance(decoupled=self.config.decoupled)


class RepeatInstance(CoroutineInstance):
    """Waits by timers of the loop, so that any number of requests may be under way."""

    def held_s(self, request: InferenceRequest) -> float:
        """As ``WAIT`` says."""
        return _numbers(request, "WAIT")[0] * _MS

    async def respond(self, execution: Execution) -> None:
        """Send element after element, each after its delay, until the client has gone away."""
        request = execution.request
        values, delays = _numbers(request, "IN"), _numbers(request, "DELAY")
        if len(values) != len(delays):
            raise InvalidArgument(f"expected IN and DELAY shape to match, got [{len(values)}] and [{len(delays)}]")
        if not self._decoupled and len(values) > 1:
            raise InvalidArgument(
                f"IN has {len(values)} elements, and a model that is not decoupled sends one response; "
                "set model_transaction_policy { decoupled: true }"
            )
        for index, (value, delay) in enumerate(zip(values, delays, strict=True)):
            if not await self.pace(execution, index, delay * _MS):
                break
            execution.send(_response(request, value, index, final=not self._decoupled))
            if not self._decoupled:
                return
        execution.send(InferenceResponse())


def _numbers(request: InferenceRequest, name: str) -> list[int]:
    return request.inputs[name].as_numpy().ravel().tolist()


def _response(request: InferenceRequest, value: int, index: int, *, final: bool) -> InferenceResponse:
    tensors = {"OUT": np.array([value], np.int32), "IDX": np.array([index], np.uint32)}
    wanted = request.requested_outputs or tuple(tensors)
    outputs = {name: Tensor.from_numpy(array) for name, array in tensors.items() if name in wanted}
    return InferenceResponse(outputs, final=final)


def _check(config: ModelConfig) -> None:
    _check_tensors(config.name, "inputs", config.inputs, _INPUTS)
    _check_tensors(config.name, "outputs", config.outputs, _OUTPUTS)
    if config.max_batch_size:
        raise InvalidArgument(
            f"model '{config.name}': the repeat backend takes requests one by one; "
            f"expected max_batch_size 0, got {config.max_batch_size}"
        )


def _check_tensors(
    model: str, what: str, specs: Sequence[TensorSpec], expected: Sequence[tuple[str, Datatype]]
) -> None:
    given = tuple((spec.name, spec.datatype) for spec in specs)
    if given != tuple(expected):
        raise InvalidArgument(
            f"model '{model}': the repeat backend expects the {what} {_words(expected)} in this order, "
            f"got {_words(given)}"
        )
    for spec in specs:
        if len(spec.dims) != 1:
            raise InvalidArgument(
                f"model '{model}': expected '{spec.name}' to have one dimension, got dims {list(spec.dims)}"
            )


def _words(tensors: Sequence[tuple[str, Datatype]]) -> str:
    return ", ".join(f"{name} ({datatype})" for name, datatype in tensors) or "none"
