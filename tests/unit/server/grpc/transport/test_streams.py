"""Streams begin, carry and end as RFC 9113 has it, and a client that breaks it loses its call or its connection."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pytest

from infer.server.grpc.transport import frames, streams
from infer.server.grpc.transport.frames import ErrorCode
from infer.server.grpc.transport.headers import literal
from infer.tests.unit.server.grpc.transport.conftest import END_HEADERS, END_STREAM, Peer, Served, grpc_message

if TYPE_CHECKING:
    from collections.abc import Callable

PROTOCOL, CLOSED, FLOW = ErrorCode.PROTOCOL_ERROR, ErrorCode.STREAM_CLOSED, ErrorCode.FLOW_CONTROL_ERROR


def test_a_call_is_answered_with_headers_a_message_and_trailers(peer: Peer) -> None:
    answer = peer.call(1, b"hello")
    assert answer.message == b"hello"
    assert answer.headers == {
        ":status": "200",
        "content-type": "application/grpc",
        "grpc-accept-encoding": "identity, deflate, gzip",
        "grpc-status": "0",
    }
    assert answer.reset is None


def test_a_header_block_may_come_in_many_frames_and_data_with_padding(peer: Peer) -> None:
    block = peer.block()
    peer.frame(frames.HEADERS, frames.PADDED | frames.HAS_PRIORITY, 1, b"\3\0\0\0\0\x10" + block[:5] + b"\0\0\0")
    peer.frame(frames.CONTINUATION, 0, 1, block[5:6])
    peer.frame(frames.CONTINUATION, END_HEADERS, 1, block[6:])
    for byte in grpc_message(b"padded"):
        peer.frame(frames.DATA, frames.PADDED, 1, bytes((4, byte, 0, 0, 0, 0)))
    peer.frame(frames.DATA, frames.PADDED | END_STREAM, 1, b"\2\0\0")
    assert peer.answer(1).message == b"padded"


def test_trailers_of_the_client_end_its_side(peer: Peer) -> None:
    peer.open(1)
    peer.message(1, b"hello")
    peer.frame(frames.HEADERS, END_HEADERS | END_STREAM, 1, peer.encoder.encode([("some", "trailer")]))
    assert peer.answer(1).message == b"hello"


def test_headers_in_the_middle_that_end_nothing_break_their_stream_alone(peer: Peer, served: Served) -> None:
    peer.open(1, "/t/Slow")
    peer.frame(frames.HEADERS, END_HEADERS, 1, peer.encoder.encode([("some", "trailer")]))
    assert peer.answer(1).reset == PROTOCOL
    assert peer.call(3, b"next").message == b"next"
    assert served.counts() == (1, 0)


def test_late_frames_of_a_call_that_is_over_are_read_past(peer: Peer) -> None:
    assert peer.call(1, b"x").status == 0
    peer.open(3, "/t/Nowhere")
    assert peer.answer(3).status == 12
    peer.message(3, b"late")
    peer.frame(frames.WINDOW_UPDATE, 0, 3, struct.pack(">I", 5))
    peer.frame(frames.RST_STREAM, 0, 3, struct.pack(">I", 8))
    # The table of HPACK is kept also by blocks that nobody wants.
    peer.frame(frames.HEADERS, END_HEADERS | END_STREAM, 3, peer.encoder.encode([("new", "entry")]))
    assert peer.call(5, b"y", "/t/Echo", ("new", "entry")).message == b"y"


def opened(stream: int, *more: bytes) -> Callable[[Peer], None]:
    def send(peer: Peer) -> None:
        peer.open(stream)
        for data in more:
            peer.send(data)

    return send


def half_closed(*more: bytes) -> Callable[[Peer], None]:
    def send(peer: Peer) -> None:
        peer.open(1, "/t/Hold")
        peer.message(1, b"", last=True)
        for data in more:
            peer.send(data)

    return send


RAW = b"".join(
    literal(name, value)
    for name, value in [(b":method", b"POST"), (b":path", b"/t/Slow"), (b"content-type", b"application/grpc")]
)
"""A request's block that leaves the table alone."""


