"""The reply to an inference request: header, JSON and tensors as separate buffers, none of them copied.

What is the same for every reply of a model version is made once: the JSON up to ``outputs``, and the description of
outputs of one datatype, shape and size.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from ..wire import classification
from . import json_elements
from .errors import json_string

if TYPE_CHECKING:
    from ...backends.api.datatypes import Datatype
    from ...backends.api.response import InferenceResponse
    from ...backends.api.tensor import Tensor
    from ..lifecycle.models import ServedModel
    from .codec import Codec
    from .json_codec import DecodedRequest, OutputWish

MAX_TEMPLATES = 512
Headers = list[tuple[bytes, bytes]]


@dataclass(slots=True)
class Reply:
    """A reply before its length is counted. ``json`` are the parts of the JSON, ``tail`` the tensors behind it."""

    json: list[bytes | memoryview]
    tail: list[memoryview]
    tail_size: int = 0

    def headers(self) -> Headers:
        """Content type and length; the length of the JSON where tensors follow it."""
        json_size = sum(map(len, self.json))
        if not self.tail_size:
            return [(b"Content-Type", b"application/json"), (b"Content-Length", b"%d" % json_size)]
        return [
            (b"Content-Type", b"application/octet-stream"),
            (b"Inference-Header-Content-Length", b"%d" % json_size),
            (b"Content-Length", b"%d" % (json_size + self.tail_size)),
        ]


class ReplyWriter:
    """Writes the replies of one model version."""

    __slots__ = ("_described", "_labels", "_opening", "_whole", "batching", "model")

    def __init__(self, model: ServedModel) -> None:
        self.model = model
        self.batching = model.signature.batching
        self._labels = model.signature.labels
        self._opening = b'"model_name":' + json_string(model.name) + b',"model_version":"%d"' % model.version
        self._described: dict[Any, bytes] = {}
        self._whole: dict[Any, bytes] = {}

    def write(self, response: InferenceResponse, decoded: DecodedRequest) -> Reply:
        """The reply, outputs in the order the model produced them, only those that were asked for.

        Raises InvalidArgument for an output that cannot be sent as it was asked for.
        """
        if decoded.default.binary and not decoded.wishes:
            return self._write_binary(response, decoded.request.request_id)
        chosen = _choose(response, decoded)
        tail: list[memoryview] = []
        pieces: list[bytes] = []
        size = 0
        for name, tensor, wish in chosen:
            piece, view = self._piece(name, tensor, wish)
            pieces.append(piece)
            if view is not None:
                tail.append(view)
                size += view.nbytes
        opening = self._open(response, decoded.request.request_id)
        return Reply([opening + b",".join(pieces) + b"]}"], tail, size)

    def _write_binary(self, response: InferenceResponse, request_id: str) -> Reply:
        """All outputs as bytes, what most clients ask for: one look-up gives the text of them all."""
        tail: list[memoryview] = []
        size = 0
        shapes: list[Any] = []
        for name, tensor in response.outputs.items():
            view = tensor.view
            nbytes = view.nbytes
            # The number, because hashing a member of an enumeration runs Python code.
            shapes.append((name, tensor.datatype.number, tensor.shape, nbytes))
            if nbytes:
                tail.append(view)
                size += nbytes
        key = tuple(shapes)
        text = self._whole.get(key)
        if text is None:
            if len(self._whole) >= MAX_TEMPLATES:
                self._whole.clear()
            pieces = [
                describe_output(name, tensor.datatype, tensor.shape, tensor.byte_size)
                for name, tensor in response.outputs.items()
            ]
            text = self._whole[key] = b",".join(pieces) + b"]}"
        return Reply([self._open(response, request_id) + text], tail, size)

    async def write_elsewhere(self, response: InferenceResponse, decoded: DecodedRequest, codec: Codec) -> Reply:
        """The reply, with the JSON of its elements made by the codec process."""
        chosen = _choose(response, decoded)
        inline = [(name, tensor) for name, tensor, wish in chosen if not wish.binary and not wish.classes]
        texts = iter(await codec.encode(inline))
        text: list[bytes | memoryview] = [self._open(response, decoded.request.request_id)]
        tail: list[memoryview] = []
        size = 0
        for position, (name, tensor, wish) in enumerate(chosen):
            comma = b"," if position else b""
            if wish.binary or wish.classes:
                piece, view = self._piece(name, tensor, wish)
                text.append(comma + piece)
                if view is not None:
                    tail.append(view)
                    size += view.nbytes
            else:
                text += (comma + self._describe(name, tensor, -1), next(texts), b"}")
        text.append(b"]}")
        return Reply(text, tail, size)

    def _open(self, response: InferenceResponse, request_id: str) -> bytes:
        """The JSON up to the first output."""
        opening = b'{"id":' + json_string(request_id) + b"," if request_id else b"{"
        if response.parameters:
            return opening + self._opening + b',"parameters":' + _parameters(response.parameters) + b',"outputs":['
        return opening + self._opening + b',"outputs":['

    def _piece(self, name: str, tensor: Tensor, wish: OutputWish) -> tuple[bytes, memoryview | None]:
        """One output's JSON, and its bytes where it is a binary one that is not empty."""
        if wish.classes:
            tensor = classification.classify(tensor, wish.classes, self._labels.get(name, ()), batching=self.batching)
        if wish.binary:
            view = tensor.view
            return self._describe(name, tensor, view.nbytes), view if view.nbytes else None
        return self._describe(name, tensor, -1) + json_elements.encode(tensor, name) + b"}", None

    def _describe(self, name: str, tensor: Tensor, binary_size: int) -> bytes:
        """One output up to its data: whole for a binary one, to be closed for one in JSON (size -1)."""
        key = (name, tensor.datatype.number, tensor.shape, binary_size)
        text = self._described.get(key)
        if text is None:
            if len(self._described) >= MAX_TEMPLATES:
                self._described.clear()
            text = self._described[key] = describe_output(name, tensor.datatype, tensor.shape, binary_size)
        return text


