"""A request as every door hands it in, and as every backend sees it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .tensor import Tensor

ParameterValue = bool | int | float | str
"""What a request or response parameter may be (KServe v2, extension "parameters")."""

SEQUENCE_START = 1
SEQUENCE_END = 2


@dataclass(slots=True)
class InferenceRequest:
    """One inference request.

    ``inputs`` keeps the order of the request. ``requested_outputs`` holds output names, empty for all.
    ``model_version`` is None for "the version policy's choice". ``timeout_us`` is in microseconds, 0 for none.
    ``flags`` is a sum of SEQUENCE_START and SEQUENCE_END. ``batch_size`` is the leading dimension for a model
    that batches and 1 otherwise; the engine sets it when it checks the request. ``earlier`` is the mark that the
    backend gave when it rescheduled the request, 0 for one that was not.

    ``form`` is one object for all requests that are alike in everything but their tensors' contents and their ids:
    names, datatypes, shapes, sizes, requested outputs and parameters. Who makes such requests sets it; who finds
    something out about one of them may remember it for the others. None says nothing.
    """

    model_name: str
    inputs: dict[str, Tensor]
    model_version: int | None = None
    request_id: str = ""
    requested_outputs: tuple[str, ...] = ()
    parameters: dict[str, ParameterValue] = field(default_factory=dict[str, ParameterValue])
    correlation_id: int | str = 0
    flags: int = 0
    priority: int = 0
    timeout_us: int = 0
    batch_size: int = 1
    earlier: int = 0
    form: object | None = field(default=None, compare=False)
