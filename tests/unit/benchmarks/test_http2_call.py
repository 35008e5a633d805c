"""One gRPC call by hand, on a real gRPC server."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from http2_call import CallFailed, call, converse

if TYPE_CHECKING:
    from collections.abc import Iterator

grpc = pytest.importorskip("grpc")
COUNT = 3000
LARGE = bytes(600_000)


class Handlers(grpc.GenericRpcHandler):
    """`/echo` sends the request back, `/each` every one, `/many` COUNT numbered messages, `/refuse` an error."""

    def service(self, details: Any) -> Any:
        return {
            "/echo": grpc.unary_unary_rpc_method_handler(lambda request, _context: request),
            "/each": grpc.stream_stream_rpc_method_handler(lambda requests, _context: requests),
            "/many": grpc.stream_stream_rpc_method_handler(_many),
            "/refuse": grpc.unary_unary_rpc_method_handler(_refuse),
        }.get(details.method)


def _many(requests: Iterator[bytes], _context: Any) -> Iterator[bytes]:
    for request in requests:
        for index in range(COUNT):
            yield request + index.to_bytes(4, "big")


def _refuse(_request: bytes, context: Any) -> bytes:
    context.abort(grpc.StatusCode.NOT_FOUND, "there is nothing here")
    return b""


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Of a gRPC server that takes messages of any size."""
    with ThreadPoolExecutor(2) as pool:
        server = grpc.server(pool, [Handlers()], options=[("grpc.max_receive_message_length", -1)])
        found = server.add_insecure_port("127.0.0.1:0")
        server.start()
        yield found
        server.stop(None).wait()


def test_a_large_message_goes_there_and_back(port: int) -> None:
    reply = call(port, "/echo", LARGE)
    assert reply.messages == [LARGE]
    assert 0 < reply.first_s == reply.last_s


@pytest.mark.parametrize("pause_s", [0.0, 0.002])
def test_every_message_of_a_stream_comes_in_order(port: int, pause_s: float) -> None:
    reply = call(port, "/many", b"n", pause_s=pause_s)
    assert reply.messages == [b"n" + index.to_bytes(4, "big") for index in range(COUNT)]
    assert 0 < reply.first_s <= reply.last_s


@pytest.mark.parametrize("window", [1, 7, 10_000])
def test_of_many_messages_each_is_answered_however_many_are_under_way(port: int, window: int) -> None:
    messages = [index.to_bytes(4, "big") * 100 for index in range(500)]
    assert converse(port, "/each", messages, window=window).messages == messages


def test_messages_beyond_what_flow_control_allows_at_once_arrive(port: int) -> None:
    assert converse(port, "/each", [LARGE] * 3, window=3).messages == [LARGE] * 3


def test_an_error_is_an_answer_without_a_message(port: int) -> None:
    assert call(port, "/refuse", b"").messages == []
    assert call(port, "/nowhere", b"").messages == []


def test_a_server_that_hangs_up_is_said_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def hang_up() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(b"\0\0\0\4\0\0\0\0\0")

        thread = threading.Thread(target=hang_up)
        thread.start()
        with pytest.raises((CallFailed, ConnectionError)):
            call(listener.getsockname()[1], "/echo", b"")
        thread.join()


def test_a_call_that_is_reset_is_said_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def reset() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(b"\0\0\4\3\0\0\0\0\1" + (7).to_bytes(4, "big"))
                connection.recv(1 << 16)

        thread = threading.Thread(target=reset)
        thread.start()
        with pytest.raises(CallFailed, match="frame 3"):
            call(listener.getsockname()[1], "/echo", b"")
        thread.join()
