"""A connection greets, keeps itself alive, grows old and ends without losing what it has begun."""

from __future__ import annotations

import contextlib
import struct
from typing import TYPE_CHECKING

import pytest

from infer.server.grpc.transport import connection, frames, output
from infer.server.grpc.transport.frames import ErrorCode, Setting
from infer.server.grpc.transport.headers import literal
from infer.tests.unit.server.grpc.transport.conftest import END_HEADERS, END_STREAM, Frame, Peer, Served

if TYPE_CHECKING:
    from collections.abc import Callable

CANCEL = struct.pack(">I", ErrorCode.CANCEL)


def test_the_server_says_hello_first_and_acknowledges_settings(connect: Callable[..., Peer]) -> None:
    peer = connect(greet=False)
    settings = peer.next()
    assert (settings.kind, settings.flags, settings.stream) == (frames.SETTINGS, 0, 0)
    assert frames.read_settings(settings.payload)[Setting.MAX_CONCURRENT_STREAMS] == 4096
    assert peer.next() == Frame(frames.WINDOW_UPDATE, 0, 0, struct.pack(">I", 2**31 - 1 - 65_535))
    peer.send(frames.PREFACE + frames.settings_frame({}))
    assert peer.next() == Frame(frames.SETTINGS, frames.ACK, 0, b"")


def test_pings_are_answered(peer: Peer) -> None:
    peer.frame(frames.PING, 0, 0, b"12345678")
    assert peer.until(frames.PING) == Frame(frames.PING, frames.ACK, 0, b"12345678")


def test_pings_that_come_too_often_end_the_connection(serve: Callable[..., Served]) -> None:
    with Peer(serve(max_ping_strikes=2).port) as peer:
        peer.send(frames.ping(b"12345678") * 4)
        assert peer.closed_with() == (ErrorCode.ENHANCE_YOUR_CALM, "too_many_pings")


def test_pings_behind_answers_are_not_counted(serve: Callable[..., Served]) -> None:
    with Peer(serve(max_ping_strikes=1).port) as peer:
        for stream in range(1, 41, 2):
            assert peer.call(stream, b"x").status == 0
            peer.settle()


@pytest.mark.parametrize("said", [b"", frames.PREFACE[:10], frames.PREFACE])
def test_a_client_that_does_not_greet_in_time_is_sent_away(serve: Callable[..., Served], said: bytes) -> None:
    served = serve(preface_timeout_s=0.05)
    with Peer(served.port, greet=False) as peer:
        peer.send(said)
        assert peer.is_closed()


def test_another_protocol_is_answered_with_why(connect: Callable[..., Peer]) -> None:
    peer = connect(greet=False)
    peer.send(b"GET / HTTP/1.1\r\n\r\n")
    assert peer.closed_with() == (ErrorCode.PROTOCOL_ERROR, "this is no HTTP/2 client")


def test_a_client_that_does_not_answer_pings_is_given_up_and_its_call_cancelled(serve: Callable[..., Served]) -> None:
    served = serve(keepalive_time_s=0.02, keepalive_timeout_s=0.02)
    with Peer(served.port) as peer:
        peer.open(1, "/t/Slow")
        peer.message(1, b"x", last=True)
        assert peer.is_closed()
    served.wait_until(lambda: served.cancelled == ["Slow"])


def test_a_client_that_answers_pings_is_kept(serve: Callable[..., Served]) -> None:
    served = serve(keepalive_time_s=0.01, keepalive_timeout_s=5.0, max_pings_without_data=0)
    with Peer(served.port) as peer:
        peer.open(1, "/t/Slow")
        peer.message(1, b"x", last=True)
        for _ in range(5):
            peer.frame(frames.PING, frames.ACK, 0, peer.until(frames.PING).payload)
        assert served.counts() == (1, 1)


def leave(peer: Peer) -> None:
    """Notice that the connection is to end, as clients do."""
    last, code, _ = peer.goaway()
    assert (last, code) == (2**31 - 1, ErrorCode.NO_ERROR)
    peer.frame(frames.PING, frames.ACK, 0, peer.until(frames.PING).payload)


