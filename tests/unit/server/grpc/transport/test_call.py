"""A call ends once: with its answer, with its deadline, or because its client has had enough."""

from __future__ import annotations

import gc
import struct
import weakref
from typing import TYPE_CHECKING

import pytest

from infer.server.grpc.transport import frames
from infer.server.grpc.transport.frames import ErrorCode
from infer.server.grpc.transport.status import StatusCode
from infer.tests.unit.server.grpc.transport.conftest import Peer, Served, grpc_message

if TYPE_CHECKING:
    from infer.server.grpc.transport.call import Call

CANCEL = struct.pack(">I", ErrorCode.CANCEL)


def hold(peer: Peer, served: Served, stream: int, *more: tuple[str, str]) -> Call:
    """Begin a call that the test answers."""
    peer.open(stream, "/t/Hold", *more)
    peer.message(stream, b"x", last=True)
    peer.settle()
    return served.held[-1]


@pytest.mark.parametrize("timeout", ["0n", "0H", "1n", "5m"])
@pytest.mark.parametrize("path", ["/t/Slow", "/t/Hold", "/t/Deaf"])
def test_a_call_whose_time_is_up_ends_and_its_handler_is_told(
    timeout: str, path: str, peer: Peer, served: Served
) -> None:
    answer = peer.call(1, b"x", path, ("grpc-timeout", timeout))
    assert (answer.status, answer.headers["grpc-message"]) == (4, "Deadline Exceeded")
    assert served.counts() == (1, 0)
    assert peer.call(3, b"next").message == b"next"


@pytest.mark.parametrize("timeout", ["99999999H", "99999999M", "10S"])
def test_a_call_with_much_time_is_answered_and_leaves_no_timer(timeout: str, peer: Peer, served: Served) -> None:
    call = hold(peer, served, 1, ("grpc-timeout", timeout))
    assert call._timer is not None
    served.on_loop(lambda: call.reply(b"y"))
    assert peer.answer(1).message == b"y"
    assert call._timer is None


def test_a_timeout_that_is_none_is_refused(peer: Peer) -> None:
    answer = peer.call(1, b"x", "/t/Echo", ("grpc-timeout", "soon"))
    assert (answer.status, answer.headers["grpc-message"]) == (13, "grpc-timeout 'soon' is no time")


def test_time_that_is_up_while_the_client_still_sends_ends_the_call(peer: Peer) -> None:
    peer.open(1, "/t/Echo", ("grpc-timeout", "5m"))
    peer.data(1, grpc_message(b"hello")[:7])
    answer = peer.answer(1)
    assert answer.status == 4
    assert peer.until(frames.RST_STREAM, 1).payload == struct.pack(">I", 0)
    peer.data(1, b"late", last=True)
    assert peer.call(3, b"next").message == b"next"


def test_a_client_that_cancels_before_the_answer_ends_the_work(peer: Peer, served: Served) -> None:
    call = hold(peer, served, 1)
    peer.frame(frames.RST_STREAM, 0, 1, CANCEL)
    peer.settle()
    assert served.cancelled == ["Hold"]
    assert call.over
    served.on_loop(lambda: (call.reply(b"late"), call.send(b"late"), call.end(), call.abort(StatusCode.INTERNAL, "")))
    assert peer.settle() == []


def test_a_client_that_cancels_after_the_answer_changes_nothing(peer: Peer, served: Served) -> None:
    call = hold(peer, served, 1)
    served.on_loop(lambda: call.reply(b"y"))
    peer.frame(frames.RST_STREAM, 0, 1, CANCEL)
    assert peer.answer(1).message == b"y"
    peer.settle()
    assert served.cancelled == []


