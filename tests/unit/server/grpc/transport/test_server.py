"""The server listens, finds methods, speaks TLS, and stops without leaving anybody."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from typing import TYPE_CHECKING, Any

import pytest
import trustme

from infer.server.grpc.transport import frames
from infer.server.grpc.transport.frames import ErrorCode
from infer.tests.unit.server.grpc.transport.conftest import END_HEADERS, END_STREAM, Peer, Served

if TYPE_CHECKING:
    from collections.abc import Callable


def test_a_method_that_nobody_knows_is_unimplemented(peer: Peer) -> None:
    answer = peer.call(1, b"x", "/t/Nowhere")
    assert (answer.status, answer.headers["grpc-message"]) == (12, "Method not found: /t/Nowhere")
    assert answer.headers["grpc-accept-encoding"] == "identity, deflate, gzip"


@pytest.mark.parametrize("changed", [{"content_type": "text/html"}, {"method": "GET"}])
@pytest.mark.parametrize("last", [True, False])
def test_what_is_no_grpc_is_answered_with_415(changed: dict[str, str], last: bool, peer: Peer) -> None:
    flags = END_HEADERS | (END_STREAM if last else 0)
    peer.frame(frames.HEADERS, flags, 1, peer.block("/t/Echo", **changed))
    answer = peer.answer(1)
    assert answer.headers == {":status": "415"}
    assert peer.call(3, b"next").message == b"next"


def test_an_address_that_is_taken_is_an_error(served: Served) -> None:
    with pytest.raises(OSError, match="address already in use"):
        served.serving.run(served.server.start("127.0.0.1", served.port))


def test_a_server_that_stops_accepting_ends_idle_connections_and_lets_calls_end(
    connect: Callable[..., Peer], served: Served
) -> None:
    idle, busy, raw = connect(), connect(), connect(greet=False)
    busy.open(1, "/t/Hold")
    busy.message(1, b"", last=True)
    busy.settle()
    idle.settle()
    served.on_loop(served.server.stop_accepting)
    assert raw.is_closed()
    for peer in (idle, busy):
        assert peer.goaway() == (2**31 - 1, ErrorCode.NO_ERROR, "shutdown")
        peer.frame(frames.PING, frames.ACK, 0, peer.until(frames.PING).payload)
    assert idle.is_closed()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", served.port))
    assert busy.goaway()[0] == 1
    served.on_loop(lambda: served.held[0].reply(b"done"))
    assert busy.answer(1).message == b"done"
    assert busy.is_closed()


def stop(served: Served, grace_s: float) -> float:
    started = time.monotonic()
    served.serving.run(served.server.stop(grace_s))
    return time.monotonic() - started


def test_a_server_without_calls_stops_at_once(connect: Callable[..., Peer], served: Served) -> None:
    peers = [connect() for _ in range(3)]
    for peer in peers:
        peer.settle()
    assert stop(served, 30) < 5
    assert all(peer.is_closed() for peer in peers)
    assert served.counts() == (0, 0)


def test_a_server_that_stops_gives_its_calls_a_moment(peer: Peer, served: Served) -> None:
    peer.open(1, "/t/Hold")
    peer.message(1, b"", last=True)
    peer.settle()
    served.serving.loop.call_soon_threadsafe(
        lambda: served.serving.loop.call_later(0.05, lambda: served.held[0].reply(b"just"))
    )
    assert stop(served, 30) < 5
    assert peer.answer(1).message == b"just"


def test_calls_that_outlast_the_grace_are_cut(peer: Peer, served: Served) -> None:
    for stream, path in ((1, "/t/Slow"), (3, "/t/Hold"), (5, "/t/Deaf")):
        peer.open(stream, path)
        peer.message(stream, b"x", last=True)
    peer.settle()
    stop(served, 0.02)
    assert peer.is_closed()
    assert sorted(served.cancelled) == ["Hold", "Slow"]
    assert served.counts() == (0, 0)


def test_a_server_stops_while_a_client_does_not_read(connect: Callable[..., Peer], served: Served) -> None:
    peer = connect(receive_buffer=4096)
    peer.send(frames.window_update(0, 1 << 30) + frames.settings_frame({frames.Setting.INITIAL_WINDOW_SIZE: 1 << 30}))
    peer.open(1, "/t/Count")
    peer.message(1, b"1000 1000000", last=True)
    served.wait_until(lambda: len(served.taken) > 1)
    assert stop(served, 0.02) < 5
    assert served.counts() == (0, 0)


def test_stopping_twice_does_no_harm(served: Served) -> None:
    stop(served, 0)
    stop(served, 0)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def tls(serve: Callable[..., Served], authority: trustme.CA) -> Served:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    context.set_alpn_protocols(["h2"])
    return serve(context)


def test_a_call_passes_over_tls(tls: Served, authority: trustme.CA) -> None:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    context.set_alpn_protocols(["h2"])
    with Peer(tls.port, greet=False) as peer:
        secured: Any = context.wrap_socket(peer.socket, server_hostname="127.0.0.1")
        assert secured.selected_alpn_protocol() == "h2"
        peer.socket = secured
        peer.send(frames.PREFACE + frames.settings_frame({}))
        assert peer.call(1, b"secret").message == b"secret"


def test_a_server_stops_though_a_client_never_shakes_hands(tls: Served) -> None:
    with Peer(tls.port, greet=False) as peer:
        peer.send(b"\x16\x03\x01")
        # The kernel has accepted; the server has when another client is served.
        tls.serving.run(asyncio.sleep(0))
        assert stop(tls, 0.02) < 5
        assert tls.counts() == (0, 0)