@pytest.mark.parametrize(
    ("send", "code"),
    [
        (opened(0), PROTOCOL),
        (opened(2), PROTOCOL),
        (opened(5, frames.frame(frames.HEADERS, END_HEADERS, 3, RAW)), PROTOCOL),
        (opened(1, frames.frame(frames.HEADERS, END_HEADERS, 1, RAW)), PROTOCOL),
        (opened(3, frames.frame(frames.DATA, 0, 5, b"x")), PROTOCOL),
        (opened(3, frames.frame(frames.DATA, 0, 2, b"x")), PROTOCOL),
        (opened(3, frames.rst_stream(5, ErrorCode.CANCEL)), PROTOCOL),
        (opened(3, frames.rst_stream(0, ErrorCode.CANCEL)), PROTOCOL),
        (opened(3, frames.window_update(5, 1)), PROTOCOL),
        (opened(3, frames.window_update(0, 0)), PROTOCOL),
        (opened(3, frames.window_update(0, frames.WIDEST_WINDOW)), FLOW),
        (opened(3, frames.settings_frame({frames.Setting.INITIAL_WINDOW_SIZE: 2**31})), FLOW),
        (
            opened(
                3,
                frames.window_update(3, frames.WIDEST_WINDOW - frames.FIRST_WINDOW),
                frames.settings_frame({frames.Setting.INITIAL_WINDOW_SIZE: frames.FIRST_WINDOW + 1}),
            ),
            FLOW,
        ),
        (half_closed(frames.frame(frames.DATA, 0, 1, b"x")), CLOSED),
        (half_closed(frames.frame(frames.HEADERS, END_HEADERS | END_STREAM, 1, b"")), CLOSED),
        (opened(3, frames.frame(frames.HEADERS, END_HEADERS, 5, b"\xff\xff\xff\xff\xff\xff")), 9),
        (opened(3, frames.frame(frames.HEADERS, END_HEADERS, 5, b"\xfe" * 9)), 9),
    ],
)
def test_a_connection_that_breaks_the_protocol_is_told_why_and_closed(
    send: Callable[[Peer], None], code: int, connect: Callable[..., Peer], served: Served
) -> None:
    bystander, peer = connect(), connect()
    send(peer)
    assert peer.closed_with()[0] == code
    assert bystander.call(1, b"still here").message == b"still here"
    served.wait_until(lambda: served.server.connection_count == 1)
    assert served.counts() == (1, 0)


@pytest.mark.parametrize(("increment", "code"), [(0, PROTOCOL), (frames.WIDEST_WINDOW, FLOW)])
def test_a_window_that_cannot_grow_so_breaks_its_stream_alone(
    increment: int, code: int, peer: Peer, served: Served
) -> None:
    peer.open(1, "/t/Hold", last=False)
    peer.message(1, b"", last=True)
    peer.settle()
    peer.send(frames.window_update(1, increment))
    assert peer.answer(1).reset == code
    assert served.cancelled == ["Hold"]
    assert peer.call(3, b"next").message == b"next"


def test_a_client_that_sends_more_than_a_window_loses_its_connection(serve: Callable[..., Served]) -> None:
    served = serve(stream_window=100_000, max_frame=1 << 20)
    with Peer(served.port) as peer:
        peer.open(1, "/t/Deaf")
        peer.send(frames.frame_head(frames.DATA, 0, 1, 100_001))
        assert peer.closed_with() == (FLOW, "stream 1 sends more than it may")


def granted(found: list[Any], stream: int) -> int:
    """Bytes of room given to a stream."""
    return sum(
        struct.unpack(">I", frame.payload)[0]
        for frame in found
        if frame.kind == frames.WINDOW_UPDATE and frame.stream == stream
    )


