"""The door binds, says where, and stops without leaving anybody waiting."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any

import pytest

from infer.backends.api.errors import Unavailable
from infer.backends.api.response import InferenceResponse
from infer.server.http.service import HttpService, HttpSettings

if TYPE_CHECKING:
    from collections.abc import Callable

BODY = json.dumps({"inputs": [{"name": "INPUT0", "shape": [1], "datatype": "FP32", "data": [1]}]}).encode()
HELD = b"POST /v2/models/held/infer HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY


def test_a_port_that_is_taken_is_named_with_a_way_out(door: Any) -> None:
    port = door.address[1]
    taken = HttpService(door.engine, HttpSettings(host="127.0.0.1", port=port))
    with pytest.raises(Unavailable) as caught:
        door.serving.run(taken.start())
    assert str(caught.value) == (
        f"cannot listen on 127.0.0.1:{port} for HTTP: Address already in use; "
        "stop what uses it, or choose another with --http-port"
    )


def test_a_host_that_cannot_be_had_is_named(door: Any) -> None:
    with pytest.raises(Unavailable, match=r"cannot listen on 192\.0\.2\.1:0 for HTTP"):
        door.serving.run(HttpService(door.engine, HttpSettings(host="192.0.2.1", port=0)).start())


def test_a_host_name_is_resolved(make_door: Callable[..., Any]) -> None:
    assert make_door(host="localhost").call("GET", "/v2").status == 200


def test_two_doors_share_a_port_where_they_are_told_to(make_door: Callable[..., Any]) -> None:
    first = make_door(reuse_port=True)
    second = make_door(reuse_port=True, port=first.address[1])
    assert first.address == second.address


def test_an_ipv6_address_may_have_tritons_form(make_door: Callable[..., Any]) -> None:
    door = make_door(host="ipv6:[::1]")
    assert door.address[0] == "::1"
    assert door.call("GET", "/v2/health/live").status == 200


def test_the_address_is_unknown_before_the_start(door: Any) -> None:
    with pytest.raises(RuntimeError, match="has not been started"):
        _ = HttpService(door.engine, HttpSettings()).address


def test_accepted_sockets_send_at_once(door: Any) -> None:
    with door.connect():
        door.wait_until(lambda: door.service.connection_count == 1)
        (connection,) = door.service._state.connections
        accepted = connection.transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1


def test_a_stop_of_accepting_closes_what_idles_and_finishes_what_runs(door: Any) -> None:
    with door.connect() as busy, door.connect() as idle:
        busy.sendall(HELD)
        door.wait_until(lambda: len(door.engine.held) == 1 and door.service.connection_count == 2)
        door.serving.run(door.service.stop_accepting())
        assert idle.recv(10) == b""
        with pytest.raises(ConnectionRefusedError):
            door.connect()
        door.on_loop(lambda: door.engine.held[0].send(InferenceResponse()))
        received = b""
        while data := busy.recv(65536):
            received += data
        assert received.startswith(b"HTTP/1.1 200 ")
        assert b"connection: close" in received
    door.wait_until(lambda: door.service.connection_count == 0)


def test_a_stop_cuts_off_what_does_not_end_and_cancels_it(make_door: Callable[..., Any]) -> None:
    door = make_door(stop_grace_s=0.01)
    with door.connect() as busy, door.connect() as half:
        busy.sendall(HELD)
        half.sendall(HELD[:40])
        door.wait_until(lambda: len(door.engine.held) == 1 and door.service.connection_count == 2)
        door.serving.run(door.service.stop())
        assert door.engine.held[0].cancelled
        assert door.service.connection_count == 0
    door.serving.run(door.service.stop())


def test_an_answer_that_comes_in_time_is_still_written(make_door: Callable[..., Any]) -> None:
    door = make_door(stop_grace_s=20)
    with door.connect() as busy:
        busy.sendall(HELD)
        door.wait_until(lambda: len(door.engine.held) == 1)
        door.on_loop(lambda: door.serving.loop.call_later(0.02, door.engine.held[0].send, InferenceResponse()))
        door.serving.run(door.service.stop())
        assert busy.recv(20).startswith(b"HTTP/1.1 200 ")
