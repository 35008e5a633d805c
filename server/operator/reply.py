"""What resources share: a JSON document as the reply, and a JSON object from the request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import orjson

from ...backends.api.errors import InvalidArgument

if TYPE_CHECKING:
    import falcon


def send(resp: falcon.Response, document: object) -> None:
    """Reply with compact JSON."""
    resp.content_type = "application/json"
    resp.data = orjson.dumps(document)


def read_object(req: falcon.Request) -> dict[str, Any]:
    """The body's JSON object; an empty body is an empty one. Raises InvalidArgument for anything else."""
    body = req.bounded_stream.read()
    if not body:
        return {}
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InvalidArgument(f"failed to parse the request JSON buffer: {error}") from error
    if not isinstance(document, dict):
        raise InvalidArgument(f"expected a JSON object as the body, got {type(document).__name__}")
    return cast("dict[str, Any]", document)
