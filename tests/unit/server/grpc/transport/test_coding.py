"""Compressed messages keep their order and their bounds, wherever they are worked on."""

from __future__ import annotations

import gzip
import os
import struct
import zlib
from typing import TYPE_CHECKING, Any

import pytest

from infer.server.grpc.transport import coding, frames, framing
from infer.server.grpc.transport.coding import INLINE, Compression
from infer.server.grpc.transport.frames import ErrorCode, Setting
from infer.server.grpc.transport.status import StatusCode

if TYPE_CHECKING:
    from infer.server.grpc.transport.call import Call
    from infer.tests.unit.server.grpc.transport.conftest import Peer, Served

NOISE = os.urandom(3 * INLINE)
GZIP = ("grpc-encoding", "gzip")
WIDE = frames.window_update(0, 1 << 30) + frames.settings_frame({Setting.INITIAL_WINDOW_SIZE: 1 << 30})


def messages(data: bytes) -> list[tuple[int, bytes]]:
    """The flags and contents in the bytes of a stream."""
    found: list[tuple[int, bytes]] = []
    while data:
        flag, size = struct.unpack(">BI", data[:5])
        found.append((flag, data[5 : 5 + size]))
        data = data[5 + size :]
    return found


@pytest.mark.parametrize(("encoding", "compress"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
@pytest.mark.parametrize("message", [b"", b"small", NOISE, bytes(5 << 20)], ids=["empty", "small", "large", "zeros"])
def test_a_compressed_message_is_read(encoding: str, compress: Any, message: bytes, peer: Peer) -> None:
    peer.send(WIDE)
    peer.open(1, "/t/Echo", ("grpc-encoding", encoding))
    peer.message(1, compress(message), flag=1, last=True)
    assert peer.answer(1).message == message


def test_messages_large_and_small_compressed_and_plain_keep_their_order(peer: Peer, served: Served) -> None:
    peer.send(WIDE)
    peer.open(1, "/t/Stream", GZIP)
    sent = [b"first", NOISE, b"plain", b"small", NOISE[:-1], b"last"]
    for message in sent:
        plain = message == b"plain"
        peer.message(1, message if plain else gzip.compress(message), flag=0 if plain else 1)
    peer.data(1, b"", last=True)
    assert [data for _, data in messages(peer.answer(1).data)] == sent


@pytest.mark.parametrize(
    ("coded", "headers", "status", "words"),
    [
        (gzip.compress(b"x", mtime=0), [], 13, "grpc-encoding does not say how"),
        (gzip.compress(b"x", mtime=0), [("grpc-encoding", "identity")], 13, "grpc-encoding does not say how"),
        (b"x", [("grpc-encoding", "snappy")], 12, "messages compressed as 'snappy' cannot be read"),
        (b"no gzip", [GZIP], 13, "a message is not compressed as gzip"),
        (gzip.compress(NOISE)[:-20], [GZIP], 13, "ends too early"),
    ],
)
@pytest.mark.parametrize("path", ["/t/Echo", "/t/Stream"])
def test_a_message_that_cannot_be_decompressed_fails_its_call(
    coded: bytes, headers: list[tuple[str, str]], status: int, words: str, path: str, peer: Peer
) -> None:
    peer.open(1, path, *headers)
    peer.message(1, coded, flag=1)
    answer = peer.answer(1)
    assert answer.status == status
    assert words in answer.headers["grpc-message"]
    assert answer.headers["grpc-accept-encoding"] == "identity, deflate, gzip"
    assert peer.call(3, b"next").message == b"next"


def test_a_bomb_fails_its_call_alone(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing, "MAX_MESSAGE", 8 << 20)
    peer.open(1, "/t/Echo", GZIP)
    peer.message(1, gzip.compress(bytes(9 << 20)), flag=1, last=True)
    answer = peer.answer(1)
    assert (answer.status, "larger than 8388608 bytes" in answer.headers["grpc-message"]) == (8, True)
    assert peer.call(3, b"next").message == b"next"


def test_a_fault_while_decompressing_fails_the_call(
    peer: Peer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> bytes:
        raise MemoryError

    monkeypatch.setattr(framing, "inflate", fail)
    peer.open(1, "/t/Echo", GZIP)
    peer.message(1, NOISE, flag=1, last=True)
    assert peer.answer(1).status == 13
    assert "MemoryError" in caplog.text


def test_a_client_that_cancels_while_a_thread_decompresses_is_forgotten(peer: Peer, served: Served) -> None:
    peer.send(WIDE)
    peer.open(1, "/t/Stream", GZIP)
    peer.message(1, gzip.compress(bytes(30 << 20)), flag=1)
    peer.frame(frames.RST_STREAM, 0, 1, struct.pack(">I", ErrorCode.CANCEL))
    assert peer.settle()
    assert served.counts() == (1, 0)
    assert peer.call(3, b"next").message == b"next"
    assert served.taken == []


def test_messages_that_wait_for_a_thread_stop_their_client(peer: Peer, served: Served) -> None:
    peer.open(1, "/t/Deaf", GZIP)
    block = gzip.compress(NOISE)
    room = sent = 0
    while sent + len(block) + 5 <= (4 << 20) + room:
        peer.message(1, block, flag=1)
        sent += len(block) + 5
        found = peer.settle()
        room += sum(
            struct.unpack(">I", frame.payload)[0]
            for frame in found
            if frame.kind == frames.WINDOW_UPDATE and frame.stream == 1
        )
    assert sent < 12 << 20


def held(peer: Peer, served: Served, compression: Compression) -> Call:
    peer.send(WIDE)
    peer.open(1, "/t/Hold")
    peer.message(1, b"", last=True)
    peer.settle()
    served.on_loop(lambda: served.held[0].compress(compression))
    return served.held[0]


@pytest.mark.parametrize(("encoding", "decompress"), [("gzip", gzip.decompress), ("deflate", zlib.decompress)])
@pytest.mark.parametrize("message", [b"", b"small", NOISE], ids=["empty", "small", "large"])
def test_a_reply_is_compressed_and_says_how(
    encoding: str, decompress: Any, message: bytes, peer: Peer, served: Served
) -> None:
    call = held(peer, served, Compression(encoding, 1))
    served.on_loop(lambda: call.reply(message))
    answer = peer.answer(1)
    ((flag, data),) = messages(answer.data)
    assert (flag, decompress(data)) == (1, message)
    assert (answer.headers["grpc-encoding"], answer.status) == (encoding, 0)


def test_compressed_messages_and_the_end_keep_their_order(peer: Peer, served: Served) -> None:
    call = held(peer, served, Compression("gzip", 1))
    sent = [b"a", NOISE, b"b", NOISE[1:], b"c"]

    def run() -> int:
        for message in sent:
            call.send(message)
        call.end(StatusCode.ABORTED, "behind them")
        return call.queued

    assert served.on_loop(run) >= len(NOISE) * 2
    answer = peer.answer(1)
    assert [gzip.decompress(data) for _, data in messages(answer.data)] == sent
    assert (answer.status, answer.headers["grpc-message"]) == (10, "behind them")
    assert call.queued == 0


@pytest.mark.parametrize("how", ["cancel", "abort"])
def test_a_call_that_ends_while_a_thread_compresses_stays_ended(how: str, peer: Peer, served: Served) -> None:
    call = held(peer, served, Compression("deflate", 9))
    served.on_loop(lambda: call.reply(NOISE * 50))
    if how == "cancel":
        peer.frame(frames.RST_STREAM, 0, 1, struct.pack(">I", ErrorCode.CANCEL))
    else:
        served.on_loop(lambda: call.abort(StatusCode.DEADLINE_EXCEEDED, "late"))
        assert peer.answer(1).status == 4
    served.wait_until(lambda: call._deflating is not None and call._deflating._task is None)
    assert [found for found in peer.settle() if found.stream == 1] == []
    assert served.counts() == (1, 0)


def test_a_fault_while_compressing_fails_the_call(
    peer: Peer, served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> bytes:
        raise MemoryError

    call = held(peer, served, Compression("gzip", 1))
    monkeypatch.setattr(coding.framing, "deflate", fail)
    served.on_loop(lambda: call.reply(NOISE))
    assert peer.answer(1).status == 13
    assert "MemoryError" in caplog.text
