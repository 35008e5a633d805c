"""The client of the operator's door turns every failure into a sentence and an exit code."""

from __future__ import annotations

import http.server
import socket
import threading
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from infer.tui.client import Client, Reply, control_path, error_text, model_path
from infer.tui.failure import ClientError, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers `/<status>` with that status and the body that the test has set."""

    body = b""
    headers_seen: ClassVar[dict[str, str]] = {}

    def do_GET(self) -> None:
        Handler.headers_seen = dict(self.headers)
        length = int(self.headers.get("Content-Length", 0))
        self.rfile.read(length)
        self.send_response(int(self.path.strip("/")))
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    do_POST = do_GET  # noqa: N815  the base class's way to name methods

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base class's name
        """Say nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.005})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()
    Handler.body = b""


def failure(client: Client, path: str) -> ClientError:
    with pytest.raises(ClientError) as caught:
        client.get(path)
    return caught.value


def test_a_document_is_what_the_server_sent(url: str) -> None:
    Handler.body = b'{"a": [1]}'
    assert Client(url).get("/200") == {"a": [1]}
    assert Client(url).post("/200", {"x": 1}) == {"a": [1]}
    assert Client(url.removeprefix("http://")).get("/200") == {"a": [1]}


def test_an_empty_body_is_an_empty_document(url: str) -> None:
    assert Client(url).post("/200") == {}


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (404, b'{"error":"no"}', Kind.NOT_FOUND),
        (403, b'{"error":"no"}', Kind.REFUSED),
        (401, b"", Kind.REFUSED),
        (503, b'{"error":"no"}', Kind.NOT_READY),
        (400, b'{"error":"requested model \'m\' is not available"}', Kind.NOT_FOUND),
        (400, b'{"error":"bad"}', Kind.FAILED),
        (500, b"{\"error\":\"failed to load 'm', failed to poll: no folder 'm' in\"}", Kind.NOT_FOUND),
        (500, b"broken", Kind.FAILED),
    ],
)
def test_an_error_status_is_an_exit_code_and_the_servers_sentence(
    url: str, status: int, body: bytes, kind: Kind
) -> None:
    Handler.body = body
    error = failure(Client(url), f"/{status}")
    assert error.kind is kind
    assert str(status) in error.what
    assert error.why == error_text(Reply(status, {}, body))


def test_what_is_not_json_is_shown(url: str) -> None:
    Handler.body = b"<html>"
    assert "<html>" in str(failure(Client(url), "/200"))


def test_nobody_there_is_a_connection_failure_with_the_way_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    error = failure(Client(f"http://127.0.0.1:{port}"), "/v2")
    assert error.kind is Kind.NO_CONNECTION
    assert "infer up" in error.fix


def test_a_server_that_hangs_up_is_a_connection_failure() -> None:
    def hang_up() -> None:
        listener.accept()[0].close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=hang_up)
        thread.start()
        error = failure(Client(f"http://127.0.0.1:{listener.getsockname()[1]}"), "/v2")
        thread.join()
    assert error.kind is Kind.NO_CONNECTION


def test_what_does_not_speak_http_is_not_repeated() -> None:
    def speak_otherwise() -> None:
        connection = listener.accept()[0]
        connection.recv(1000)
        connection.sendall(b"\x00\x00\x12\x04\x00\x1b[2J\n")
        connection.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=speak_otherwise)
        thread.start()
        error = failure(Client(f"http://127.0.0.1:{listener.getsockname()[1]}"), "/v2")
        thread.join()
    assert error.kind is Kind.NO_CONNECTION
    assert error.why.isprintable()


def test_a_server_that_says_nothing_is_not_ready() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        error = failure(Client(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=0.05), "/v2")
    assert error.kind is Kind.NOT_READY
    assert "0.05 seconds" in error.why


@pytest.mark.parametrize("address", ["ftp://h", "http://", "http://h:port", "http://h:99999", ""])
def test_what_is_no_address_is_a_usage_error(address: str) -> None:
    assert failure(Client(address), "/v2").kind is Kind.USAGE


def test_a_name_cannot_leave_its_place_in_the_path() -> None:
    assert model_path("a/../b c", "1?", "/ready") == "/v2/models/a%2F..%2Fb%20c/versions/1%3F/ready"
    assert control_path("a/b", "load") == "/v2/repository/models/a%2Fb/load"


@pytest.fixture
def socket_path(tmp_path: Path) -> Iterator[Path]:
    """A server on a Unix socket; its answers and what it was asked are those of Handler."""

    class UnixServer(http.server.ThreadingHTTPServer):
        address_family = socket.AF_UNIX

        def server_bind(self) -> None:
            self.socket.bind(self.server_address)  # type: ignore[arg-type]  the base class has TCP's addresses

        def get_request(self) -> tuple[socket.socket, Any]:
            return self.socket.accept()[0], ("", 0)

    path = tmp_path / "control.sock"
    server = UnixServer(str(path), Handler)  # type: ignore[arg-type]  likewise
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.005})
    thread.start()
    yield path
    server.shutdown()
    thread.join()
    server.server_close()
    Handler.body = b""


def test_a_unix_socket_is_as_good_as_an_address(socket_path: Path) -> None:
    Handler.body = b'{"a": 1}'
    client = Client(f"unix:{socket_path}")
    assert client.get("/200") == {"a": 1}
    assert client.post("/200", {}) == {"a": 1}
    assert failure(client, "/503").kind is Kind.NOT_READY


@pytest.mark.parametrize("name", ["missing.sock", "a" * 200])
def test_a_socket_that_is_not_there_is_a_connection_failure(tmp_path: Path, name: str) -> None:
    error = failure(Client(f"unix:{tmp_path / name}"), "/v2")
    assert error.kind is Kind.NO_CONNECTION
    assert name in error.what


def test_a_unix_socket_that_says_nothing_is_not_ready(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        error = failure(Client(f"unix:{tmp_path / 's'}", timeout=0.05), "/v2")
    assert error.kind is Kind.NOT_READY


def test_a_key_is_sent_as_a_bearer_and_shown_nowhere(url: str) -> None:
    Client(url).get("/200")
    assert "Authorization" not in Handler.headers_seen
    client = Client(url, key="s3cret")
    client.post("/200", {})
    assert Handler.headers_seen["Authorization"] == "Bearer s3cret"
    assert "s3cret" not in repr(client)
    assert "s3cret" not in str(failure(client, "/500"))


@pytest.mark.parametrize("key", ["two\nlines", "kä\u2713"])
def test_a_key_that_no_header_can_carry_is_a_usage_error(url: str, key: str) -> None:
    error = failure(Client(url, key=key), "/200")
    assert error.kind is Kind.USAGE
    assert key not in str(error)


def test_an_answer_that_is_no_longer_wanted_is_let_go_of() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = Client(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout=60)
        caught: list[ClientError] = []

        def ask() -> None:
            try:
                client.get("/")
            except ClientError as error:
                caught.append(error)

        asking = threading.Thread(target=ask)
        asking.start()
        connection, _ = silent.accept()
        with connection:
            connection.recv(1)
            client.interrupt()
            asking.join(30)
    assert caught[0].kind is Kind.NO_CONNECTION
    client.interrupt()
