"""Which sequence a request belongs to: the id it brings, or, for an iterative model, one that it is given. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ...backends.api.errors import InvalidArgument
from ...backends.api.request import SEQUENCE_START

if TYPE_CHECKING:
    from collections.abc import Container, Hashable

    from ...backends.api.model_config import ModelConfig
    from ...backends.api.request import InferenceRequest


class SequenceIds:
    """The ids of one model version's sequences; numbers and texts are different ids."""

    def __init__(self, config: ModelConfig, *, iterative: bool) -> None:
        self._name = config.name
        self._iterative = iterative
        self._last = 0

    def identified(
        self, request: InferenceRequest, taken: Container[Hashable]
    ) -> tuple[InferenceRequest, int | str | tuple[str, int]]:
        """A request with the id and the flags that it has for the model, and what its sequence is known by here.

        :param taken: the ids of sequences that go on; none of them is given to another one.

        Raises InvalidArgument where it brings more than one row, or no id that it needs.
        """
        if request.batch_size > 1:
            msg = (
                f"inference request to model '{self._name}' must specify batch-size 1 due to requirements of sequence "
                "batcher"
            )
            raise InvalidArgument(msg)
        if request.correlation_id:
            return request, request.correlation_id
        if not self._iterative:
            msg = f"inference request to model '{self._name}' must specify a non-zero or non-empty correlation ID"
            raise InvalidArgument(msg)
        self._last += 1
        while self._last in taken:
            self._last += 1
        given = replace(request, correlation_id=self._last, flags=request.flags | SEQUENCE_START)
        # A key of its own kind, so that a client that uses the same number later has a sequence of its own.
        return given, ("given", self._last)

    def unknown(self, request: InferenceRequest) -> InvalidArgument:
        """The refusal of a request whose sequence has not begun, or is over."""
        return InvalidArgument(
            f"inference request for sequence {request.correlation_id} to model '{self._name}' must specify the START "
            "flag on the first request of the sequence"
        )

    def shown(self, key: Hashable) -> str:
        """A sequence as log lines name it."""
        number = key[1] if isinstance(key, tuple) else key  # pyright: ignore[reportUnknownVariableType]
        return f"'{number}' of model '{self._name}'"
