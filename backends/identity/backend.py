"""Answer ``INPUT<n>`` as ``OUTPUT<n>``, every datatype, as Triton's identity backend does.

Model parameters: ``execute_delay_ms`` (milliseconds that an execution takes), ``instance_wise_delay_multiplier``
(times the instance's ordinal, where that is not 0) and ``creation_delay_sec`` (seconds that a load takes).
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, ClassVar

from ..api.backend import Backend, Model, ThreadInstance
from ..api.datatypes import Datatype
from ..api.errors import BackendFailure, InvalidArgument
from ..api.reshape import reshaped
from ..api.response import InferenceResponse
from ..api.tensor import Tensor

if TYPE_CHECKING:
    from ..api.backend import Batch, InstanceSpec, ModelFiles
    from ..api.model_config import ModelConfig, TensorSpec
    from ..api.request import InferenceRequest, ParameterValue

RESPONSE_PARAMETERS: dict[str, ParameterValue] = {
    "param0": "an example string parameter",
    "param1": 42,
    "param2": False,
    "param3": 123.123,
}
"""What every response carries, so that each kind of response parameter has a model to be tried on."""


class IdentityBackend(Backend):
    """Needs no model file; the version folder must exist."""

    name: ClassVar[str] = "identity"

    @property
    def supports_gpu(self) -> bool:
        """It copies on the host."""
        return False

    async def load(self, config: ModelConfig, files: ModelFiles) -> Model:  # noqa: ARG002  the contract's signature
        """Check that inputs and outputs pair up. Raises InvalidArgument where they do not."""
        _check(config)
        return IdentityModel(config)


class IdentityModel(Model):
    """One version: its pairs of tensors and its delays."""

    def __init__(self, config: ModelConfig) -> None:
        self.config = config
        outputs = {spec.name: spec for spec in config.outputs}
        self.pairs = tuple((spec, outputs[_partner(spec.name)]) for spec in config.inputs)
        self.execute_delay_s = _number(config, "execute_delay_ms") / 1000
        self.delay_multiplier = _number(config, "instance_wise_delay_multiplier")
        self.creation_delay_s = _number(config, "creation_delay_sec")
        self._instances = 0

    def create_instance(self, spec: InstanceSpec) -> IdentityInstance:  # noqa: ARG002  the contract's signature
        """Make an instance; its ordinal decides how much slower it is, where the model says so."""
        ordinal, self._instances = self._instances, self._instances + 1
        factor = self.delay_multiplier * ordinal or 1.0
        return IdentityInstance(self, self.execute_delay_s * factor)


class IdentityInstance(ThreadInstance):
    """Copies, on a thread of its own."""

    def __init__(self, model: IdentityModel, delay_s: float) -> None:
        self._model = model
        self._delay_s = delay_s
        self._batching = model.config.max_batch_size > 0

    def load(self) -> None:
        """Take as long as the model is configured to."""
        if self._model.creation_delay_s:
            # Being slow is what the parameter asks for; only this instance's thread waits.
            time.sleep(self._model.creation_delay_s)

    def execute(self, batch: Batch) -> None:
        """Answer every request with copies of its inputs."""
        batch.compute_start = batch.compute_input_end = time.monotonic_ns()
        if self._delay_s:
            time.sleep(self._delay_s)
        batch.compute_output_start = time.monotonic_ns()
        for execution in batch.executions:
            execution.send(self._answer(execution.request))
        batch.compute_end = time.monotonic_ns()

    def _answer(self, request: InferenceRequest) -> InferenceResponse:
        wanted = request.requested_outputs
        outputs = {
            target.name: self._copy(request, source, target)
            for source, target in self._model.pairs
            if not wanted or target.name in wanted
        }
        return InferenceResponse(outputs=outputs, parameters=dict(RESPONSE_PARAMETERS))

    def _copy(self, request: InferenceRequest, source: TensorSpec, target: TensorSpec) -> Tensor:
        tensor = request.inputs.get(source.name)
        if tensor is None:
            return _default(source, request.batch_size if self._batching else None)
        shape = tensor.shape
        if target.reshape is not None:
            try:
                shape = reshaped(shape, target.reshape, target.dims, batching=self._batching)
            except ValueError as exc:
                msg = f"output '{target.name}' of shape {list(shape)} does not fit reshape {list(target.reshape)}"
                raise BackendFailure(msg) from exc
        # A copy, because the request's buffer may be reused once the request has been answered.
        return Tensor(tensor.datatype, shape, bytes(tensor.view))


def _default(spec: TensorSpec, rows: int | None) -> Tensor:
    """The answer to an optional input that was left out: zeros, variable sizes taken as 1."""
    lead = () if rows is None else (rows,)
    shape = (*lead, *(1 if dim == -1 else dim for dim in spec.dims))
    # An empty BYTES element is its length prefix, four zero bytes.
    itemsize = 4 if spec.datatype is Datatype.BYTES else spec.datatype.itemsize
    return Tensor(spec.datatype, shape, bytes(math.prod(shape) * itemsize))


def _check(config: ModelConfig) -> None:
    inputs, outputs = config.inputs, {spec.name: spec for spec in config.outputs}
    if len(inputs) != len(outputs):
        msg = (
            f"model '{config.name}' has {len(inputs)} inputs and {len(outputs)} outputs; "
            "the identity backend expects equal numbers, INPUT<n> with OUTPUT<n>"
        )
        raise InvalidArgument(msg)
    for spec in inputs:
        if not spec.name.startswith("INPUT"):
            msg = f"expected input name of model '{config.name}' to start with 'INPUT', got '{spec.name}'"
            raise InvalidArgument(msg)
        target = outputs.get(_partner(spec.name))
        if target is None:
            msg = f"model '{config.name}' has input '{spec.name}' but no output '{_partner(spec.name)}'; add it"
            raise InvalidArgument(msg)
        if target.datatype is not spec.datatype:
            msg = (
                f"model '{config.name}': expected '{spec.name}' and '{target.name}' to have one datatype, "
                f"got {spec.datatype} and {target.datatype}"
            )
            raise InvalidArgument(msg)
        inside = [spec.dims if spec.reshape is None else spec.reshape for spec in (spec, target)]
        if inside[0] != inside[1]:
            msg = (
                f"model '{config.name}': expected '{spec.name}' and '{target.name}' to have one shape, "
                f"got {list(inside[0])} and {list(inside[1])}"
            )
            raise InvalidArgument(msg)


def _partner(input_name: str) -> str:
    """``INPUT0`` → ``OUTPUT0``."""
    return "OUTPUT" + input_name.removeprefix("INPUT")


def _number(config: ModelConfig, key: str) -> float:
    """A model parameter as a number >= 0, 0 where it is not given. Raises InvalidArgument for anything else."""
    text = config.parameters.get(key, "0")
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        msg = f"parameter '{key}' of model '{config.name}' must be a number >= 0, not '{text}'"
        raise InvalidArgument(msg)
    return value