def test_a_client_that_cancels_within_the_answer_ends_it(peer: Peer, served: Served) -> None:
    call = hold(peer, served, 1)
    served.on_loop(lambda: call.reply(bytes(100_000)))  # more than the window
    peer.until(frames.DATA, 1)
    assert not call.over
    peer.frame(frames.RST_STREAM, 0, 1, CANCEL)
    peer.settle()
    assert call.over
    assert served.counts() == (1, 0)
    peer.send(frames.window_update(1, 1 << 20))
    assert peer.settle() == []
    peer.send(frames.window_update(0, 1 << 20))
    assert peer.call(3, b"next").message == b"next"


def test_time_that_is_up_within_the_answer_drops_what_is_left_of_it(peer: Peer, served: Served) -> None:
    call = hold(peer, served, 1, ("grpc-timeout", "20S"))
    served.on_loop(lambda: (call.reply(bytes(100_000)), call._late()))
    answer = peer.answer(1)
    assert answer.status == 4
    assert len(answer.data) == frames.FIRST_WINDOW


def test_a_call_ends_once(peer: Peer, served: Served) -> None:
    call = hold(peer, served, 1)
    served.on_loop(lambda: (call.end(StatusCode.NOT_FOUND, "no"), call.end(), call.reply(b"y")))
    answer = peer.answer(1)
    assert (answer.status, answer.headers["grpc-message"], answer.data) == (5, "no", b"")
    assert peer.settle() == []


def test_messages_may_go_before_the_failure_of_a_call(peer: Peer, served: Served) -> None:
    call = hold(peer, served, 1)
    served.on_loop(lambda: (call.send(b"a"), call.send(b"b"), call.end(StatusCode.ABORTED, "enough")))
    answer = peer.answer(1)
    assert answer.data == grpc_message(b"a") + grpc_message(b"b")
    assert (answer.status, answer.headers["grpc-message"]) == (10, "enough")


def test_an_end_within_a_message_fails_the_call(peer: Peer) -> None:
    peer.open(1)
    peer.data(1, grpc_message(b"hello")[:-1], last=True)
    answer = peer.answer(1)
    assert (answer.status, answer.headers["grpc-message"]) == (13, "the client ended the call within a message")
    assert answer.reset is None


def test_a_cancel_that_fails_is_logged_and_the_others_are_still_told(
    peer: Peer, served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise ValueError("cancel")

    hold(peer, served, 1).on_cancel = fail
    hold(peer, served, 3)
    peer.frame(frames.SETTINGS, 0, 1)
    assert peer.is_closed()
    served.wait_until(lambda: served.cancelled == ["Hold"])
    assert "/t/Hold could not be cancelled" in caplog.text


class Handler:
    """Knows its call, as handlers do."""

    def __init__(self, call: Call) -> None:
        self.call = call
        call.on_message, call.on_cancel = self.take, self.cancel

    def take(self, _message: bytes | bytearray) -> None: ...

    def cancel(self) -> None: ...


@pytest.mark.parametrize("end", ["answer", "cancel", "time"])
def test_a_call_that_is_over_is_freed_at_once_with_its_handler(end: str, peer: Peer, served: Served) -> None:
    gc.disable()
    try:
        hold(peer, served, 1, ("grpc-timeout", "20S"))
        found = weakref.ref(Handler(served.held[0]))
        if end == "answer":
            served.on_loop(lambda: served.held.pop().reply(b"y"))
        elif end == "cancel":
            served.held.clear()
            peer.frame(frames.RST_STREAM, 0, 1, CANCEL)
        else:
            served.on_loop(lambda: served.held.pop()._late())
        peer.settle()
        assert found() is None
    finally:
        gc.enable()


def test_what_waits_is_counted_in_bytes_and_gives_room_when_half_of_it_is_read(served: Served, peer: Peer) -> None:
    call = hold(peer, served, 1)
    message = bytes(1 << 20)

    def run() -> list[bool]:
        found: list[bool] = []
        for change in [call.hold] * 4 + [call.release] * 3:
            change(message)
            found.append(call.wants_more)
        return found

    assert served.on_loop(run) == [True, True, True, False, False, False, True]
