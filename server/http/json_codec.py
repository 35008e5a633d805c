"""An inference request in JSON, with or without a binary tail, to an InferenceRequest and the wishes for its reply.

The order of the checks and their sentences are Triton's: ``id``, ``parameters``, ``inputs``, left-over bytes,
``outputs``; what remains is the core's.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ...backends.api import datatypes
from ...backends.api.errors import Internal, InvalidArgument
from ...backends.api.request import InferenceRequest
from ...backends.api.tensor import Tensor
from ..wire import binary, parameters, refusals
from . import json_elements
from .errors import missing, mistyped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...backends.api.datatypes import Datatype
    from ...backends.api.response import InferenceResponse
    from ..lifecycle.signature import ModelSignature

_NOTHING: dict[str, Any] = {}
_ONE_OF = (
    "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', "
    "'shared_memory_region' in 'parameters'. But "
)


@dataclass(frozen=True, slots=True)
class OutputWish:
    """How the client wants one output: as bytes or as JSON, and as its ``classes`` highest ones if not 0."""

    binary: bool = False
    classes: int = 0


AS_JSON = OutputWish()
AS_BYTES = OutputWish(binary=True)


@dataclass(slots=True)
class DecodedRequest:
    """A request, and how its outputs are wanted: by name, and ``default`` for those not named."""

    request: InferenceRequest
    wishes: dict[str, OutputWish] = field(default_factory=dict[str, OutputWish])
    default: OutputWish = AS_JSON

    def names_sent_as_bytes(self, response: InferenceResponse) -> tuple[str, ...] | None:
        """The outputs of a response that are sent, in their order, where all of them are sent as bytes; else None."""
        wishes = self.wishes
        if not wishes:
            return tuple(response.outputs) if self.default.binary and not self.default.classes else None
        names = tuple(name for name in response.outputs if name in wishes)
        return names if all(wishes[name].binary and not wishes[name].classes for name in names) else None


class RequestPlan:
    """What the JSON of a wholly binary request says, to be used again when a client repeats it byte for byte.

    Clients send the same JSON with other tensors behind it all the time; reading it costs more than all the rest.
    """

    __slots__ = ("_default", "_inputs", "_request", "_size", "_wishes")

    def __init__(self, decoded: DecodedRequest, tail_size: int) -> None:
        self._wishes = decoded.wishes
        self._default = decoded.default
        self._size = tail_size
        self._inputs: list[tuple[str, Datatype, tuple[int, ...], int, int]] = []
        start = 0
        for name, tensor in decoded.request.inputs.items():
            end = start + tensor.byte_size
            self._inputs.append((name, tensor.datatype, tensor.shape, start, end))
            start = end
        # The plan outlives the request: it must not keep its tensors.
        self._request = replace(decoded.request, inputs={})

    @staticmethod
    def suits(decoded: DecodedRequest, tail_size: int) -> bool:
        """Whether a request may be repeated: all tensors in the tail, and nothing in it that tells requests apart."""
        request = decoded.request
        return (
            not request.request_id
            and not request.correlation_id
            and tail_size == sum(tensor.byte_size for tensor in request.inputs.values())
        )

    @property
    def tail_size(self) -> int:
        """Bytes of the tensors."""
        return self._size

    def read(self, tail: memoryview) -> DecodedRequest | None:
        """The request with this tail, or None where the tail has not the right size."""
        return self.read_tail(tail) if tail.nbytes == self._size else None

    def read_tail(self, tail: memoryview) -> DecodedRequest:
        """The request with this tail, which has the right size."""
        inputs = {name: Tensor(datatype, shape, tail[start:end]) for name, datatype, shape, start, end in self._inputs}
        like = self._request
        request = InferenceRequest(
            like.model_name,
            inputs,
            like.model_version,
            "",
            like.requested_outputs,
            like.parameters.copy(),
            0,
            like.flags,
            like.priority,
            like.timeout_us,
            form=self,
        )
        return DecodedRequest(request, self._wishes, self._default)


def read_request(  # noqa: PLR0913, PLR0917  all that a request is made of
    document: Any,  # noqa: ANN401  whatever the JSON was
    tail: memoryview,
    signature: ModelSignature,
    version: int | None,
    limit: int,
    decoded: Mapping[int, memoryview] | None = None,
) -> DecodedRequest:
    """Read a request whose JSON is parsed.

    :param tail: the bytes behind the JSON.
    :param limit: the most bytes that one input in JSON may take.
    :param decoded: by position, the bytes of inputs whose ``data`` the codec process has already decoded.

    Raises InferError with the protocol's sentences.
    """
    members = as_object(document)
    request_id = members.get("id", "")
    if type(request_id) is not str:
        raise mistyped("id", "string")
    request = InferenceRequest(signature.name, {}, version, request_id)
    default = _read_parameters(members, request)
    inputs = members.get("inputs")
    if type(inputs) is not list:
        raise missing("inputs") if "inputs" not in members else mistyped("inputs", "array")
    reader = _Inputs(request, signature, binary.BinaryTail(tail, signature.name), limit, decoded or {})
    for position, entry in enumerate(inputs):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        reader.add(position, entry)
    reader.tail.finish()
    result = DecodedRequest(request, default=default)
    outputs = members.get("outputs")
    if outputs is not None:
        _read_outputs(outputs, result)
    return result


def read_raw_request(body: memoryview, signature: ModelSignature, version: int | None, limit: int) -> DecodedRequest:
    """Read a raw binary request: the body is the one input's data. Raises InvalidArgument where it cannot be."""
    if body.nbytes > limit:
        msg = (
            f"Raw input has a byte_size ({body.nbytes} bytes) that exceeds the maximum allowed value of {limit} bytes. "
            "Use --http-max-input-size to increase the limit."
        )
        raise InvalidArgument(msg)
    tensor = binary.raw_input(signature, body)
    name = next(iter(signature.inputs))
    return DecodedRequest(InferenceRequest(signature.name, {name: tensor}, version), default=AS_BYTES)


