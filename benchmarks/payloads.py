"""Request bodies of the inference protocol, made once: a JSON header and raw tensors behind it, or JSON alone."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass


@dataclass(frozen=True)
class Payload:
    """One request: where it goes, its body, and its headers."""

    path: str
    body: bytes
    headers: dict[str, str]


def simple() -> Payload:
    """Two INT32 [1,16] tensors as binary data, both outputs asked for as binary data."""
    tensor = struct.pack("<16i", *range(16))
    return _binary("simple", [("INPUT0", "INT32", [1, 16], tensor), ("INPUT1", "INT32", [1, 16], tensor)])


def floats(count: int) -> Payload:
    """One FP32 [1,count] tensor as binary data, for the model identity_fp32."""
    tensor = struct.pack("<f", 1.5) * count
    return _binary("identity_fp32", [("INPUT0", "FP32", [1, count], tensor)])


def json_floats(size: int) -> Payload:
    """One FP32 tensor in JSON text of about ``size`` bytes, for the model identity_fp32."""
    numbers = size // len("0.12345,")
    inputs = [{"name": "INPUT0", "datatype": "FP32", "shape": [1, numbers], "data": [0.12345] * numbers}]
    body = json.dumps({"inputs": inputs}, separators=(",", ":")).encode()
    return Payload("/v2/models/identity_fp32/infer", body, {"Content-Type": "application/json"})


def _binary(model: str, tensors: list[tuple[str, str, list[int], bytes]]) -> Payload:
    inputs = [
        {"name": name, "datatype": datatype, "shape": shape, "parameters": {"binary_data_size": len(data)}}
        for name, datatype, shape, data in tensors
    ]
    document = {"inputs": inputs, "parameters": {"binary_data_output": True}}
    header = json.dumps(document, separators=(",", ":")).encode()
    headers = {"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": str(len(header))}
    return Payload(f"/v2/models/{model}/infer", header + b"".join(data for *_, data in tensors), headers)
