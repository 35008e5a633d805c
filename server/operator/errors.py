"""How a failure becomes a reply of the operator's door."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import orjson

from ...backends.api.errors import Code, InferError
from ..wire.status import STATUS

if TYPE_CHECKING:
    import falcon

_logger = logging.getLogger(__name__)


def write(resp: falcon.Response, status: int, message: str) -> None:
    """Make the reply a failure: a status and ``{"error": message}``."""
    resp.status = status
    resp.content_type = "application/json"
    resp.data = orjson.dumps({"error": message})


def on_infer_error(_req: falcon.Request, resp: falcon.Response, error: InferError, _params: dict[str, Any]) -> None:
    """A failure of ours has its status in the table."""
    write(resp, STATUS[error.code], error.message)


def on_http_error(
    _req: falcon.Request, resp: falcon.Response, error: falcon.HTTPError, _params: dict[str, Any]
) -> None:
    """What the framework refuses (no such path, wrong method, bad body) reads as in the rest of the protocol."""
    resp.set_headers(error.headers or {})
    write(resp, error.status_code, error.description or error.title.removeprefix(f"{error.status_code} "))


def on_other(req: falcon.Request, resp: falcon.Response, error: Exception, _params: dict[str, Any]) -> None:
    """The border: what nobody foresaw is the server's fault, goes to the log whole and to the client as a sentence."""
    _logger.error("%s %s failed", req.method, req.path, exc_info=error)
    write(resp, STATUS[Code.INTERNAL], f"internal error: {type(error).__name__}; the server's log has the details")
