"""What ``infer call`` sends and shows: values fitted to a model's metadata, and the answer's tensors.

Small numbers travel as JSON, which ``--curl`` can show; large arrays and datatypes without a JSON form travel as
binary tensors.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ..backends.api.datatypes import BY_WIRE_NAME, Datatype
from ..backends.api.errors import InferError
from ..backends.api.tensor import Tensor
from .client import model_path
from .curl import infer_command
from .failure import ClientError
from .values import Document, fit, to_array, usage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from .client import Client, Reply

_HEADER = "Inference-Header-Content-Length"
_MOST_JSON_ELEMENTS = 1024
_SHOWN_ELEMENTS = 64
_BINARY_ONLY = (Datatype.FP16, Datatype.BF16)


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a call asks for besides its inputs.

    ``outputs`` are the ones wanted, none for all. ``shapes`` and ``datatypes`` by input name take the place of what the
    metadata says; with both for every input the metadata is not asked for.
    """

    request_id: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any])
    outputs: Sequence[str] = ()
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict[str, "Sequence[int]"])
    datatypes: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class InputTensor:
    """One input as it is sent."""

    name: str
    datatype: Datatype
    array: NDArray[Any]

    @property
    def view(self) -> memoryview:
        """The bytes of a binary tensor."""
        return Tensor.from_numpy(self.array).view

    def entry(self, tail: list[memoryview]) -> Document:
        """Its place in the request document; the bytes of a binary one go to ``tail``."""
        array, datatype = self.array, self.datatype
        entry: Document = {"name": self.name, "shape": list(array.shape), "datatype": str(datatype)}
        if datatype in _BINARY_ONLY or array.size > _MOST_JSON_ELEMENTS:
            tail.append(self.view)
            entry["parameters"] = {"binary_data_size": tail[-1].nbytes}
        elif datatype is Datatype.BYTES:
            entry["data"] = [element.decode("utf-8", "replace") for element in array.ravel().tolist()]
        else:
            entry["data"] = array.ravel().tolist()
        return entry


@dataclass(slots=True)
class Request:
    """A prepared request: the JSON document, the binary tensors that follow it, and all inputs as arrays."""

    client: Client
    model: str
    version: str
    document: Document
    wishes: Wishes = field(default_factory=Wishes)
    tensors: tuple[InputTensor, ...] = ()
    tail: list[memoryview] = field(default_factory=list[memoryview])

    @property
    def path(self) -> str:
        """Where it is sent."""
        return model_path(self.model, self.version, "/infer")

    def send(self) -> Answer:
        """Call the model. Raises ClientError with the server's sentence."""
        header = json.dumps(self.document).encode()
        headers = {"Content-Type": "application/octet-stream", _HEADER: str(len(header))} if self.tail else {}
        began = time.perf_counter()
        reply = self.client.request("POST", self.path, b"".join([header, *self.tail]), headers)
        took_s = time.perf_counter() - began
        if not reply.ok:
            failure = self.client.refusal(reply, self.path)
            if "decoupled" in failure.why:
                failure.fix = f"take its responses as they come: infer call {self.model} --stream …"
            raise failure
        return replace(read_answer(reply), took_s=took_s)

    def curl(self) -> str:
        """The command that does the same, or a sentence where binary tensors make it impossible."""
        if self.tail:
            return "# this request carries binary tensors, which a curl command line cannot hold"
        return infer_command(self.client.url, self.path, self.document)


def prepare(client: Client, model: str, version: str, given: Document, wishes: Wishes | str = "") -> Request:
    """Fit the values to the model's inputs. A document with a list under ``inputs`` is sent as it is.

    ``wishes`` may be the request's id alone.
    """
    asked = Wishes(wishes) if isinstance(wishes, str) else wishes
    request = Request(client, model, version, {}, asked)
    if isinstance(given.get("inputs"), list):
        request.document = given
        return request
    specs, binary = _specs(client, model, version, given, asked)
    request.tensors = tuple(_tensor(specs[name], value) for name, value in given.items())
    request.document["inputs"] = [tensor.entry(request.tail) for tensor in request.tensors]
    if asked.outputs:
        request.document["outputs"] = [{"name": name} for name in asked.outputs]
    parameters = {**asked.parameters, **({"binary_data_output": True} if binary else {})}
    if parameters:
        request.document["parameters"] = parameters
    if asked.request_id:
        request.document["id"] = asked.request_id
    return request


