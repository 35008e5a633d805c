"""Handlers answer at once, by a coroutine or message by message, and what they raise is their call's alone."""

from __future__ import annotations

import struct

import pytest

from infer.server.grpc.transport import frames, streams
from infer.server.grpc.transport.frames import ErrorCode, Setting
from infer.server.grpc.transport.methods import MAX_UNSENT
from infer.server.grpc.transport.status import BROKEN
from infer.tests.unit.server.grpc.transport.conftest import Peer, Served, grpc_message

UNARY = ("/t/Echo", "/t/Slow")


@pytest.mark.parametrize("path", UNARY)
def test_a_unary_call_without_a_message_fails(path: str, peer: Peer) -> None:
    peer.open(1, path, last=True)
    answer = peer.answer(1)
    assert (answer.status, answer.headers["grpc-message"]) == (13, "a unary call has one message, and none came")
    peer.open(3, path)
    peer.data(3, b"", last=True)
    assert peer.answer(3).status == 13


@pytest.mark.parametrize("path", UNARY)
def test_a_unary_call_with_two_messages_fails(path: str, peer: Peer) -> None:
    peer.open(1, path)
    peer.data(1, grpc_message(b"one") + grpc_message(b"two"), last=True)
    answer = peer.answer(1)
    assert (answer.status, answer.headers["grpc-message"]) == (
        13,
        "a unary call has one message, and a second one came",
    )
    assert peer.call(3, b"next").message == b"next"


@pytest.mark.parametrize(
    ("path", "place"), [("/t/Break", "/t/Break"), ("/t/Fault", "/t/Fault"), ("/t/Open", "/t/Open")]
)
def test_what_a_handler_raises_fails_its_call_and_is_logged(
    path: str, place: str, peer: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    answer = peer.call(1, b"x", path)
    assert (answer.status, answer.headers["grpc-message"]) == (13, BROKEN)
    assert f"{place} failed" in caplog.text
    assert "ValueError" in caplog.text
    assert peer.call(3, b"next").message == b"next"


def test_an_abort_is_the_status_of_its_call(peer: Peer) -> None:
    answer = peer.call(1, b"x", "/t/Refuse")
    assert (answer.status, answer.headers["grpc-message"]) == (9, "not today: 50 %25 off, K%C3%A4se")


def test_a_stream_answers_each_message_as_it_comes(peer: Peer) -> None:
    peer.open(1, "/t/Stream")
    for message in (b"one", b"", b"three"):
        peer.message(1, message)
        assert peer.until(frames.DATA, 1).payload == grpc_message(message)
    peer.data(1, b"", last=True)
    assert peer.answer(1).status == 0


def test_a_stream_without_messages_ends_well(peer: Peer) -> None:
    peer.open(1, "/t/Stream", last=True)
    answer = peer.answer(1)
    assert (answer.status, answer.data) == (0, b"")


def test_a_coroutine_is_cancelled_with_its_call(peer: Peer, served: Served) -> None:
    peer.open(1, "/t/Slow")
    peer.message(1, b"x", last=True)
    peer.settle()
    peer.frame(frames.RST_STREAM, 0, 1, struct.pack(">I", ErrorCode.CANCEL))
    peer.settle()
    served.wait_until(lambda: served.cancelled == ["Slow"])


def test_a_call_that_ends_before_its_coroutine_begins_never_begins_it(peer: Peer, served: Served) -> None:
    peer.send(
        frames.frame(frames.HEADERS, frames.END_HEADERS, 1, peer.block("/t/Stream"))
        + frames.rst_stream(1, ErrorCode.CANCEL)
    )
    assert peer.call(3, b"next").message == b"next"
    assert served.taken == []


def test_a_coroutine_that_is_cancelled_by_another_ends_its_call(peer: Peer, served: Served) -> None:
    peer.open(1, "/t/Deaf")
    peer.settle()
    served.on_loop(next(iter(served.server._connections)).streams.calls[1].on_cancel)
    answer = peer.answer(1)
    assert (answer.status, answer.headers["grpc-message"]) == (1, "the call was cancelled")


@pytest.mark.parametrize("window", [frames.FIRST_WINDOW, 1 << 20])
def test_writing_waits_for_the_client(window: int, peer: Peer, served: Served) -> None:
    peer.send(frames.settings_frame({Setting.INITIAL_WINDOW_SIZE: window}))
    peer.open(1, "/t/Count")
    peer.message(1, b"100 100000", last=True)
    peer.settle()
    assert len(served.taken) < (MAX_UNSENT + window) // 100_000 + 2
    peer.send(frames.window_update(0, 1 << 30) + frames.window_update(1, 1 << 30))
    assert len(peer.answer(1).data) <= 100 * 100_005
    assert len(served.taken) == 100


def test_ten_thousand_calls_leave_nothing(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_RESETS", 10_000)
    paths = ("/t/Echo", "/t/Slow", "/t/Hold", "/t/Stream", "/t/Refuse", "/t/Nowhere", "/t/Count")
    with Peer(served.port) as peer:
        peer.send(frames.window_update(0, 1 << 30))
        cancelled = answered = 0
        for start in range(0, 10_000, 500):
            burst = bytearray()
            for number in range(start, start + 500):
                stream, path = 2 * number + 1, paths[number % len(paths)]
                more = [("grpc-timeout", f"{number % 7}S")] if number % 3 else []
                burst += frames.frame(frames.HEADERS, frames.END_HEADERS, stream, peer.block(path, *more))
                message = grpc_message(b"3 9000" if path == "/t/Count" else b"x")
                cut = number % len(message) if number % 5 == 0 else len(message)
                burst += frames.frame(frames.DATA, 0 if number % 5 == 0 else 1, stream, message[:cut])
                if number % 2 or path in {"/t/Slow", "/t/Hold"} or number % 5 == 0:
                    burst += frames.rst_stream(stream, ErrorCode.CANCEL)
                    cancelled += 1
            peer.send(bytes(burst))
            answered += sum(1 for found in peer.settle() if found.kind == frames.HEADERS)
        served.wait_until(lambda: not served.server.call_count)
        (connection,) = served.server._connections
        assert connection.output._blocked == {}
        assert cancelled > 5000
        assert answered > 3000
        served.held.clear()
    served.wait_until(lambda: not served.server.connection_count)
