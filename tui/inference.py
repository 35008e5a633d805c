"""What ``infer call`` sends and shows: values fitted to a model's metadata, and the answer's tensors.

Small numbers travel as JSON, which ``--curl`` can show; large arrays and datatypes without a JSON form travel as
binary tensors.
"""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

import numpy as np

from ..backends.api.datatypes import BY_WIRE_NAME, Datatype
from ..backends.api.errors import InferError
from ..backends.api.tensor import Tensor
from .client import model_path
from .curl import infer_command
from .failure import ClientError, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from .client import Client, Reply

_HEADER = "Inference-Header-Content-Length"
_MOST_JSON_ELEMENTS = 1024
_SHOWN_ELEMENTS = 64
_BINARY_ONLY = (Datatype.FP16, Datatype.BF16)
_FILE = "@"

Document = dict[str, Any]


def _usage(what: str, why: str, fix: str) -> ClientError:
    return ClientError(what, why, fix, kind=Kind.USAGE)


def from_options(options: Sequence[str]) -> Document:
    """Values by input name from ``NAME=VALUE`` and ``NAME=@FILE.npy``."""
    given: Document = {}
    for option in options:
        name, equals, text = option.partition("=")
        if not equals or not name:
            raise _usage(f"input '{option}' has no value", "it must be NAME=VALUE", "for example: -i 'INPUT0=[1,2]'")
        given[name] = _load_array(name, text[len(_FILE) :]) if text.startswith(_FILE) else _literal(text)
    return given


def _literal(text: str) -> Any:  # noqa: ANN401  a JSON value
    """A JSON value; what is not JSON is a text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _load_array(name: str, path: str) -> NDArray[Any]:
    try:
        loaded: Any = np.load(Path(path), allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise _usage(f"input '{name}' cannot be read from {path}", str(error), "name a .npy file") from error
    if not isinstance(loaded, np.ndarray):
        raise _usage(f"input '{name}' cannot be read from {path}", "it holds several arrays", "name a .npy file")
    array = cast("NDArray[Any]", loaded)
    return np.char.encode(array, "utf-8") if array.dtype.kind == "U" else array


def from_stdin(stream: TextIO) -> Document:
    """Values by input name, or a whole request document, from JSON on a stream."""
    example = "for example: -i 'INPUT0=[1,2]'   or   echo '{\"INPUT0\": [1,2]}' | infer call MODEL"
    if stream.isatty():
        raise _usage("there are no inputs", "neither -i nor standard input gives any", example)
    try:
        document: Any = json.loads(stream.read())
    except ValueError as error:
        raise _usage("standard input is not JSON", str(error), example) from error
    if not isinstance(document, dict):
        raise _usage("standard input is not a JSON object", f"it is {type(document).__name__}", example)
    return cast("Document", document)


@dataclass(slots=True)
class Request:
    """A prepared request: the JSON document, and the binary tensors that follow it."""

    client: Client
    model: str
    path: str
    document: Document
    tail: list[memoryview] = field(default_factory=list[memoryview])

    def send(self) -> Answer:
        """Call the model. Raises ClientError with the server's sentence."""
        header = json.dumps(self.document).encode()
        headers = {"Content-Type": "application/octet-stream", _HEADER: str(len(header))} if self.tail else {}
        began = time.perf_counter()
        reply = self.client.request("POST", self.path, b"".join([header, *self.tail]), headers)
        took_s = time.perf_counter() - began
        if not reply.ok:
            raise self.client.refusal(reply, self.path)
        return replace(read_answer(reply), took_s=took_s)

    def curl(self) -> str:
        """The command that does the same, or a sentence where binary tensors make it impossible."""
        if self.tail:
            return "# this request carries binary tensors, which a curl command line cannot hold"
        return infer_command(self.client.url, self.path, self.document)


def prepare(client: Client, model: str, version: str, given: Document, request_id: str) -> Request:
    """Fit the values to the model's inputs. A document with a list under ``inputs`` is sent as it is."""
    request = Request(client, model, model_path(model, version, "/infer"), {})
    if isinstance(given.get("inputs"), list):
        request.document = given
        return request
    metadata: Document = client.get(model_path(model, version))
    specs = {spec["name"]: spec for spec in metadata["inputs"]}
    unknown = [name for name in given if name not in specs]
    if unknown:
        raise _usage(
            f"model '{model}' has no input '{unknown[0]}'",
            f"its inputs are {', '.join(specs)}",
            f"see them with: infer model metadata {model}",
        )
    request.document["inputs"] = [_encode(specs[name], value, request.tail) for name, value in given.items()]
    if any(BY_WIRE_NAME[output["datatype"]] in _BINARY_ONLY for output in metadata["outputs"]):
        request.document["parameters"] = {"binary_data_output": True}
    if request_id:
        request.document["id"] = request_id
    return request


def _encode(spec: Mapping[str, Any], value: Any, tail: list[memoryview]) -> Document:  # noqa: ANN401  JSON or array
    """One input of the request document; a binary one's bytes go to ``tail``."""
    datatype = BY_WIRE_NAME[spec["datatype"]]
    array = fit(to_array(spec["name"], datatype, value), spec["name"], spec["shape"])
    entry: Document = {"name": spec["name"], "shape": list(array.shape), "datatype": str(datatype)}
    if datatype in _BINARY_ONLY or array.size > _MOST_JSON_ELEMENTS:
        view = Tensor.from_numpy(array).view
        tail.append(view)
        entry["parameters"] = {"binary_data_size": view.nbytes}
    elif datatype is Datatype.BYTES:
        entry["data"] = [element.decode("utf-8", "replace") for element in array.ravel().tolist()]
    else:
        entry["data"] = array.ravel().tolist()
    return entry


