"""The ASGI scope of a request, which is how an application sees it.

uvicorn makes one too, but decodes the path; Triton matches it as it was sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import httptools

if TYPE_CHECKING:
    from .incoming import Incoming

_ASGI = {"version": "3.0", "spec_version": "2.3"}


class _Ends(Protocol):
    """The two ends of a connection."""

    server: tuple[str, int | None] | None
    client: tuple[str, int] | None
    scheme: Any


def split_target(url: bytes) -> tuple[bytes, bytes]:
    """Path and query of a request's target, origin, absolute or ``*``. Raises httptools.HttpParserInvalidURLError."""
    if url.startswith(b"/") and b"?" not in url and b"#" not in url:
        return url, b""
    if url == b"*":
        return b"*", b""
    parsed = httptools.parse_url(url)
    return parsed.path or b"/", parsed.query or b""


def make_scope(incoming: Incoming, parser: Any, ends: _Ends) -> dict[str, Any]:  # noqa: ANN401  httptools has no types
    """The scope of a request whose headers are there. Raises httptools.HttpParserInvalidURLError for its target."""
    path, query = split_target(incoming.url)
    return {
        "type": "http",
        "asgi": _ASGI,
        "http_version": parser.get_http_version(),
        "server": ends.server,
        "client": ends.client,
        "scheme": ends.scheme,
        "method": parser.get_method().decode("ascii"),
        "root_path": "",
        # Triton matches the path as it was sent, so %20 stays %20.
        "path": path.decode("latin-1"),
        "raw_path": path,
        "query_string": query,
        "headers": incoming.headers,
    }
