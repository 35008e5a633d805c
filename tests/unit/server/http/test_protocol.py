"""A connection has limits and deadlines, and a client that goes away is noticed: raw sockets against a real door."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn
from uvicorn.config import Config
from uvicorn.server import ServerState

from infer.backends.api.datatypes import Datatype
from infer.backends.api.response import InferenceResponse
from infer.backends.api.tensor import Tensor
from infer.server.http.limits import Limits
from infer.server.http.protocol import DoorProtocol

if TYPE_CHECKING:
    from collections.abc import Callable

LIVE = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n"
ONE = {"inputs": [{"name": "INPUT0", "shape": [1], "datatype": "FP32", "data": [1]}]}


def post(path: str, body: bytes, *headers: bytes) -> bytes:
    lines = [f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}".encode(), *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


HELD = post("/v2/models/held/infer", json.dumps(ONE).encode())
ECHO = post("/v2/models/ident_FP32/infer", json.dumps(ONE).encode())


def read_to_end(connection: socket.socket) -> bytes:
    """Everything until the server closes; a reset counts as closed."""
    received = b""
    try:
        while data := connection.recv(65536):
            received += data
    except ConnectionResetError:
        pass
    return received


def read_response(connection: socket.socket) -> tuple[int, bytes]:
    """One response that has a content length."""
    received = b""
    while b"\r\n\r\n" not in received:
        data = connection.recv(1)
        assert data, received
        received += data
    head = received.lower()
    length = int(head.split(b"\r\ncontent-length: ")[1].split(b"\r\n")[0])
    body = b""
    while len(body) < length:
        body += connection.recv(length - len(body))
    return int(received.split(b" ")[1]), body


def answer(ticket: Any, value: bytes = b"\0\0\x80?") -> None:
    ticket.send(InferenceResponse({"OUTPUT0": Tensor(Datatype.FP32, (len(value) // 4,), value)}))


def test_the_protocol_is_written_against_this_minor_of_uvicorn() -> None:
    assert uvicorn.__version__.split(".")[:2] == ["0", "54"]


class TestDisconnect:
    """A client that goes away takes its requests with it."""

    @pytest.mark.parametrize("behind", [b"", LIVE, LIVE * 5, HELD, LIVE[:20], ECHO[:-5]])
    def test_the_request_that_executes_is_cancelled_whatever_waits_behind_it(self, door: Any, behind: bytes) -> None:
        connection = door.connect()
        connection.sendall(HELD + behind)
        door.wait_until(lambda: len(door.engine.held) == 1)
        connection.close()
        door.wait_until(lambda: door.engine.held[0].cancelled)
        door.assert_healthy()
        assert len(door.engine.held) == 1

    def test_a_reset_cancels_too(self, door: Any) -> None:
        connection = door.connect()
        connection.sendall(HELD)
        door.wait_until(lambda: len(door.engine.held) == 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
        door.wait_until(lambda: door.engine.held[0].cancelled)
        door.assert_healthy()

    def test_a_socket_closed_half_way_cancels_too(self, door: Any) -> None:
        connection = door.connect()
        connection.sendall(HELD)
        door.wait_until(lambda: len(door.engine.held) == 1)
        connection.shutdown(socket.SHUT_WR)
        door.wait_until(lambda: door.engine.held[0].cancelled)
        assert read_to_end(connection) == b""
        connection.close()
        door.assert_healthy()

    @pytest.mark.parametrize("sent", [b"", b"P", HELD[:30], HELD[:-10], b"\r\n"])
    def test_a_request_that_was_sent_in_part_leaves_nothing(self, door: Any, sent: bytes) -> None:
        connection = door.connect()
        connection.sendall(sent)
        connection.close()
        door.wait_until(lambda: door.service.connection_count == 0)
        assert door.engine.tickets == []
        door.assert_healthy()

    def test_an_answered_request_is_not_cancelled(self, door: Any) -> None:
        connection = door.connect()
        connection.sendall(HELD)
        door.wait_until(lambda: len(door.engine.held) == 1)
        door.on_loop(lambda: answer(door.engine.held[0]))
        assert read_response(connection)[0] == 200
        connection.close()
        door.assert_healthy()
        assert not door.engine.held[0].cancelled


class TestPipelining:
    """Requests sent ahead are answered one after the other, in order."""

    def test_answers_come_in_order(self, door: Any) -> None:
        with door.connect() as connection:
            connection.sendall(HELD + LIVE + ECHO + b"GET /v2/nope HTTP/1.1\r\n\r\n")
            door.wait_until(lambda: len(door.engine.held) == 1)
            door.on_loop(lambda: answer(door.engine.held[0]))
            statuses = [read_response(connection)[0] for _ in range(4)]
        assert statuses == [200, 200, 200, 404]
        door.assert_healthy()

    def test_more_than_may_wait_are_all_answered(self, make_door: Callable[..., Any]) -> None:
        door = make_door(max_pipelined=4)
        with door.connect() as connection:
            connection.sendall(HELD + LIVE * 200)
            door.wait_until(lambda: len(door.engine.held) == 1)
            door.on_loop(lambda: answer(door.engine.held[0]))
            assert [read_response(connection)[0] for _ in range(201)] == [200] * 201

    def test_what_is_refused_is_answered_behind_what_was_asked_before(self, door: Any) -> None:
        with door.connect() as connection:
            connection.sendall(HELD + LIVE + b"not http at all\r\n\r\n" + LIVE)
            door.wait_until(lambda: len(door.engine.held) == 1)
            door.on_loop(lambda: answer(door.engine.held[0]))
            assert [read_response(connection)[0] for _ in range(3)] == [200, 200, 400]
            assert read_to_end(connection) == b""
        door.assert_healthy()


class TestLimits:
    """What is too large is answered and not kept."""

    @pytest.mark.parametrize(
        "head",
        [
            b"GET /v2 HTTP/1.1\r\nX-Big: " + b"a" * 70_000 + b"\r\n\r\n",
            b"GET /v2/models/" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
            b"GET /v2 HTTP/1.1\r\n" + b"X: y\r\n" * 30_000 + b"\r\n",
            b"GET /v2 HTTP/1.1\r\nX-Big: " + b"a" * 200_000,
            post("/v2", b"x")[:-5] + b"\r\nX-Big: " + b"a" * 300_000,
        ],
        ids=["value", "path", "many", "unfinished", "behind a length"],
    )
    def test_a_header_over_its_limit_is_refused(self, door: Any, head: bytes) -> None:
        with door.connect() as connection:
            connection.sendall(head)
            status, body = read_response(connection)
            assert status == 431
            assert b"exceeds the maximum of 65536 bytes" in body
        door.assert_healthy()

    def test_a_header_of_200_megabytes_is_not_kept(self, door: Any) -> None:
        before = _resident_bytes()
        with door.connect() as connection:
            try:
                connection.sendall(b"GET /v2 HTTP/1.1\r\nX-Big: ")
                for _ in range(200):
                    connection.sendall(b"a" * (1 << 20))
            except (ConnectionResetError, BrokenPipeError):
                pass
            read_to_end(connection)
        assert _resident_bytes() - before < 50 << 20
        door.assert_healthy()

    def test_a_header_just_below_its_limit_is_taken(self, door: Any) -> None:
        with door.connect() as connection:
            connection.sendall(b"GET /v2/health/live HTTP/1.1\r\nX-Big: " + b"a" * 60_000 + b"\r\n\r\n")
            assert read_response(connection)[0] == 200

    @pytest.mark.parametrize("length", ["2147483648", "3221225472", "9" * 15])
    def test_a_length_over_an_int32_is_refused(self, door: Any, length: str) -> None:
        with door.connect() as connection:
            connection.sendall(f"POST /v2/models/simple/infer HTTP/1.1\r\nContent-Length: {length}\r\n\r\n".encode())
            status, body = read_response(connection)
            assert status == 400
            assert b"Unable to parse Content-Length, value is out of range" in body
        door.assert_healthy()

    def test_a_claim_of_two_gigabytes_costs_nothing(self, door: Any) -> None:
        before = _resident_bytes()
        with door.connect() as connection:
            connection.sendall(b"POST /v2/models/simple/infer HTTP/1.1\r\nContent-Length: 2147483647\r\n\r\nabc")
            door.wait_until(lambda: door.service.connection_count == 1)
            assert _resident_bytes() - before < 20 << 20
        door.assert_healthy()

    def test_a_body_over_the_limit_is_refused_before_it_is_sent(self, door: Any) -> None:
        with door.connect() as connection:
            connection.sendall(
                b"POST /v2/repository/index HTTP/1.1\r\nContent-Length: 67108865\r\nExpect: 100-continue\r\n\r\n"
            )
            status, body = read_response(connection)
        assert status == 400
        assert b"request JSON size of 67108865 bytes exceeds the maximum allowed input size of 67108864" in body

    @pytest.mark.parametrize(
        "sent",
        [b"\x16\x03\x01\x02\0", b"hello\r\n\r\n", b"GET\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
         b"POST /v2 HTTP/1.1\r\nContent-Length: x\r\n\r\n",
         b"POST /v2 HTTP/1.1\r\nContent-Length: " + b"9" * 40 + b"\r\n\r\n",
         b"POST /v2 HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
         b"POST /v2 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"],
    )  # fmt: skip
    def test_what_is_no_request_gets_a_json_error_and_the_end(self, door: Any, sent: bytes) -> None:
        with door.connect() as connection:
            connection.sendall(sent)
            status, body = read_response(connection)
            assert status == 400
            assert list(json.loads(body)) == ["error"]
            assert read_to_end(connection) == b""
        door.assert_healthy()


class TestChunks:
    """Chunked bodies, in as many chunks as Triton takes."""

    HEAD = (
        b"POST /v2/models/ident_UINT8/infer HTTP/1.1\r\n"
        b"Inference-Header-Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n"
    )

    def test_a_chunked_request_is_served(self, door: Any) -> None:
        with door.connect() as connection:
            connection.sendall(self.HEAD + b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: x\r\n\r\n" + LIVE)
            status, body = read_response(connection)
            assert (status, body[-5:]) == (200, b"abcde")
            assert read_response(connection)[0] == 200

    def test_65536_chunks_are_served(self, door: Any) -> None:
        with door.connect() as connection:
            connection.sendall(self.HEAD + b"1\r\na\r\n" * 65536 + b"0\r\n\r\n")
            status, body = read_response(connection)
            assert (status, body[-65536:]) == (200, b"a" * 65536)

    def test_one_more_is_refused(self, door: Any) -> None:
        with door.connect() as connection:
            connection.sendall(self.HEAD + b"1\r\na\r\n" * 65537 + b"0\r\n\r\n")
            status, body = read_response(connection)
            assert status == 400
            assert json.loads(body) == {"error": "Chunked request body exceeds maximum of 65536 non-empty chunks"}
            assert read_to_end(connection) == b""
        door.assert_healthy()

    @pytest.mark.parametrize("flood", [b"1;" + b"x" * 400_000, b"1\r\na\r\n0\r\nX: " + b"x" * 400_000])
    def test_extensions_and_trailers_are_limited(self, door: Any, flood: bytes) -> None:
        with door.connect() as connection:
            connection.sendall(self.HEAD + flood)
            assert read_response(connection)[0] == 431
        door.assert_healthy()

    def test_a_chunked_control_request_is_limited(self, make_door: Callable[..., Any]) -> None:
        door = make_door(max_input_size=1000)
        with door.connect() as connection:
            connection.sendall(
                b"POST /v2/repository/index HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n800\r\n" + b" " * 2048
            )
            status, body = read_response(connection)
        assert status == 400
        assert b"request JSON size of 2048 bytes exceeds" in body


class TestDeadlines:
    """Nothing waits for ever. The deadlines are short here, and the test waits for what they bring about."""

    @pytest.mark.parametrize("sent", [b"G", LIVE[:-2]])
    def test_a_header_that_does_not_arrive(self, make_door: Callable[..., Any], sent: bytes) -> None:
        door = make_door(header_timeout_s=0.05)
        with door.connect() as connection:
            connection.sendall(sent)
            status, body = read_response(connection)
            assert status == 408
            assert b"the request's header did not arrive within 0.05 s" in body
            assert read_to_end(connection) == b""

    @pytest.mark.parametrize("body", [b"", b"abc"])
    def test_a_body_that_does_not_arrive(self, make_door: Callable[..., Any], body: bytes) -> None:
        door = make_door(body_timeout_s=0.05)
        with door.connect() as connection:
            connection.sendall(b"POST /v2/models/simple/infer HTTP/1.1\r\nContent-Length: 1000\r\n\r\n" + body)
            assert read_response(connection)[0] == 408
        door.assert_healthy()

    def test_a_connection_that_idles_is_closed(self, make_door: Callable[..., Any]) -> None:
        door = make_door(keep_alive_timeout_s=0.05)
        with door.connect() as connection:
            assert read_to_end(connection) == b""
        with door.connect() as connection:
            connection.sendall(LIVE)
            assert read_response(connection)[0] == 200
            assert read_to_end(connection) == b""

    def test_a_request_that_executes_has_no_deadline_here(self, make_door: Callable[..., Any]) -> None:
        door = make_door(keep_alive_timeout_s=0.02, header_timeout_s=0.02, body_timeout_s=0.02, write_timeout_s=0.02)
        with door.connect() as connection, door.connect() as idle:
            connection.sendall(HELD)
            door.wait_until(lambda: len(door.engine.held) == 1)
            assert read_to_end(idle) == b""
            door.on_loop(lambda: answer(door.engine.held[0]))
            assert read_response(connection)[0] == 200

    def test_a_reader_that_stalls_is_cut_off_and_the_output_given_back(self, make_door: Callable[..., Any]) -> None:
        door = make_door(write_timeout_s=0.1)
        released: list[bool] = []
        with door.connect() as connection:
            connection.sendall(HELD)
            door.wait_until(lambda: len(door.engine.held) == 1)
            size = 64 << 20
            tensor = Tensor(Datatype.FP32, (size // 4,), bytes(size), release=lambda: released.append(True))
            door.on_loop(lambda: door.engine.held[0].send(InferenceResponse({"OUTPUT0": tensor})))
            door.wait_until(lambda: door.service.connection_count == 0)
        door.assert_healthy()
        assert released == [True]

    def test_a_slow_reader_that_keeps_reading_gets_everything(self, make_door: Callable[..., Any]) -> None:
        door = make_door(write_timeout_s=5)
        size = 16 << 20
        request = post("/v2/models/ident_UINT8/infer", bytes(size), b"Inference-Header-Content-Length: 0")
        with door.connect() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            connection.sendall(request)
            status, body = read_response(connection)
        assert (status, len(body) > size) == (200, True)


class TestRequests:
    """Odd but legal requests."""

    def test_http_1_0_is_served_and_closed(self, door: Any) -> None:
        with door.connect() as connection:
            connection.sendall(ECHO.replace(b"HTTP/1.1", b"HTTP/1.0"))
            received = read_to_end(connection)
        assert received.startswith(b"HTTP/1.1 200 ")
        assert b"connection: close" in received

    def test_connection_close_is_obeyed(self, door: Any) -> None:
        with door.connect() as connection:
            connection.sendall(LIVE.replace(b"Host: x", b"Connection: close"))
            assert b"connection: close" in read_to_end(connection)

    def test_expect_100_continue_is_answered_before_the_body(self, door: Any) -> None:
        head, _, body = ECHO.partition(b"\r\n\r\n")
        with door.connect() as connection:
            connection.sendall(head + b"\r\nExpect: 100-continue\r\n\r\n")
            assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
            connection.sendall(body)
            assert read_response(connection)[0] == 200

    def test_expect_100_continue_waits_its_turn(self, door: Any) -> None:
        head, _, body = ECHO.partition(b"\r\n\r\n")
        with door.connect() as connection:
            connection.sendall(HELD + head + b"\r\nExpect: 100-continue\r\n\r\n")
            door.wait_until(lambda: len(door.engine.held) == 1)
            door.on_loop(lambda: answer(door.engine.held[0]))
            assert read_response(connection)[0] == 200
            assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
            connection.sendall(body)
            assert read_response(connection)[0] == 200

    def test_an_upgrade_is_not_taken_up_but_answered(self, door: Any) -> None:
        with door.connect() as connection:
            connection.sendall(
                LIVE.replace(b"Host: x", b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA")
            )
            assert read_to_end(connection).startswith(b"HTTP/1.1 200 ")

    def test_an_absolute_url_is_taken(self, door: Any) -> None:
        with door.connect() as connection:
            connection.sendall(LIVE.replace(b"GET /", b"GET http://localhost:8000/"))
            assert read_response(connection)[0] == 200

    @pytest.mark.parametrize("size", [1, 7, 300])
    def test_a_request_may_come_in_any_pieces(self, door: Any, size: int) -> None:
        with door.connect() as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for start in range(0, len(ECHO), size):
                connection.sendall(ECHO[start : start + size])
            assert read_response(connection)[0] == 200

    def test_a_body_of_megabytes_arrives_whole(self, door: Any) -> None:
        size = 5 << 20
        raw = bytes(range(256)) * (size // 256)
        with door.connect() as connection:
            connection.sendall(post("/v2/models/ident_UINT8/infer", raw, b"Inference-Header-Content-Length: 0"))
            status, body = read_response(connection)
        assert status == 200
        assert body.endswith(raw)


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_a_large_body_lets_the_loop_turn_between_its_reads() -> None:
    calls: list[str] = []

    class Transport:
        def get_extra_info(self, name: str, default: Any = None) -> Any:
            return default

        def set_write_buffer_limits(self, high: int, low: int) -> None:
            assert (high, low) == (0, 0)

        def is_closing(self) -> bool:
            return False

        def pause_reading(self) -> None:
            calls.append("pause")

        def resume_reading(self) -> None:
            calls.append("resume")

    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError

    loop = asyncio.get_running_loop()
    config = Config(app, interface="asgi3", http=DoorProtocol, ws="none", lifespan="off", log_config=None)
    config.load()
    protocol = DoorProtocol(config, ServerState(), Limits(), loop)
    protocol.connection_made(Transport())  # type: ignore[arg-type]
    protocol.data_received(b"POST /v2/models/m/infer HTTP/1.1\r\nContent-Length: 2000000000\r\n\r\n")
    for _ in range(4):
        assert calls == []
        protocol.data_received(bytes(256_000))
    assert calls == ["pause"]
    await asyncio.sleep(0)
    assert calls == ["pause", "resume"]
    protocol.connection_lost(None)