def to_array(name: str, datatype: Datatype, value: Any) -> NDArray[Any]:  # noqa: ANN401  a JSON value or an array
    """The value as an array of the input's datatype; ClientError where it is not one."""
    try:
        if datatype is Datatype.BYTES:
            array = np.asarray(value, dtype=np.object_)
            elements = [item if isinstance(item, bytes) else str(item).encode() for item in array.ravel().tolist()]
            texts: NDArray[np.object_] = np.empty(len(elements), dtype=np.object_)
            texts[:] = elements
            return texts.reshape(array.shape)
        if isinstance(value, np.ndarray):
            return cast("NDArray[Any]", value).astype(datatype.numpy, casting="same_kind", copy=False)
        # The text of an integer is exact where a detour over float64 is not.
        array = np.asarray(value)
        if array.dtype.kind not in "biuf" or (array.dtype.kind == "f" and datatype.numpy.kind in "iu"):
            got = json.dumps(value)[:80]
            raise _usage(f"input '{name}' takes {datatype}", f"got {got}", "give values of that kind")
        return np.asarray(value, dtype=datatype.numpy)
    except (ValueError, TypeError, OverflowError) as error:
        raise _usage(f"input '{name}' takes {datatype}", str(error), "give values of that kind") from error


def fit(array: NDArray[Any], name: str, shape: Sequence[int]) -> NDArray[Any]:
    """The array in a shape that the model takes: as it is, with a batch of one, or a flat list folded.

    A shape that cannot be made to fit is refused with both shapes.
    """
    for candidate in (array.shape, (1, *array.shape)):
        if _fits(candidate, shape):
            return array.reshape(candidate)
    fixed = math.prod(size for size in shape if size >= 0)
    free = sum(size < 0 for size in shape)
    if array.ndim <= 1 and fixed and array.size % fixed == 0 and (free or array.size == fixed):
        # The first free dimension takes what is over, the others are 1.
        rest = iter([array.size // fixed] + [1] * free)
        return array.reshape([size if size >= 0 else next(rest) for size in shape])
    raise _usage(
        f"input '{name}' has the wrong shape",
        f"it takes {list(shape)} (-1 is any size), got {list(array.shape)}",
        "give as many values as the shape has elements",
    )


def _fits(given: Sequence[int], shape: Sequence[int]) -> bool:
    return len(given) == len(shape) and all(want in (-1, size) for want, size in zip(shape, given, strict=True))


@dataclass(frozen=True, slots=True)
class OutputTensor:
    """One output as it is shown."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    values: list[Any]
    """Flat, in row-major order; BYTES as text."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A model's answer."""

    head: Document
    tensors: tuple[OutputTensor, ...]
    took_s: float = field(default=0.0, compare=False)
    """Seconds from sending the request to the last byte of the answer."""

    def document(self) -> Document:
        """The answer as one JSON document, whichever way the tensors came."""
        outputs = [
            {"name": tensor.name, "datatype": tensor.datatype, "shape": list(tensor.shape), "data": tensor.values}
            for tensor in self.tensors
        ]
        return {**self.head, "outputs": outputs}

    def text(self) -> str:
        """The answer for a person: a line of facts and a line of values an output, long ones cut."""
        lines: list[str] = []
        for tensor in self.tensors:
            lines.append(f"{tensor.name}  {tensor.datatype} {list(tensor.shape)}")
            cut = len(tensor.values) > _SHOWN_ELEMENTS
            shown = json.dumps(tensor.values[:_SHOWN_ELEMENTS], ensure_ascii=False)
            lines.append(f"  {shown[:-1]}, …] ({len(tensor.values)} values; all with -o json)" if cut else f"  {shown}")
        return "\n".join(lines)


def read_answer(reply: Reply) -> Answer:
    """The tensors of a reply, JSON and binary ones."""
    try:
        length = int(reply.headers.get(_HEADER.lower(), len(reply.body)))
        head: Document = json.loads(reply.body[:length])
        rest = memoryview(reply.body)[length:]
        tensors: list[OutputTensor] = []
        for output in head.pop("outputs", []):
            size = output.get("parameters", {}).get("binary_data_size")
            if size is None:
                values = output["data"]
            else:
                values = _binary_values(output, rest[:size])
                rest = rest[size:]
            tensors.append(OutputTensor(output["name"], output["datatype"], tuple(output["shape"]), values))
    except (ValueError, KeyError, InferError) as error:
        raise ClientError("the answer cannot be read", str(error)) from error
    return Answer(head, tuple(tensors))


def _binary_values(output: Document, data: memoryview) -> list[Any]:
    array = Tensor(BY_WIRE_NAME[output["datatype"]], tuple(output["shape"]), data).as_numpy()
    if output["datatype"] == str(Datatype.BYTES):
        return [element.decode("utf-8", "replace") for element in array.ravel().tolist()]
    values: list[Any] = array.ravel().tolist()
    return values
