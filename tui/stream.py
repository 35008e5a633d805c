"""A call whose responses are taken as they come: ``ModelStreamInfer`` on the gRPC port, one request on one stream."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from ..backends.api.datatypes import BY_WIRE_NAME
from ..backends.api.errors import InferError
from .client import is_unknown
from .failure import ClientError, Kind
from .grpc_call import Call
from .inference import Answer, InputTensor, OutputTensor, binary_values
from .protobuf import field, fields, parameter, read_parameter, tensor_head, unpacked
from .values import to_array

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .inference import Request

PATH = "/inference.GRPCInferenceService/ModelStreamInfer"
_FINAL = "triton_final_response"


def stream(request: Request, address: str, timeout: float) -> Iterator[Answer]:
    """Call a model and give each response as it comes. Closing the iterator cancels the call.

    Raises ClientError with the server's sentence; ``timeout`` bounds in seconds how long the server may be silent.
    """
    with Call(address, PATH, timeout) as call:
        call.send(encode(request))
        call.finish()
        # The iterator is closed with the call, also where the caller leaves its loop.
        with contextlib.closing(call.messages()) as messages:
            for message in messages:
                answer = decode(message)
                if answer.tensors or not answer.head.get("parameters", {}).get(_FINAL):
                    yield answer


def encode(request: Request) -> bytes:
    """The ModelInferRequest that a prepared request is, with raw contents."""
    tensors = request.tensors or _from_document(request.document)
    document = request.document
    parts = [field(1, request.model), field(2, request.version), field(3, str(document.get("id", "")))]
    wanted: dict[str, Any] = document.get("parameters", {})
    # What concerns the form of a reply over HTTP means nothing here.
    parts += [field(4, parameter(name, value)) for name, value in wanted.items() if name != "binary_data_output"]
    parts += [field(5, tensor_head(tensor.name, tensor.datatype, tensor.array.shape)) for tensor in tensors]
    parts += [field(6, field(1, output["name"])) for output in document.get("outputs", ())]
    parts += [field(7, bytes(tensor.view)) for tensor in tensors]
    return b"".join(parts)


def _from_document(document: dict[str, Any]) -> tuple[InputTensor, ...]:
    """The inputs of a whole request document. Raises ClientError for one that carries no data of its own."""
    found: list[InputTensor] = []
    try:
        for entry in document["inputs"]:
            datatype = BY_WIRE_NAME[entry["datatype"]]
            array = to_array(entry["name"], datatype, entry["data"]).reshape(entry["shape"])
            found.append(InputTensor(entry["name"], datatype, array))
    except (KeyError, TypeError, ValueError) as error:
        raise ClientError(
            "the request document cannot be streamed",
            f"an input needs name, shape, datatype and data ({type(error).__name__}: {error})",
            "give the inputs with -i NAME=VALUE",
            kind=Kind.USAGE,
        ) from error
    return tuple(found)


def decode(message: bytes) -> Answer:
    """The answer in a ModelStreamInferResponse. Raises ClientError for a failure, and for what is no such message."""
    response = memoryview(b"")
    try:
        for number, value in fields(memoryview(message)):
            if isinstance(value, int):
                continue
            if number == 1 and value:
                raise _refusal(str(value, "utf-8"))
            if number == 2:  # noqa: PLR2004  the response
                response = value
        return _answer(response)
    except (ValueError, KeyError, IndexError, InferError) as error:
        raise ClientError("the answer cannot be read", str(error)) from error


def _refusal(why: str) -> ClientError:
    """The failure that the server's sentence stands for."""
    if is_unknown(why):
        fix = "see what is there: infer model list"
        return ClientError("the server refused the request", why, fix, kind=Kind.NOT_FOUND)
    return ClientError("the server refused the request", why, "see what it takes: infer model metadata MODEL")


def _answer(message: memoryview) -> Answer:
    """A ModelInferResponse."""
    names = {1: "model_name", 2: "model_version", 3: "id"}
    head: dict[str, Any] = {}
    outputs: list[dict[int, Any]] = []
    raw: list[memoryview] = []
    for number, value in fields(message):
        if isinstance(value, int):
            continue
        if number in names:
            head[names[number]] = str(value, "utf-8")
        elif number == 4:  # noqa: PLR2004  parameters
            name, given = read_parameter(value)
            head.setdefault("parameters", {})[name] = given
        elif number == 5:  # noqa: PLR2004  outputs
            outputs.append(_output(value))
        elif number == 6:  # noqa: PLR2004  raw_output_contents
            raw.append(value)
    tensors = (_tensor(output, data) for output, data in zip(outputs, raw, strict=True))
    return Answer(head, tuple(tensors))


def _output(message: memoryview) -> dict[int, Any]:
    """Name (1), datatype (2) and shape (3) of an output."""
    found: dict[int, Any] = {3: []}
    for number, value in fields(message):
        if number == 3:  # noqa: PLR2004  the shape
            found[3] += unpacked(value)
        elif number in (1, 2) and not isinstance(value, int):
            found[number] = str(value, "utf-8")
    return found


def _tensor(output: dict[int, Any], data: memoryview) -> OutputTensor:
    return OutputTensor(output[1], output[2], tuple(output[3]), binary_values(output[2], output[3], data))