def test_a_connection_that_is_old_takes_the_calls_on_their_way_and_ends(serve: Callable[..., Served]) -> None:
    served = serve(max_age_s=0.05)
    with Peer(served.port) as peer:
        last, code, message = peer.goaway()
        assert (last, code, message) == (2**31 - 1, ErrorCode.NO_ERROR, "max_age")
        ping = peer.until(frames.PING)
        assert peer.call(1, b"on its way").message == b"on its way"
        peer.frame(frames.PING, frames.ACK, 0, ping.payload)
        assert peer.goaway() == (1, ErrorCode.NO_ERROR, "")
        assert peer.is_closed()


def test_calls_under_way_end_before_an_old_connection(serve: Callable[..., Served]) -> None:
    served = serve(max_age_s=0.05)
    with Peer(served.port) as peer:
        peer.open(1, "/t/Hold")
        peer.message(1, b"", last=True)
        leave(peer)
        assert peer.goaway()[0] == 1
        peer.open(3, "/t/Echo", ("enters", "the table"))
        peer.message(3, b"is left to another connection", last=True)
        assert not [found for found in peer.settle() if found.stream == 3]
        served.on_loop(lambda: served.held[0].reply(b"done"))
        assert peer.answer(1).message == b"done"
        assert peer.is_closed()
    assert served.cancelled == []


def test_the_grace_of_an_old_connection_ends_its_calls(serve: Callable[..., Served]) -> None:
    served = serve(max_age_s=0.3, max_age_grace_s=0.02)
    with Peer(served.port) as peer:
        peer.open(1, "/t/Hold")
        peer.message(1, b"", last=True)
        assert peer.is_closed()
    served.wait_until(lambda: served.cancelled == ["Hold"])


def test_a_client_that_does_not_notice_is_refused_after_a_while(
    serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_LAST_CALLS_S", 0.02)
    served = serve(max_age_s=0.02)
    with Peer(served.port) as peer:
        assert peer.goaway()[0] == 2**31 - 1
        assert peer.goaway()[0] == 0
        assert peer.is_closed()


def test_a_client_that_vanishes_cancels_its_calls(connect: Callable[..., Peer], served: Served) -> None:
    peer = connect()
    for stream, path in enumerate(("/t/Slow", "/t/Hold", "/t/Deaf")):
        peer.open(2 * stream + 1, path)
        peer.message(2 * stream + 1, b"x", last=True)
    peer.settle()
    peer.socket.close()
    served.wait_until(lambda: not served.server.connection_count)
    assert sorted(served.cancelled) == ["Hold", "Slow"]


def test_a_client_that_reads_no_answers_cannot_have_them_pile_up(
    connect: Callable[..., Peer], served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "MAX_UNREAD", 1 << 20)
    peer = connect(receive_buffer=4096)
    fields = [(b":method", b"POST"), (b":path", b"/" + b"x" * 4000), (b"content-type", b"application/grpc")]
    block = b"".join(literal(name, value) for name, value in fields)
    with contextlib.suppress(OSError):
        for stream in range(1, 1 << 20, 2):
            peer.frame(frames.HEADERS, END_HEADERS | END_STREAM, stream, block)
    served.wait_until(lambda: not served.server.connection_count)


def test_a_closed_connection_does_not_wait_long_for_its_client_to_read(
    connect: Callable[..., Peer], served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_LINGER_S", 0.05)
    peer = connect(receive_buffer=4096)
    peer.send(frames.window_update(0, 1 << 30) + frames.settings_frame({Setting.INITIAL_WINDOW_SIZE: 1 << 30}))
    peer.open(1, "/t/Count")
    peer.message(1, b"100 1000000", last=True)
    served.wait_until(lambda: len(served.taken) > 1)
    peer.frame(frames.SETTINGS, 0, 1)
    served.wait_until(lambda: not served.server.connection_count)
