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
    """The reading of one message, for all that are equal to it but for their id and the contents of their tensors.

    ``sizes`` are those of the contents in bytes.
    """

    __slots__ = ("_like", "facts", "inputs", "replies", "sizes")

    def __init__(self, decoded: Decoded, cut: Cut) -> None:
        # The plan outlives the request: it must not keep its tensors.
        self._like = replace(decoded, request=replace(decoded.request, inputs={}, request_id=""))
        self.facts = decoded.facts
        self.replies: Replies = ({}, {}, {})
        self.sizes = _sizes(cut.raw)
        self.inputs: list[tuple[str, Datatype, tuple[int, ...]]] = [
            (name, tensor.datatype, tensor.shape) for name, tensor in decoded.request.inputs.items()
        ]

    @staticmethod
    def suits(decoded: Decoded, cut: Cut) -> bool:
        """Whether a message may be repeated: every tensor raw, and nothing in it that tells requests apart."""
        request = decoded.request
        return bool(cut.raw) and len(cut.raw) == len(request.inputs) and not request.correlation_id

    def is_alike(self, cut: Cut) -> bool:
        """Whether the contents of a message have the sizes that they have here."""
        return self.sizes == _sizes(cut.raw)

    def read_parts(self, data: bytes | bytearray, raw: Spans, request_id: str, *, alike: bool) -> Decoded:
        """The request in a message that is equal but for its id and, unless ``alike``, the sizes of its contents."""
        view = memoryview(data)
        inputs = {
            name: Tensor(datatype, shape, view[start:stop])
            for (name, datatype, shape), (start, stop) in zip(self.inputs, raw, strict=True)
        }
        return self.decoded(inputs, request_id, form=self if alike else None)

    def decoded(self, inputs: dict[str, Tensor], request_id: str, form: RequestPlan | None) -> Decoded:
        """A request with these inputs; ``form`` where all that is sent of it but its id and contents is known."""
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


class MessageShape:
    """Where id and contents stand in messages of one length that are equal but for these.

    ``prefix`` is what stands before the first of them, its own head included. Only for messages whose contents come
    last (``suits``).
    """

    __slots__ = ("_heads", "_id_start", "_id_stop", "_spans", "plan", "prefix")

    def __init__(self, plan: RequestPlan, data: bytes | bytearray, cut: Cut) -> None:
        self.plan = plan
        self._id_start = cut.id_start
        self._id_stop = cut.id_start + len(cut.request_id)
        varying = [(self._id_start, self._id_stop), *cut.raw] if cut.request_id else cut.raw
        self.prefix = bytes(data[: varying[0][0]])
        self._heads = [(before[1], bytes(data[before[1] : after[0]])) for before, after in itertools.pairwise(varying)]
        self._spans = [(*described, *span) for described, span in zip(plan.inputs, cut.raw, strict=True)]

    @staticmethod
    def suits(cut: Cut) -> bool:
        """Whether everything in a message but the contents of its tensors stands before these."""
        return cut.prefix >= 0

    def is_same(self, other: MessageShape) -> bool:
        """Whether the same messages fit both."""
        return self.prefix == other.prefix and self._heads == other._heads

    def fits(self, data: bytes | bytearray) -> bool:
        """Whether a message of the same length is of this shape."""
        if not data.startswith(self.prefix):
            return False
        for position, head in self._heads:  # noqa: SIM110  a generator costs more than the comparisons
            if not data.startswith(head, position):
                return False
        return True

    def read(self, data: bytes | bytearray) -> Decoded:
        """The request in a message that fits. Raises UnicodeDecodeError for an id that is no text."""
        request_id = data[self._id_start : self._id_stop].decode() if self._id_start >= 0 else ""
        view = memoryview(data)
        inputs = {name: Tensor(datatype, shape, view[start:stop]) for name, datatype, shape, start, stop in self._spans}
        return self.plan.decoded(inputs, request_id, form=self.plan)


def _sizes(raw: Spans) -> list[int]:
    return [stop - start for start, stop in raw]
