"""What goes out keeps to both windows and to the client's frame size, in order, and calls take turns."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import hpack
import pytest

from infer.server.grpc.transport import frames
from infer.server.grpc.transport.frames import Setting
from infer.tests.unit.server.grpc.transport.conftest import Peer, Served, grpc_message

if TYPE_CHECKING:
    from collections.abc import Callable


def answer(served: Served, place: int, message: bytes) -> None:
    served.on_loop(lambda: served.held[place].reply(message))


def hold(peer: Peer, *streams: int) -> None:
    for stream in streams:
        peer.open(stream, "/t/Hold")
        peer.message(stream, b"", last=True)
    peer.settle()


def data_of(peer: Peer, stream: int) -> bytes:
    """The data of a stream that the server sends before it has read what was sent so far."""
    return b"".join(found.payload for found in peer.settle() if found.kind == frames.DATA and found.stream == stream)


def test_a_large_answer_is_cut_into_the_frames_that_the_client_takes(peer: Peer, served: Served) -> None:
    peer.send(
        frames.settings_frame({Setting.INITIAL_WINDOW_SIZE: 1 << 20, Setting.MAX_FRAME_SIZE: 20_000})
        + frames.window_update(0, 1 << 20)
    )
    hold(peer, 1)
    message = bytes(range(256)) * 300
    answer(served, 0, message)
    found = [frame for frame in peer.settle() if frame.stream == 1]
    sizes = [len(frame.payload) for frame in found if frame.kind == frames.DATA]
    assert sizes == [20_000, 20_000, 20_000, 16_805]
    assert b"".join(frame.payload for frame in found if frame.kind == frames.DATA) == grpc_message(message)
    assert [frame.kind for frame in found] == [frames.HEADERS, *[frames.DATA] * 4, frames.HEADERS]


def test_an_answer_waits_for_the_window_of_its_stream(peer: Peer, served: Served) -> None:
    peer.send(frames.settings_frame({Setting.INITIAL_WINDOW_SIZE: 10}))
    hold(peer, 1, 3)
    answer(served, 0, b"x" * 20)
    assert data_of(peer, 1) == grpc_message(b"x" * 20)[:10]
    answer(served, 1, b"short")
    peer.send(frames.window_update(1, 14))
    assert data_of(peer, 1) == b"x" * 14
    peer.send(frames.window_update(1, 1))
    assert peer.answer(1).data == b"x"


@pytest.mark.parametrize("window", [1, 9, 10, 11, 25])
def test_messages_of_a_stream_go_by_parts_where_its_window_is_small(window: int, peer: Peer, served: Served) -> None:
    peer.send(frames.settings_frame({Setting.INITIAL_WINDOW_SIZE: window}))
    peer.open(1, "/t/Stream")
    messages = [b"first", b"", b"third"]
    for message in messages:
        peer.message(1, message)
    served.wait_until(lambda: served.taken == messages)
    whole = b"".join(map(grpc_message, messages))
    data = data_of(peer, 1)
    assert data == whole[:window]
    while len(data) < len(whole):
        peer.send(frames.window_update(1, 7))
        more = data_of(peer, 1)
        assert 0 < len(more) <= 7
        data += more
    assert data == whole


def test_answers_wait_for_the_window_of_the_connection(peer: Peer, served: Served) -> None:
    peer.send(frames.settings_frame({Setting.INITIAL_WINDOW_SIZE: 1 << 20}))
    hold(peer, 1, 3)
    answer(served, 0, bytes(70_000))
    assert len(data_of(peer, 1)) == frames.FIRST_WINDOW
    answer(served, 1, b"small")
    assert data_of(peer, 3) == b""
    peer.send(frames.window_update(0, 10_000))
    assert len(peer.answer(1).data) == 70_005 - frames.FIRST_WINDOW
    assert peer.answer(3).message == b"small"


def test_a_window_may_become_negative_by_settings(peer: Peer, served: Served) -> None:
    peer.send(frames.settings_frame({Setting.INITIAL_WINDOW_SIZE: 100}))
    hold(peer, 1)
    answer(served, 0, b"x" * 200)
    assert len(data_of(peer, 1)) == 100
    peer.send(frames.settings_frame({Setting.INITIAL_WINDOW_SIZE: 30}))
    peer.send(frames.window_update(1, 70))
    assert data_of(peer, 1) == b""
    peer.send(frames.window_update(1, 5))
    assert data_of(peer, 1) == b"x" * 5
    peer.send(frames.settings_frame({Setting.INITIAL_WINDOW_SIZE: 130}))
    assert len(peer.answer(1).data) == 100


def test_settings_are_acknowledged_before_they_are_used(peer: Peer, served: Served) -> None:
    peer.send(frames.settings_frame({Setting.INITIAL_WINDOW_SIZE: 0}))
    hold(peer, 1)
    answer(served, 0, b"x")
    assert data_of(peer, 1) == b""
    peer.send(frames.settings_frame({Setting.INITIAL_WINDOW_SIZE: 6}))
    kinds = [found.kind for found in peer.settle()]
    assert kinds == [frames.SETTINGS, frames.DATA, frames.HEADERS]


def test_calls_that_wait_take_turns(peer: Peer, served: Served) -> None:
    peer.send(frames.settings_frame({Setting.INITIAL_WINDOW_SIZE: 1 << 20}))
    hold(peer, 1, 3, 5)
    for place in range(3):
        answer(served, place, bytes(200_000))
    peer.settle()
    turns: list[int] = []
    for _ in range(6):
        peer.send(frames.window_update(0, 1000))
        turns.extend(found.stream for found in peer.settle() if found.kind == frames.DATA)
    assert turns in ([1, 3, 5] * 2, [3, 5, 1] * 2, [5, 1, 3] * 2)


def test_a_client_that_does_not_read_delays_nobody_else(connect: Callable[..., Peer], served: Served) -> None:
    stalled, other = connect(receive_buffer=4096), connect()
    stalled.send(frames.window_update(0, 1 << 30) + frames.settings_frame({Setting.INITIAL_WINDOW_SIZE: 1 << 30}))
    stalled.open(1, "/t/Count")
    stalled.message(1, b"1000 1000000", last=True)
    served.wait_until(lambda: len(served.taken) > 1)
    for stream in range(1, 101, 2):
        assert other.call(stream, b"x").message == b"x"
    # A handler waits once a megabyte of its own, and what the kernel and the transport take, is on its way.
    assert len(served.taken) < 20
    stalled.socket.close()
    served.wait_until(lambda: served.server.connection_count == 1)


def test_a_client_that_reads_slowly_gets_everything(connect: Callable[..., Peer], served: Served) -> None:
    peer = connect(receive_buffer=4096)
    peer.send(frames.window_update(0, 1 << 30) + frames.settings_frame({Setting.INITIAL_WINDOW_SIZE: 1 << 30}))
    peer.open(1, "/t/Count")
    peer.message(1, b"9 1000000", last=True)
    served.wait_until(lambda: len(served.taken) > 1)
    answer = peer.answer(1)
    assert len(answer.data) == 9 * 1_000_005
    assert answer.status == 0


@pytest.mark.parametrize("size", [0, 100, 4095])
def test_a_client_that_wants_a_small_table_is_told_that_none_is_used(size: int, peer: Peer, served: Served) -> None:
    peer.send(frames.settings_frame({Setting.HEADER_TABLE_SIZE: size}))
    peer.decoder.max_allowed_table_size = size
    assert peer.call(1, b"x").message == b"x"
    assert peer.call(3, b"x", "/t/Nowhere").status == 12
    assert peer.decoder.header_table_size == 0


def test_without_such_a_client_blocks_begin_with_their_fields(peer: Peer) -> None:
    peer.open(1, last=False)
    peer.message(1, b"x", last=True)
    block = peer.until(frames.HEADERS, 1).payload
    assert block[0] == 0x88
    assert dict(hpack.Decoder().decode(block, raw=True))[b":status"] == b"200"


@pytest.mark.parametrize("size", [0, 1, 16_379, 16_380, 16_384, 65_530, 65_536, 300_000])
def test_an_answer_of_any_size_arrives_whole(size: int, peer: Peer) -> None:
    peer.send(frames.window_update(0, 1 << 20) + frames.settings_frame({Setting.INITIAL_WINDOW_SIZE: 1 << 20}))
    message = struct.pack(">I", size) * (size // 4) + b"x" * (size % 4)
    assert peer.call(1, message).message == message
