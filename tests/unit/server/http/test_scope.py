"""The application sees a request's target as it was sent."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import httptools
import pytest

from infer.server.http.incoming import Incoming
from infer.server.http.limits import Limits
from infer.server.http.scope import make_scope, split_target


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (b"/v2/models", b"/v2/models", b""),
        (b"/", b"/", b""),
        (b"/a%20b/c", b"/a%20b/c", b""),
        (b"/caf\xe9", b"/caf\xe9", b""),
        (b"/v2?x=1&y=%20", b"/v2", b"x=1&y=%20"),
        (b"/v2?", b"/v2", b""),
        (b"/v2#part", b"/v2", b""),
        (b"/v2?x=1#part", b"/v2", b"x=1"),
        (b"http://localhost:8000/v2?x=1", b"/v2", b"x=1"),
        (b"http://localhost", b"/", b""),
        (b"*", b"*", b""),
    ],
)
def test_a_target_is_split_into_path_and_query(target: bytes, path: bytes, query: bytes) -> None:
    assert split_target(target) == (path, query)


def test_a_target_that_is_none_is_the_parsers_error() -> None:
    with pytest.raises(httptools.HttpParserError):
        split_target(b"no target")


def test_a_scope_holds_what_asgi_asks_for() -> None:
    incoming = Incoming(Limits())
    incoming.on_message_begin()
    incoming.on_url(b"/v2/a%20b?x=1")
    incoming.on_header(b"Host", b"h")
    parser = SimpleNamespace(get_http_version=lambda: "1.1", get_method=lambda: b"POST")
    ends: Any = SimpleNamespace(server=("127.0.0.1", 8000), client=("127.0.0.1", 5), scheme="http")
    assert make_scope(incoming, parser, ends) == {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "server": ("127.0.0.1", 8000),
        "client": ("127.0.0.1", 5),
        "scheme": "http",
        "method": "POST",
        "root_path": "",
        "path": "/v2/a%20b",
        "raw_path": b"/v2/a%20b",
        "query_string": b"x=1",
        "headers": [(b"host", b"h")],
    }
