"""What the resources of the falcon app share: bodies, errors, and the version in a path."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import falcon
import orjson
from falcon.routing import BaseConverter

from ...backends.api.errors import InferError, InvalidArgument
from . import json_text
from .errors import error_body, status_of, too_large
from .json_codec import as_object

if TYPE_CHECKING:
    from falcon.asgi import Request, Response

MAX_INT64 = 2**63 - 1
_INT64_DIGITS = 20
_VERSION = re.compile("[0-9]+")


class Resource:
    """A resource that answers every method it does not have, OPTIONS included, with 405."""

    async def on_options(self, _req: Request, _resp: Response, **_names: str) -> None:
        """Triton serves no OPTIONS."""
        raise falcon.HTTPMethodNotAllowed([])


class NameConverter(BaseConverter):
    """A path segment that is not empty."""

    def convert(self, value: str) -> str | None:
        """The segment, or None for no match."""
        return value or None


class VersionConverter(BaseConverter):
    """A path segment of digits."""

    def convert(self, value: str) -> str | None:
        """The digits, or None for no match."""
        return value if _VERSION.fullmatch(value) else None


def read_version(text: str | None) -> int | None:
    """A version out of a path. Raises InvalidArgument for one over an int64."""
    if text is None:
        return None
    version = int(text.lstrip("0")[:_INT64_DIGITS] or "0")
    if version > MAX_INT64:
        msg = f"failed to get model version from specified version string '{text}': it is larger than {MAX_INT64}"
        raise InvalidArgument(msg)
    return version


def send_json(resp: Response, document: Any, status: int = 200) -> None:  # noqa: ANN401  JSON
    """Answer with a document."""
    resp.status = status
    resp.content_type = "application/json"
    resp.data = orjson.dumps(document)


def send_empty(resp: Response, content_type: str = "application/json") -> None:
    """Answer 200 with no body."""
    resp.status = 200
    resp.content_type = content_type
    resp.data = b""


def send_error(resp: Response, error: InferError) -> None:
    """Answer with a failure."""
    send_message(resp, status_of(error), str(error))


def send_message(resp: Response, status: int, message: str) -> None:
    """Answer with an error body."""
    resp.status = status
    resp.content_type = "application/json"
    resp.data = error_body(message)


async def read_document(req: Request, limit: int) -> dict[str, Any]:
    """The JSON object in the body, {} for an empty body or another kind of document.

    Raises Internal for what is not JSON, InvalidArgument for more than ``limit`` bytes or deep nesting.
    """
    body = await req.stream.read()
    if not body:
        return {}
    if len(body) > limit:
        raise InvalidArgument(too_large(len(body), limit))
    document = json_text.load(body)
    return as_object(document)