def as_object(value: Any) -> dict[str, Any]:  # noqa: ANN401  whatever the JSON was
    """The object, or an empty one in place of anything else: its members are then missing."""
    return value if type(value) is dict else _NOTHING  # pyright: ignore[reportUnknownVariableType]


def _read_parameters(members: Mapping[str, Any], request: InferenceRequest) -> OutputWish:
    """Put the request's parameters where they belong; how outputs that are not named are wanted."""
    values = members.get("parameters")
    if values is None and "parameters" not in members:
        return AS_JSON
    if type(values) is not dict:
        msg = "failed to get request params.: attempt to get members for non-object"
        raise Internal(msg)
    given = parameters.read(values, mistyped)  # pyright: ignore[reportUnknownArgumentType]
    request.parameters = given.custom
    request.correlation_id = given.correlation_id
    request.flags = given.flags
    request.priority = given.priority
    request.timeout_us = given.timeout_us
    return AS_BYTES if given.binary_data_output else AS_JSON


class _Inputs:
    """Reads the entries of ``inputs`` into a request."""

    __slots__ = ("_decoded", "_limit", "_request", "_signature", "tail")

    def __init__(
        self,
        request: InferenceRequest,
        signature: ModelSignature,
        tail: binary.BinaryTail,
        limit: int,
        decoded: Mapping[int, memoryview],
    ) -> None:
        self._request = request
        self._signature = signature
        self.tail = tail
        self._limit = limit
        self._decoded = decoded

    def add(self, position: int, entry: Any) -> None:  # noqa: ANN401  JSON
        """Read one entry. Raises InferError."""
        members = as_object(entry)
        values = as_object(members.get("parameters"))
        _check_one_of(members, values)
        name, wire_name, shape = _string(members, "name"), _string(members, "datatype"), _shape(members)
        inline = "data" in members
        datatype = datatypes.BY_WIRE_NAME.get(wire_name)
        if datatype is None:
            raise self._unknown_datatype(name, inline=inline)
        buffer: Any
        if inline:
            buffer = json_elements.decode(name, datatype, shape, members["data"], self._limit)
        elif position in self._decoded:
            buffer = self._decoded[position]
        else:
            buffer = self._take(name, values)
        inputs = self._request.inputs
        if name in inputs:
            raise refusals.duplicate("input", name, self._request.request_id)
        inputs[name] = Tensor(datatype, shape, buffer)

    def _take(self, name: str, values: Mapping[str, Any]) -> memoryview:
        size = values.get("binary_data_size")
        if size is None and "shared_memory_region" in values:
            raise refusals.unknown_region(values["shared_memory_region"])
        if type(size) is not int or size < 0:
            raise mistyped("binary_data_size", "unsigned-integer")
        return self.tail.take(name, size)

    def _unknown_datatype(self, name: str, *, inline: bool) -> InvalidArgument:
        if inline:
            return InvalidArgument(f"invalid datatype for input {name}")
        return refusals.unknown_datatype(self._signature, self._request.request_id, name)


def _check_one_of(members: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    if ("data" in members) + ("binary_data_size" in values) + ("shared_memory_region" in values) == 1:
        return
    found = ["'data'"] if "data" in members else []
    found += [f"'{key}'" for key in ("binary_data_size", "shared_memory_region") if key in values]
    raise InvalidArgument(_ONE_OF + ("set " + " ".join(found) if found else "no field is set"))


def _string(members: Mapping[str, Any], key: str) -> str:
    value = members.get(key)
    if type(value) is not str:
        raise mistyped(key, "string") if key in members else missing(key)
    return value


def _shape(members: Mapping[str, Any]) -> tuple[int, ...]:
    value = members.get("shape")
    if type(value) is not list:
        raise mistyped("shape", "array") if "shape" in members else missing("shape")
    for dim in value:  # pyright: ignore[reportUnknownVariableType]
        if type(dim) is not int or dim < 0:  # pyright: ignore[reportUnknownArgumentType]
            raise mistyped("shape", "unsigned-integer")
    return tuple(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _read_outputs(outputs: Any, result: DecodedRequest) -> None:  # noqa: ANN401  JSON
    """Read ``outputs``: which are wanted, and how."""
    if type(outputs) is not list:
        raise mistyped("outputs", "array")
    wishes = result.wishes
    for entry in outputs:  # pyright: ignore[reportUnknownVariableType]
        members = as_object(entry)
        name = _string(members, "name")
        if name in wishes:
            raise refusals.duplicate("output", name, result.request.request_id)
        wishes[name] = _wish(members.get("parameters"))
    result.request.requested_outputs = tuple(wishes)


def _wish(given: Any) -> OutputWish:  # noqa: ANN401  JSON
    if type(given) is not dict or not given:
        return AS_JSON
    values: dict[str, Any] = given  # pyright: ignore[reportUnknownVariableType]
    as_bytes = values.get("binary_data", False)
    if type(as_bytes) is not bool:
        raise mistyped("binary_data", "boolean")
    if "shared_memory_region" in values:
        raise refusals.unknown_region(values["shared_memory_region"])
    classes = values.get("classification", 0)
    if not parameters.is_unsigned(classes):
        msg = "Unable to set 'classification': attempt to access JSON non-unsigned-integer as unsigned-integer"
        raise Internal(msg)
    if classes:
        return OutputWish(as_bytes, classes)
    return AS_BYTES if as_bytes else AS_JSON
