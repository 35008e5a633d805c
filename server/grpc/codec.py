"""A ModelInferRequest to an InferenceRequest and the wishes for its replies.

The order of the checks and their sentences are Triton's: version, model, parameters, inputs, outputs, contents; what
remains is the core's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...backends.api import datatypes
from ...backends.api.errors import Internal, InvalidArgument
from ...backends.api.request import InferenceRequest
from ...backends.api.tensor import Tensor
from ..wire import refusals
from ..wire.binary import request_prefix
from . import contents, parameters

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..lifecycle.signature import ModelSignature
    from .facts import ModelFacts
    from .reply import Replies

_INTEGER = re.compile(r"[+-]?[0-9]+")
_VERSION_DIGITS = 20
_REGION = "shared_memory_region"
_SIZE = "shared_memory_byte_size"
_OFFSET = "shared_memory_offset"
_NO_VERSION = "version should be an integral value > 0"

UNREADABLE = "Unable to parse request"


@dataclass(slots=True)
class Decoded:
    """A request, and how its outputs are wanted.

    ``facts`` are those of its model. ``classes`` has the outputs that were asked for, each with how many of its highest
    values are wanted, 0 for the tensor itself; it is empty for all outputs. ``version`` is the version's text as it
    came. ``empty_final`` says that an end that carries nothing is to be sent. ``replies`` holds what was made of the
    replies to such requests, or is None for a request that nobody expects again.
    """

    request: InferenceRequest
    facts: ModelFacts
    version: str = ""
    classes: dict[str, int] = field(default_factory=dict[str, int])
    empty_final: bool = False
    replies: Replies | None = None


def read_version(text: str) -> int | None:
    """A version out of a message; None for none. Raises InvalidArgument for what is no version."""
    if not text:
        return None
    if _INTEGER.fullmatch(text) is None or len(text.lstrip("+-0")) >= _VERSION_DIGITS:
        raise InvalidArgument(_no_version(text))
    version = int(text)
    if version < 0:
        msg = f"invalid model version specified '{text}' , {_NO_VERSION}"
        raise InvalidArgument(msg)
    if version > parameters.MAX_INT64:
        raise InvalidArgument(_no_version(text))
    return version


def read_request(message: Any, raw: Sequence[memoryview], facts: ModelFacts) -> Decoded:  # noqa: ANN401  protobuf
    """Read a ModelInferRequest whose raw contents are ``raw``. Raises InferError with the protocol's sentences."""
    request = InferenceRequest(facts.target[0], {}, facts.target[1], message.id)
    result = Decoded(request, facts, message.model_version)
    if message.parameters:
        given, result.empty_final = parameters.read(message.parameters)
        request.parameters = given.custom
        request.correlation_id = given.correlation_id
        request.flags = given.flags
        request.priority = given.priority
        request.timeout_us = given.timeout_us
    reader = _Inputs(request, facts.signature, raw)
    reader.check(message.inputs)
    _read_outputs(message.outputs, result)
    reader.read(message.inputs)
    return result


class _Inputs:
    """Reads the inputs of a message into a request."""

    __slots__ = ("_raw", "_request", "_signature", "_taken")

    def __init__(self, request: InferenceRequest, signature: ModelSignature, raw: Sequence[memoryview]) -> None:
        self._request = request
        self._signature = signature
        self._raw = raw
        self._taken = 0

    def check(self, inputs: Sequence[Any]) -> None:
        """Check what is said of the inputs, before their contents. Raises InvalidArgument."""
        seen: set[str] = set()
        request_id = self._request.request_id
        for tensor in inputs:
            name = tensor.name
            if tensor.datatype not in datatypes.BY_WIRE_NAME:
                raise refusals.unknown_datatype(self._signature, request_id, name)
            if name in seen:
                raise refusals.duplicate("input", name, request_id)
            seen.add(name)
            if any(size < 0 for size in tensor.shape):
                shape = ",".join(map(str, tensor.shape))
                msg = (
                    f"{request_prefix(request_id)}All input dimensions should be specified for input '{name}' for "
                    f"model '{self._signature.name}', got [{shape}]"
                )
                raise InvalidArgument(msg)

    def read(self, inputs: Sequence[Any]) -> None:
        """Read the inputs. Raises InferError."""
        for tensor in inputs:
            datatype = datatypes.BY_WIRE_NAME[tensor.datatype]
            buffer = self._buffer(tensor, datatype)
            self._request.inputs[tensor.name] = Tensor(datatype, tuple(tensor.shape), buffer)

    def _buffer(self, tensor: Any, datatype: datatypes.Datatype) -> memoryview | bytes:  # noqa: ANN401  protobuf
        name, model = tensor.name, self._signature.name
        if tensor.parameters and names_region(tensor.parameters, name):
            if tensor.HasField("contents"):
                msg = (
                    f"unexpected 'content' provided when using shared memory for input tensor '{name}' for "
                    f"model '{model}'"
                )
                raise InvalidArgument(msg)
            raise refusals.unknown_region(tensor.parameters[_REGION].string_param)
        if tensor.HasField("contents"):
            if self._raw:
                msg = (
                    f"contents field must not be specified when using raw_input_contents for '{name}' for "
                    f"model '{model}'"
                )
                raise InvalidArgument(msg)
            return contents.to_bytes(tensor.contents, datatype, name, model)
        if self._taken == len(self._raw):
            msg = f"unable to find data for input tensor '{name}' for model '{model}' in request."
            raise InvalidArgument(msg)
        self._taken += 1
        return self._raw[self._taken - 1]


def names_region(given: Mapping[str, Any], name: str) -> bool:
    """Whether the parameters of tensor ``name`` put it into shared memory. Raises InvalidArgument for half of it."""
    where = f" for tensor '{name}'"
    region = parameters.text(given, _REGION, where)
    size, offset = parameters.integer(given, _SIZE, where), parameters.integer(given, _OFFSET, where)
    if region is None:
        for key, value in ((_OFFSET, offset), (_SIZE, size)):
            if value is not None:
                msg = f"'{key}' can not be specified without '{_REGION}' parameter{where}"
                raise InvalidArgument(msg)
        return False
    if size is None:
        msg = f"'{_SIZE}' must be specified along with '{_REGION}' parameter{where}"
        raise InvalidArgument(msg)
    return True


def _read_outputs(outputs: Sequence[Any], result: Decoded) -> None:
    """Read which outputs are wanted, and how. Raises InferError."""
    classes = result.classes
    for output in outputs:
        name = output.name
        if name in classes:
            raise refusals.duplicate("output", name, result.request.request_id)
        classes[name] = _classes(output.parameters, name) if output.parameters else 0
    result.request.requested_outputs = tuple(classes)


def _classes(given: Mapping[str, Any], name: str) -> int:
    count = parameters.integer(given, "classification")
    if count is not None and count <= 0:
        msg = "invalid value for 'classification' parameter, expected >= 0"
        raise InvalidArgument(msg)
    if names_region(given, name):
        if count is not None:
            msg = f"output can't set both '{_REGION}' and 'classification' for '{name}'"
            raise InvalidArgument(msg)
        raise refusals.unknown_region(given[_REGION].string_param)
    return count or 0


def unreadable() -> Internal:
    """What is no message of the expected kind."""
    return Internal(UNREADABLE)


def _no_version(text: str) -> str:
    return f"failed to get model version from specified version string '{text}' (details: stol), {_NO_VERSION}"
