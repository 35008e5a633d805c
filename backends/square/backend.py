"""Answer ``IN`` (INT32 [1]) of value n with n responses ``OUT`` (INT32 [1]) of n, as Triton's square backend does.

Model parameters: ``CUSTOM_INFER_DELAY_NS`` (nanoseconds before each response), ``CUSTOM_OUTPUT_DELAY_NS`` (more of them
before one that carries data or an error; statistics show them apart),
``CUSTOM_CANCEL_DELAY_NS`` (nanoseconds until the final flag of a request that was cancelled), ``CUSTOM_EMPTY_COUNT``
(so many of the last responses carry nothing) and ``CUSTOM_FAIL_COUNT`` (so many before those are errors).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ..api.backend import Backend, Model
from ..api.coroutine_instance import CoroutineInstance
from ..api.datatypes import Datatype
from ..api.errors import InvalidArgument, Unavailable
from ..api.response import InferenceResponse
from ..api.tensor import Tensor

if TYPE_CHECKING:
    from ..api.backend import Execution, InstanceSpec, ModelFiles
    from ..api.model_config import ModelConfig

_NS = 1e-9


class SquareBackend(Backend):
    """Needs no model file; the version folder must exist."""

    name: ClassVar[str] = "square"

    @property
    def supports_gpu(self) -> bool:
        """It copies on the host."""
        return False

    async def load(self, config: ModelConfig, files: ModelFiles) -> Model:  # noqa: ARG002  the contract's signature
        """Check tensors, policy and parameters. Raises InvalidArgument that names what was expected."""
        _check(config)
        return SquareModel(config)


class SquareModel(Model):
    """One version, and what its parameters say."""

    def __init__(self, config: ModelConfig) -> None:
        self.config = config
        self.infer_delay_s = _count(config, "CUSTOM_INFER_DELAY_NS") * _NS
        self.output_delay_ns = _count(config, "CUSTOM_OUTPUT_DELAY_NS")
        self.cancel_delay_s = _count(config, "CUSTOM_CANCEL_DELAY_NS") * _NS
        self.empty = _count(config, "CUSTOM_EMPTY_COUNT")
        self.failing = _count(config, "CUSTOM_FAIL_COUNT")

    def create_instance(self, spec: InstanceSpec) -> SquareInstance:  # noqa: ARG002  the contract's signature
        """Make an instance."""
        return SquareInstance(self)


class SquareInstance(CoroutineInstance):
    """Takes the next request at once; any number may be under way."""

    def __init__(self, model: SquareModel) -> None:
        super().__init__(decoupled=True)
        self._model = model

    async def respond(self, execution: Execution) -> None:
        """Send the copies, and the final flag apart from them."""
        model = self._model
        count = int(execution.request.inputs["IN"].as_numpy().item())
        for index in range(count):
            if not await self.pace(execution, index, 0):
                await self.spend(model.cancel_delay_s)
                break
            response = self._response(count, left=count - index)
            await self.spend(model.infer_delay_s)
            if not response.is_empty:
                response.output_ns = model.output_delay_ns
                await self.spend(model.output_delay_ns * _NS)
            execution.send(response)
        execution.send(InferenceResponse())

    def _response(self, value: int, left: int) -> InferenceResponse:
        """The response that ``left`` are to come of, itself included."""
        if left <= self._model.empty:
            return InferenceResponse(final=False)
        if left <= self._model.empty + self._model.failing:
            return InferenceResponse(error=Unavailable("this response fails, as CUSTOM_FAIL_COUNT asks"), final=False)
        return InferenceResponse({"OUT": Tensor.from_numpy(np.array([value], np.int32))}, final=False)


def _check(config: ModelConfig) -> None:
    for what, specs, name in (("input", config.inputs, "IN"), ("output", config.outputs, "OUT")):
        given = [(spec.name, spec.datatype, tuple(spec.dims)) for spec in specs]
        if given != [(name, Datatype.INT32, (1,))]:
            raise InvalidArgument(
                f"model '{config.name}': the square backend expects one {what}, {name} (INT32 [1]), got {_words(given)}"
            )
    if not config.decoupled:
        raise InvalidArgument(
            f"model '{config.name}': the square backend sends any number of responses; "
            "set model_transaction_policy { decoupled: true }"
        )
    if config.max_batch_size:
        raise InvalidArgument(
            f"model '{config.name}': the square backend takes requests one by one; "
            f"expected max_batch_size 0, got {config.max_batch_size}"
        )


def _words(given: list[tuple[str, Datatype, tuple[int, ...]]]) -> str:
    return ", ".join(f"{name} ({datatype} {list(dims)})" for name, datatype, dims in given) or "none"


def _count(config: ModelConfig, key: str) -> int:
    """A model parameter as a whole number >= 0, 0 where it is not given. Raises InvalidArgument for anything else."""
    text = config.parameters.get(key, "0")
    if not (text.isascii() and text.isdecimal()):
        raise InvalidArgument(f"parameter '{key}' of model '{config.name}' must be a whole number >= 0, not '{text}'")
    return int(text)
