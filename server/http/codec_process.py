"""The codec process: parses and prints large JSON where it cannot hold the serving loop.

It turns a JSON inference request into the equivalent binary one, and tensors into JSON arrays. One request after the
other, no state between them. It ends when its socket does. Started as ``infer _codec FD``.
"""

from __future__ import annotations

import signal
import socket
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from ...backends.api.datatypes import BY_WIRE_NAME
from ...backends.api.errors import Code, InferError
from ...backends.api.model_config import ModelConfig, TensorSpec
from ...backends.api.tensor import Tensor
from ..lifecycle.signature import ModelSignature
from . import json_codec, json_elements, json_text
from .codec_frames import HEADER, Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

Buffer = bytes | bytearray | memoryview
Meta = dict[str, Any]
Result = tuple[Meta, "Sequence[Any]"]


def main(fd: int) -> None:
    """Serve the socket with this descriptor until its other end closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with socket.socket(fileno=fd) as channel:
        while True:
            header = _read(channel, HEADER.size)
            if header is None:
                return
            request, kind, meta_size, size = HEADER.unpack(header)
            meta, payload = _read(channel, meta_size), _read(channel, size)
            if meta is None or payload is None:
                return
            _answer(channel, request, kind, orjson.loads(meta), memoryview(payload))


def _read(channel: socket.socket, size: int) -> bytearray | None:
    """Exactly ``size`` bytes, or None at the end of the stream."""
    data = bytearray(size)
    view = memoryview(data)
    while view.nbytes:
        count = channel.recv_into(view)
        if not count:
            return None
        view = view[count:]
    return data


def _answer(channel: socket.socket, request: int, kind: int, meta: Meta, payload: memoryview) -> None:
    try:
        result, parts = decode(meta, payload) if kind == Kind.DECODE else encode(meta, payload)
        answer = Kind.RESULT
    except InferError as exc:
        answer, result, parts = Kind.FAILURE, {"code": int(exc.code), "message": _printable(str(exc))}, ()
    except MemoryError:
        message = "not enough memory for this request's JSON; send its tensors in binary"
        answer, result, parts = Kind.FAILURE, {"code": int(Code.UNAVAILABLE), "message": message}, ()
    text = orjson.dumps(result)
    views = [memoryview(part).cast("B") for part in parts if memoryview(part).nbytes]
    channel.sendall(HEADER.pack(request, answer, len(text), sum(view.nbytes for view in views)))
    channel.sendall(text)
    for view in views:
        channel.sendall(view)


def _printable(message: str) -> str:
    return message.encode("utf-8", "replace").decode()


def decode(meta: Meta, text: memoryview) -> Result:
    """A JSON request as a binary one.

    ``meta`` holds ``model``, ``inputs`` (datatypes by name), ``limit`` and ``tail``, the number of binary bytes
    that follow the JSON and stay where they are. The result's ``positions`` and ``sizes`` name the inputs that were
    decoded; its bytes are the new JSON (``text`` bytes of it), then theirs. Raises InferError.
    """
    specs = tuple(TensorSpec(name, BY_WIRE_NAME[datatype], ()) for name, datatype in meta["inputs"].items())
    signature = ModelSignature(ModelConfig(meta["model"], inputs=specs))
    document = json_text.load(text)
    # Never touched, so never in memory: it only lets the sizes of the binary inputs be checked in their turn.
    tail = np.zeros(meta["tail"], dtype=np.uint8).data
    request = json_codec.read_request(document, tail, signature, None, meta["limit"]).request
    tensors = list(request.inputs.values())
    positions = [index for index, entry in enumerate(document["inputs"]) if "data" in entry]
    buffers = [tensors[index].view for index in positions]
    for index, buffer in zip(positions, buffers, strict=True):
        entry = document["inputs"][index]
        del entry["data"]
        entry["parameters"] = {"binary_data_size": buffer.nbytes}
    head = json_text.dump(document)
    return {"positions": positions, "sizes": [buffer.nbytes for buffer in buffers], "text": len(head)}, [head, *buffers]


def encode(meta: Meta, payload: memoryview) -> Result:
    """Tensors as JSON arrays. ``meta["outputs"]`` lists name, datatype and size of each. Raises InferError."""
    texts: list[bytes] = []
    start = 0
    for name, datatype, size in meta["outputs"]:
        tensor = Tensor(BY_WIRE_NAME[datatype], (-1,), payload[start : start + size])
        texts.append(json_elements.encode(tensor, name))
        start += size
    return {"sizes": [len(text) for text in texts]}, texts