def _specs(
    client: Client, model: str, version: str, given: Document, wishes: Wishes
) -> tuple[dict[str, Document], bool]:
    """Name, datatype and shape of each input given, and whether an output has no form in JSON."""
    for name in (*wishes.shapes, *wishes.datatypes):
        if name not in given:
            raise usage(
                f"there is no input '{name}'", "--shape and --dtype are for inputs given with -i", "give it a value"
            )
    if all(name in wishes.shapes and name in wishes.datatypes for name in given):
        # Nobody has told what the outputs are, and everything has a binary form.
        return {name: _told(name, {}, wishes) for name in given}, True
    metadata: Document = client.get(model_path(model, version))
    specs = {spec["name"]: spec for spec in metadata["inputs"]}
    unknown = [name for name in given if name not in specs]
    if unknown:
        raise usage(
            f"model '{model}' has no input '{unknown[0]}'",
            f"its inputs are {', '.join(specs)}",
            f"see them with: infer model metadata {model}",
        )
    binary = any(BY_WIRE_NAME[output["datatype"]] in _BINARY_ONLY for output in metadata["outputs"])
    return {name: _told(name, specs[name], wishes) for name in given}, binary


def _told(name: str, spec: Document, wishes: Wishes) -> Document:
    """An input's spec, with what the caller says in place of what the model does."""
    datatype = wishes.datatypes.get(name) or spec["datatype"]
    if datatype not in BY_WIRE_NAME:
        raise usage(
            f"'{datatype}' is no datatype", f"they are {', '.join(BY_WIRE_NAME)}", "for example: --dtype X=FP32"
        )
    return {"name": name, "datatype": datatype, "shape": list(wishes.shapes.get(name) or spec["shape"])}


def _tensor(spec: Mapping[str, Any], value: Any) -> InputTensor:  # noqa: ANN401  JSON or array
    """One input, fitted."""
    datatype = BY_WIRE_NAME[spec["datatype"]]
    return InputTensor(
        spec["name"], datatype, fit(to_array(spec["name"], datatype, value), spec["name"], spec["shape"])
    )


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

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The outputs by name, as NumPy saves them: texts as bytes, BF16 as FP32."""
        return {tensor.name: _saved(tensor) for tensor in self.tensors}

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


def _saved(tensor: OutputTensor) -> NDArray[Any]:
    import numpy as np

    datatype = BY_WIRE_NAME[tensor.datatype]
    if datatype is Datatype.BYTES:
        return np.array([str(value).encode() for value in tensor.values], dtype=np.bytes_).reshape(tensor.shape)
    kind = np.dtype(np.float32) if datatype is Datatype.BF16 else datatype.numpy
    return np.asarray(tensor.values, dtype=kind).reshape(tensor.shape)


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
                values = binary_values(output["datatype"], output["shape"], rest[:size])
                rest = rest[size:]
            tensors.append(OutputTensor(output["name"], output["datatype"], tuple(output["shape"]), values))
    except (ValueError, KeyError, InferError) as error:
        raise ClientError("the answer cannot be read", str(error)) from error
    return Answer(head, tuple(tensors))


def binary_values(datatype: str, shape: Sequence[int], data: memoryview) -> list[Any]:
    """The values of a binary tensor, flat; BYTES as text. Raises InferError for bytes that do not fit."""
    array = Tensor(BY_WIRE_NAME[datatype], tuple(shape), data).as_numpy()
    if datatype == str(Datatype.BYTES):
        return [element.decode("utf-8", "replace") for element in array.ravel().tolist()]
    values: list[Any] = array.ravel().tolist()
    return values
