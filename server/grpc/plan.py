"""What a message without the contents of its tensors says, to be used again when it comes again."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

from ...backends.api.request import InferenceRequest
from ...backends.api.tensor import Tensor
from .codec import Decoded

if TYPE_CHECKING:
    from ...backends.api.datatypes import Datatype
    from .reply import Replies
    from .wire_format import Cut

MAX_PLAN_SIZE = 2048
"""Bytes of a message, its tensors' contents aside, above which no plan is kept."""

Spans = list[tuple[int, int]]


class RequestPlan:
    """The reading of one message, for all that are equal to it but for the contents of their tensors.

    ``prefix`` is what stands before the first content, the head of that included; empty where messages have an id or
    an unusual order, which takes a closer look. ``sizes`` are those of the contents in bytes.
    """

    __slots__ = ("_heads", "_inputs", "_like", "_spans", "facts", "prefix", "replies", "sizes")

    def __init__(self, decoded: Decoded, data: bytes | bytearray, cut: Cut) -> None:
        # The plan outlives the request: it must not keep its tensors.
        self._like = replace(decoded, request=replace(decoded.request, inputs={}, request_id=""))
        self.facts = decoded.facts
        self.replies: Replies = ({}, {}, {})
        self.sizes = [stop - start for start, stop in cut.raw]
        self._inputs: list[tuple[str, Datatype, tuple[int, ...]]] = [
            (name, tensor.datatype, tensor.shape) for name, tensor in decoded.request.inputs.items()
        ]
        self._spans = [(*described, *span) for described, span in zip(self._inputs, cut.raw, strict=True)]
        exact = cut.prefix >= 0 and not cut.request_id
        self.prefix = bytes(data[: cut.raw[0][0]]) if exact else b""
        self._heads = [(before[1], bytes(data[before[1] : after[0]])) for before, after in itertools.pairwise(cut.raw)]

    @staticmethod
    def suits(decoded: Decoded, cut: Cut) -> bool:
        """Whether a message may be repeated: every tensor raw, and nothing in it that tells requests apart."""
        request = decoded.request
        return bool(cut.raw) and len(cut.raw) == len(request.inputs) and not request.correlation_id

    def fits(self, data: bytes | bytearray) -> bool:
        """Whether a message of the same length is this one again."""
        if not data.startswith(self.prefix):
            return False
        for position, head in self._heads:  # noqa: SIM110  a generator costs more than the comparisons
            if not data.startswith(head, position):
                return False
        return True

    def read(self, data: bytes | bytearray) -> Decoded:
        """The request in a message that fits."""
        view = memoryview(data)
        inputs = {name: Tensor(datatype, shape, view[start:stop]) for name, datatype, shape, start, stop in self._spans}
        return self._decoded(inputs, "", form=self)

    def read_parts(self, data: bytes | bytearray, raw: Spans, request_id: str) -> Decoded:
        """The request in a message that is equal but for its id and the sizes of its contents."""
        view = memoryview(data)
        inputs = {
            name: Tensor(datatype, shape, view[start:stop])
            for (name, datatype, shape), (start, stop) in zip(self._inputs, raw, strict=True)
        }
        alike = self.sizes == [stop - start for start, stop in raw]
        return self._decoded(inputs, request_id, form=self if alike else None)

    def _decoded(self, inputs: dict[str, Tensor], request_id: str, form: RequestPlan | None) -> Decoded:
        like = self._like
        request = like.request
        return Decoded(
            InferenceRequest(
                request.model_name,
                inputs,
                request.model_version,
                request_id,
                request.requested_outputs,
                request.parameters.copy(),
                0,
                request.flags,
                request.priority,
                request.timeout_us,
                form=form,
            ),
            self.facts,
            like.version,
            like.classes,
            like.empty_final,
            self.replies,
        )
