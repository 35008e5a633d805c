"""Replies: what protobuf writes of them, made once for responses that are alike, and the tensors joined behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...backends.api.errors import InvalidArgument
from ..wire import classification
from . import parameters
from .messages import message
from .wire_format import field_head

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...backends.api.errors import InferError
    from ...backends.api.response import InferenceResponse
    from ...backends.api.tensor import Tensor
    from ..lifecycle.models import ServedModel

MAX_MESSAGE = 2**31 - 1
"""The largest message of gRPC in bytes."""
MAX_REPLIES = 64
_MAX_STARTS = 64
"""Lengths of ids for which the beginning of a reply is kept."""
_ID, _RAW_OUTPUT = 3, 6
_INFER_RESPONSE = 2
"""Field numbers: of ModelInferResponse, and of the message that carries one in a stream."""

UNARY, MORE, LAST = range(3)
"""What a reply is: of ModelInfer, or in a stream with more to come, or the last one of its request there."""


class Reply:
    """A ModelInferResponse but for its id and the contents of its tensors, whose sizes are known.

    :param outputs: the name and the size in bytes of each output, in the order of their descriptions in ``rest``.
    """

    __slots__ = ("_opening", "_rest", "_rows", "_size", "_start", "_starts", "_streamed")

    def __init__(self, opening: bytes, rest: bytes, outputs: list[tuple[str, int]], *, streamed: bool) -> None:
        self._opening = opening
        self._rest = rest
        self._streamed = streamed
        self._rows = [(name, field_head(_RAW_OUTPUT, size)) for name, size in outputs]
        tensors = sum(size for _, size in outputs) + sum(len(head) for _, head in self._rows)
        self._size = len(opening) + len(rest) + tensors
        self._start = self._head(0) + opening + rest
        self._starts: dict[int, bytes] = {}
        """What stands before an id, by the id's length in bytes."""

    def _head(self, id_field_size: int) -> bytes:
        return field_head(_INFER_RESPONSE, self._size + id_field_size) if self._streamed else b""

    def _start_before(self, id_size: int) -> bytes:
        """What stands before an id of that many bytes; clients' ids are mostly of a few lengths."""
        id_head = field_head(_ID, id_size)
        start = self._head(len(id_head) + id_size) + self._opening + id_head
        if len(self._starts) >= _MAX_STARTS:
            self._starts.clear()
        self._starts[id_size] = start
        return start

    def join(self, outputs: Mapping[str, Tensor], request_id: str) -> bytes:
        """The whole message. Raises InvalidArgument for one that gRPC cannot carry."""
        if self._size > MAX_MESSAGE:
            msg = f"the response is {self._size} bytes large, which exceeds gRPC's byte size limit of {MAX_MESSAGE}"
            raise InvalidArgument(msg)
        if request_id:
            text = request_id.encode()
            start = self._starts.get(len(text))
            parts: list[Any] = [start or self._start_before(len(text)), text, self._rest]
        else:
            parts = [self._start]
        for name, head in self._rows:
            parts.append(head)
            parts.append(outputs[name].buffer)
        return b"".join(parts)


Replies = tuple[dict[object, Reply], dict[object, Reply], dict[object, Reply]]
"""Replies by kind, each by the form of the response."""


class ReplyWriter:
    """Writes the replies of one model version."""

    __slots__ = ("_batching", "_labels", "_opening", "model")

    def __init__(self, model: ServedModel) -> None:
        self.model = model
        self._batching = model.signature.batching
        self._labels = model.signature.labels
        opening = message("ModelInferResponse")(model_name=model.name, model_version=str(model.version))
        self._opening: bytes = opening.SerializeToString()

    def write(
        self,
        response: InferenceResponse,
        request_id: str,
        classes: Mapping[str, int],
        kind: int,
        replies: Replies | None = None,
    ) -> bytes:
        """The reply, outputs in the order the model produced them, only those that were asked for.

        :param classes: as in Decoded.
        :param kind: UNARY, MORE or LAST.
        :param replies: what was made for such requests, looked into and added to.

        Raises InvalidArgument for an output that cannot be sent as it was asked for.
        """
        form = None if replies is None or response.parameters else response.form
        if form is None or replies is None:
            outputs = self._chosen(response, classes)
            return self._make(response, outputs, kind).join(outputs, request_id)
        known = replies[kind].get(form)
        if known is None:
            outputs = self._chosen(response, classes)
            known = self._make(response, outputs, kind)
            if any(classes.values()):
                return known.join(outputs, request_id)
            if len(replies[kind]) >= MAX_REPLIES:
                replies[kind].clear()
            replies[kind][form] = known
        return known.join(response.outputs, request_id)

    def _chosen(self, response: InferenceResponse, classes: Mapping[str, int]) -> Mapping[str, Tensor]:
        """The outputs to send, as they are to be sent."""
        if not classes:
            return response.outputs
        chosen = {name: tensor for name, tensor in response.outputs.items() if name in classes}
        for name, tensor in chosen.items():
            count = classes[name]
            if count:
                labels = self._labels.get(name, ())
                chosen[name] = classification.classify(tensor, count, labels, batching=self._batching)
        return chosen

    def _make(self, response: InferenceResponse, outputs: Mapping[str, Tensor], kind: int) -> Reply:
        rest = message("ModelInferResponse")()
        if response.parameters:
            parameters.write(rest.parameters, response.parameters)
        if kind != UNARY:
            rest.parameters[parameters.FINAL].bool_param = kind == LAST
        rows: list[tuple[str, int]] = []
        for name, tensor in outputs.items():
            rest.outputs.add(name=name, datatype=tensor.datatype.value, shape=tensor.shape)
            rows.append((name, tensor.byte_size))
        return Reply(self._opening, rest.SerializeToString(), rows, streamed=kind != UNARY)


def empty_final(model_name: str, version: str, request_id: str) -> bytes:
    """The message of a stream that says that a request has ended, where nothing else does."""
    streamed = message("ModelStreamInferResponse")()
    infer = streamed.infer_response
    infer.model_name, infer.model_version, infer.id = model_name, version, request_id
    infer.parameters[parameters.FINAL].bool_param = True
    return streamed.SerializeToString()


def refused(error: InferError, request_id: str) -> bytes:
    """The message of a stream about a request that was not let in."""
    streamed = message("ModelStreamInferResponse")(error_message=parameters.clean(str(error)))
    streamed.infer_response.id = request_id
    return streamed.SerializeToString()


def failed(error: InferError, model_name: str, version: str, request_id: str, *, final: bool) -> bytes:
    """The message of a stream about a request that failed."""
    streamed = message("ModelStreamInferResponse")(error_message=parameters.clean(str(error)))
    infer = streamed.infer_response
    infer.model_name, infer.model_version, infer.id = model_name, version, request_id
    infer.parameters[parameters.FINAL].bool_param = final
    return streamed.SerializeToString()