def test_padding_counts_as_data(serve: Callable[..., Served]) -> None:
    served = serve(stream_window=1000)
    with Peer(served.port) as peer:
        peer.open(1, "/t/Deaf")
        room = 0
        for _ in range(4):
            peer.frame(frames.DATA, frames.PADDED, 1, bytes((249, 0)) + bytes(249))
            room += granted(peer.settle(), 1)
        assert room == 4 * 251


def test_a_handler_that_does_not_read_stops_its_client_and_nobody_else(peer: Peer) -> None:
    peer.open(1, "/t/Deaf")
    chunk = grpc_message(bytes(995))
    sent = room = 0
    window = 4 << 20
    while sent + 64_000 <= window + room:
        peer.data(1, chunk * 64)
        sent += 64_000
        room += granted(peer.settle(), 1)
    assert 4 << 20 < sent < 12 << 20
    assert peer.call(3, b"other").message == b"other"


def test_empty_messages_that_are_not_read_stop_their_client_too(peer: Peer) -> None:
    peer.open(1, "/t/Deaf")
    chunk = grpc_message(b"") * 3000
    for _ in range(100):
        peer.data(1, chunk)
    # Some room was given for the first of them.
    assert granted(peer.settle(), 1) == 0


def test_a_handler_that_reads_gives_room_again(peer: Peer, served: Served) -> None:
    peer.send(frames.window_update(0, 1 << 30) + frames.settings_frame({frames.Setting.INITIAL_WINDOW_SIZE: 1 << 30}))
    peer.open(1, "/t/Stream")
    chunk, sent, room = grpc_message(bytes(60_000)), 0, 0
    while sent < 20 << 20:
        assert sent <= room + (4 << 20)
        peer.data(1, chunk)
        sent += len(chunk)
        room += granted(peer.settle(), 1)
    peer.data(1, b"", last=True)
    assert peer.answer(1).status == 0
    assert sum(map(len, served.taken)) == sent // len(chunk) * 60_000


def test_more_calls_than_may_be_are_refused_until_one_ends(serve: Callable[..., Served]) -> None:
    served = serve(max_streams=2)
    with Peer(served.port) as peer:
        settings = frames.read_settings(peer.until(frames.SETTINGS).payload)
        assert settings[frames.Setting.MAX_CONCURRENT_STREAMS] == 2
        for stream in (1, 3):
            peer.open(stream, "/t/Hold")
            peer.message(stream, b"", last=True)
        peer.open(5, "/t/Echo", ("enters", "the table"), last=True)
        assert peer.answer(5).reset == ErrorCode.REFUSED_STREAM
        peer.frame(frames.RST_STREAM, 0, 3, struct.pack(">I", 8))
        assert peer.call(7, b"now", "/t/Echo", ("enters", "the table")).message == b"now"
        assert served.cancelled == ["Hold"]


def test_a_client_that_opens_and_resets_without_end_is_sent_away(peer: Peer, served: Served) -> None:
    burst = b"".join(
        frames.frame(frames.HEADERS, END_HEADERS, stream, RAW) + frames.rst_stream(stream, ErrorCode.CANCEL)
        for stream in range(1, 2 * (streams.MAX_RESETS + 10), 2)
    )
    peer.send(burst)
    assert peer.closed_with() == (ErrorCode.ENHANCE_YOUR_CALM, "too many streams are opened and reset")
    assert served.counts() == (0, 0)


def test_a_client_that_has_its_streams_broken_without_end_is_sent_away(peer: Peer) -> None:
    burst = b"".join(
        frames.frame(frames.HEADERS, END_HEADERS, stream, RAW) + frames.window_update(stream, 0)
        for stream in range(1, 2 * (streams.MAX_RESETS + 10), 2)
    )
    peer.send(burst)
    assert peer.closed_with()[0] == ErrorCode.ENHANCE_YOUR_CALM
