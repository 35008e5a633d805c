"""A response as every backend gives it, and as every door sends it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .errors import InferError
    from .request import ParameterValue
    from .tensor import Tensor


@dataclass(slots=True)
class InferenceResponse:
    """One response: outputs in the order the model produced them, or an error.

    ``final`` marks the last one of its request. A decoupled model may end with a final response that carries
    nothing (``is_empty``). ``form`` is one object for all responses whose outputs are alike in names, datatypes, shapes
    and sizes, as with requests; None says nothing. ``output_ns`` is how much of the time since the response before was
    spent on the outputs, for the statistics of a decoupled model.
    """

    outputs: dict[str, Tensor] = field(default_factory=dict[str, "Tensor"])
    parameters: dict[str, ParameterValue] = field(default_factory=dict[str, "ParameterValue"])
    error: InferError | None = None
    final: bool = True
    form: object | None = None
    output_ns: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether this is only the final flag."""
        return self.error is None and not self.outputs and not self.parameters

    def release(self) -> None:
        """Give every output's buffer back to its owner."""
        for tensor in self.outputs.values():
            tensor.release()
