"""Large typed contents, turned into raw contents away from the loop.

protobuf and numpy take seconds for ten million elements. A pool thread makes of such a message the one that a client
would have sent with raw contents; whatever is wrong with it is left as it is, for the reader to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from ...backends.api import datatypes
from ...backends.api.errors import InvalidArgument
from . import contents
from .messages import message
from .wire_format import cut_request

if TYPE_CHECKING:
    import asyncio

HEAVY = 256 << 10
"""Bytes of a message, raw contents aside, above which reading it would hold the loop."""


def is_heavy(data: bytes | bytearray) -> bool:
    """Whether reading a ModelInferRequest would hold the loop."""
    if len(data) <= HEAVY:
        return False
    cut = cut_request(data)
    return cut is not None and len(cut.rest) > HEAVY


async def expanded(data: bytes | bytearray, loop: asyncio.AbstractEventLoop) -> bytes | bytearray:
    """The same request with raw contents."""
    return await loop.run_in_executor(None, as_raw, data)


def as_raw(data: bytes | bytearray) -> bytes | bytearray:
    """A ModelInferRequest whose contents are typed, with raw ones; any other as it came."""
    try:
        request = message("ModelInferRequest").FromString(bytes(data))
        raw = [
            contents.to_bytes(tensor.contents, datatypes.BY_WIRE_NAME[tensor.datatype], tensor.name, request.model_name)
            for tensor in request.inputs
        ]
    except (DecodeError, InvalidArgument, KeyError):
        return data
    if request.raw_input_contents or not all(tensor.HasField("contents") for tensor in request.inputs):
        return data
    for tensor in request.inputs:
        tensor.ClearField("contents")
    request.raw_input_contents.extend(raw)
    return request.SerializeToString()
