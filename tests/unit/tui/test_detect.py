"""The sort of server is found at the address that the user names, and never behind the user's back."""

from __future__ import annotations

import http.server
import json
import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from infer.tui import detect as module
from infer.tui.client import Client
from infer.tui.detect import detect
from infer.tui.failure import ClientError, Kind
from infer.tui.source import ServerSource
from infer.tui.triton_source import TritonSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OURS = "/v2/operator/overview"
TRITON = {"/v2": {"name": "triton", "extensions": ["statistics"]}}


@contextmanager
def serving(answers: dict[str, Any], port: int = 0) -> Iterator[int]:
    """A server whose paths answer with documents (or text), and everything else with 404. Its port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = answers.get(self.path)
            body = answer.encode() if isinstance(answer, str) else json.dumps(answer or {"error": "no"}).encode()
            self.send_response(404 if answer is None else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base class's name
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.005})
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def serve() -> Iterator[Callable[..., int]]:
    """Starts servers that end with the test."""
    with ExitStack() as stack:
        yield lambda answers, port=0: stack.enter_context(serving(answers, port))


def at(port: int) -> Client:
    return Client(f"http://127.0.0.1:{port}", 5.0, "key")


def test_an_operators_door_is_a_server_of_ours(serve: Callable[..., int]) -> None:
    port = serve({OURS: {"schema": 1}})
    source = detect(at(port))
    assert isinstance(source, ServerSource)
    assert source.address == f"http://127.0.0.1:{port}"


def test_a_unix_socket_is_always_one_of_ours() -> None:
    assert isinstance(detect(Client("unix:/nowhere")), ServerSource)


def test_our_http_door_leads_to_the_operators_door_that_names_it(
    serve: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    http_port = serve(TRITON)
    operator = serve({OURS: {"schema": 1, "server": {"http": f"127.0.0.1:{http_port}"}}})
    monkeypatch.setattr(module, "OPERATOR_PORT", operator)
    source = detect(at(http_port))
    assert isinstance(source, ServerSource)
    assert source.address == f"http://127.0.0.1:{operator}"


def test_another_servers_operators_door_beside_a_triton_is_left_alone(
    serve: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "OPERATOR_PORT", serve({OURS: {"schema": 1, "server": {"http": "127.0.0.1:9"}}}))
    port = serve(TRITON)
    source = detect(at(port))
    assert isinstance(source, TritonSource)
    assert source.address == f"http://127.0.0.1:{port}"


def test_a_tritons_metrics_are_two_ports_above_unless_named(serve: Callable[..., int]) -> None:
    port = serve(TRITON)
    source, named = detect(at(port)), detect(at(port), "http://elsewhere:1")
    assert isinstance(source, TritonSource)
    assert isinstance(named, TritonSource)
    assert source._metrics is not None
    assert named._metrics is not None
    assert source._metrics.url == f"http://127.0.0.1:{port + 2}"
    assert named._metrics.url == "http://elsewhere:1"


def test_a_tritons_metrics_port_leads_to_its_http_port(
    serve: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    http_port, metrics = serve(TRITON), serve({OURS: "# HELP nv_inference_count\n"})
    monkeypatch.setattr(module, "_METRICS_BEHIND_HTTP", metrics - http_port)
    source = detect(at(metrics))
    assert isinstance(source, TritonSource)
    assert source.address == f"http://127.0.0.1:{http_port}"


def test_something_else_is_told_in_words(serve: Callable[..., int]) -> None:
    with pytest.raises(ClientError) as caught:
        detect(at(serve({"/v2": {"name": "x"}})))
    assert "no server that can be shown" in caught.value.what
    assert "8000" in caught.value.fix


def test_where_nobody_answers_nothing_else_is_tried() -> None:
    with pytest.raises(ClientError) as caught:
        detect(at(1))
    assert caught.value.kind is Kind.NO_CONNECTION
    assert ":1" in caught.value.what


@pytest.mark.parametrize("address", ["ftp://h", "http://", "http://h:port", ""])
def test_what_is_no_address_is_a_usage_error(address: str) -> None:
    with pytest.raises(ClientError) as caught:
        detect(Client(address))
    assert caught.value.kind is Kind.USAGE