def json_bytes(response: InferenceResponse, decoded: DecodedRequest) -> int:
    """How many bytes of tensors go into the reply as JSON elements."""
    if not decoded.wishes and decoded.default.binary:
        return 0
    return sum(
        tensor.byte_size for _, tensor, wish in _choose(response, decoded) if not wish.binary and not wish.classes
    )


def _choose(response: InferenceResponse, decoded: DecodedRequest) -> list[tuple[str, Tensor, OutputWish]]:
    """The outputs to send, in the order the model produced them, and how each is wanted."""
    wishes, default = decoded.wishes, decoded.default
    if wishes:
        return [(name, tensor, wishes[name]) for name, tensor in response.outputs.items() if name in wishes]
    return [(name, tensor, default) for name, tensor in response.outputs.items()]


def describe_output(name: str, datatype: Datatype, shape: tuple[int, ...], binary_size: int) -> bytes:
    """``{"name":…,"datatype":…,"shape":…`` and, for a binary output, its size and the closing brace."""
    text = b'{"name":%b,"datatype":"%b","shape":%b' % (
        json_string(name),
        datatype.value.encode(),
        orjson.dumps([int(size) for size in shape]),
    )
    if binary_size < 0:
        return text + b',"data":'
    return text + b',"parameters":{"binary_data_size":%d}}' % binary_size


def _parameters(values: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(values)
    except orjson.JSONEncodeError:
        # A value with bytes that are no UTF-8, or an integer of more than 64 bits.
        return b"{" + b",".join(json_string(key) + b":" + _value(value) for key, value in values.items()) + b"}"


def _value(value: object) -> bytes:
    return json_string(value) if isinstance(value, str) else json.dumps(value).encode()
