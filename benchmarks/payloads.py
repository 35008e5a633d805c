"""Request bodies of the inference protocol, made once: a JSON header and raw tensors behind it, or JSON alone."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass

from grpc_messages import Tensor, infer_request


@dataclass(frozen=True)
class Payload:
    """One request over HTTP: where it goes, its body, its headers, and shapes that perf_analyzer cannot know."""

    path: str
    body: bytes
    headers: dict[str, str]
    shapes: tuple[str, ...] = ()

    perf_analyzer_protocol = "http"

    @property
    def model(self) -> str:
        """The model's name."""
        return self.path.split("/")[3]


@dataclass(frozen=True)
class GrpcPayload:
    """One request over gRPC: a ModelInferRequest as bytes."""

    model: str
    message: bytes
    shapes: tuple[str, ...] = ()

    perf_analyzer_protocol = "grpc"


def simple() -> Payload:
    """Two INT32 [1,16] tensors as binary data, both outputs asked for as binary data."""
    return _binary("simple", _simple_tensors())


def simple_grpc(request_id: str = "") -> GrpcPayload:
    """The same over gRPC."""
    return GrpcPayload("simple", infer_request("simple", _simple_tensors(), request_id))


def floats(count: int, model: str = "identity_fp32", tensor: str = "INPUT0", rows: int = 1) -> Payload:
    """One FP32 [rows,count] tensor as binary data, for a model with that one input."""
    return _binary(model, _float_tensors(tensor, rows, count), (f"{tensor}:{count}",))


def floats_grpc(count: int, model: str = "identity_fp32", tensor: str = "INPUT0", rows: int = 1) -> GrpcPayload:
    """The same over gRPC."""
    message = infer_request(model, _float_tensors(tensor, rows, count))
    return GrpcPayload(model, message, (f"{tensor}:{count}",))


def integers_grpc(model: str, count: int, *, empty_final: bool = False) -> GrpcPayload:
    """One INT32 [count] tensor of the numbers from 0 on, named IN, over gRPC.

    With ``empty_final`` a last response is asked for also where it has no data.
    """
    tensors = [("IN", "INT32", [count], struct.pack(f"<{count}i", *range(count)))]
    return GrpcPayload(model, infer_request(model, tensors, empty_final=empty_final))


def json_floats(size: int) -> Payload:
    """One FP32 tensor in JSON text of about ``size`` bytes, for the model identity_fp32."""
    numbers = size // len("0.12345,")
    inputs = [{"name": "INPUT0", "datatype": "FP32", "shape": [1, numbers], "data": [0.12345] * numbers}]
    body = json.dumps({"inputs": inputs}, separators=(",", ":")).encode()
    return Payload("/v2/models/identity_fp32/infer", body, {"Content-Type": "application/json"})


def _simple_tensors() -> list[Tensor]:
    tensor = struct.pack("<16i", *range(16))
    return [("INPUT0", "INT32", [1, 16], tensor), ("INPUT1", "INT32", [1, 16], tensor)]


def _float_tensors(name: str, rows: int, count: int) -> list[Tensor]:
    return [(name, "FP32", [rows, count], struct.pack("<f", 1.5) * (rows * count))]


def _binary(model: str, tensors: list[Tensor], shapes: tuple[str, ...] = ()) -> Payload:
    inputs = [
        {"name": name, "datatype": datatype, "shape": shape, "parameters": {"binary_data_size": len(data)}}
        for name, datatype, shape, data in tensors
    ]
    document = {"inputs": inputs, "parameters": {"binary_data_output": True}}
    header = json.dumps(document, separators=(",", ":")).encode()
    headers = {"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": str(len(header))}
    return Payload(f"/v2/models/{model}/infer", header + b"".join(data for *_, data in tensors), headers, shapes)
