"""Refusals of requests that every door words alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...backends.api.errors import InvalidArgument, NotFound, Unavailable, Unsupported
from .binary import request_prefix

if TYPE_CHECKING:
    from ..engine import Engine
    from ..lifecycle.signature import ModelSignature


def unknown_region(region: object) -> NotFound:
    """Shared memory that no client has registered."""
    return NotFound(f"Unable to find shared memory region: '{region}'")


def unknown_datatype(signature: ModelSignature, request_id: str, name: str) -> InvalidArgument:
    """An input whose datatype is none."""
    spec = signature.inputs.get(name)
    expected = f"'{spec.datatype}'" if spec else "no such input"
    return InvalidArgument(
        f"{request_prefix(request_id)}inference input '{name}' data-type is '<invalid>', "
        f"but model '{signature.name}' expects {expected}"
    )


def duplicate(kind: str, name: str, request_id: str) -> InvalidArgument:
    """An input or output (``kind``) that a request names twice."""
    return InvalidArgument(f"{request_prefix(request_id)}{kind} '{name}' already exists in request")


def decoupled(route: str) -> Unsupported:
    """A decoupled model at a ``route`` that has room for one response."""
    return Unsupported(
        f"{route} doesn't support models with decoupled transaction policy; "
        "send the request with ModelStreamInfer of the gRPC end point"
    )


def check_not_exiting(engine: Engine) -> None:
    """Raises Unavailable while the server drains."""
    if engine.draining:
        msg = "Server exiting"
        raise Unavailable(msg)
