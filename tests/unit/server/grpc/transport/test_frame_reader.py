"""What a client sends gives the same frames however it is divided, and what breaks HTTP/2 is refused."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer.server.grpc.transport import frame_reader, frames
from infer.server.grpc.transport.frame_reader import FrameReader
from infer.server.grpc.transport.frames import ErrorCode, ProtocolViolation, frame

HELLO = frames.PREFACE + frames.settings_frame({})
HEADERS_END = frames.END_HEADERS | frames.END_STREAM
MAX_FRAME = 1 << 20


class Sink:
    """Writes down what it is told; the parts of one DATA frame in one."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []

    def headers(self, stream_id: int, block: bytes, *, last: bool) -> None:
        self.events.append(("headers", stream_id, block, last))

    def flow(self, stream_id: int, size: int) -> None:
        self.events.append(("flow", stream_id, size))

    def data(self, stream_id: int, data: bytes, start: int, stop: int) -> None:
        last = self.events[-1]
        if last[0] == "data":
            assert last[1] == stream_id
            self.events[-1] = (*last[:2], last[2] + data[start:stop])
        else:
            self.events.append(("data", stream_id, data[start:stop]))

    def half_close(self, stream_id: int) -> None:
        self.events.append(("half_close", stream_id))

    def reset(self, stream_id: int) -> None:
        self.events.append(("reset", stream_id))

    def window(self, stream_id: int, increment: int) -> None:
        self.events.append(("window", stream_id, increment))

    def settings(self, values: dict[int, int]) -> None:
        self.events.append(("settings", values))

    def ping(self, payload: bytes) -> None:
        self.events.append(("ping", payload))

    def pong(self, payload: bytes) -> None:
        self.events.append(("pong", payload))


def feed(*pieces: bytes) -> list[tuple[Any, ...]]:
    sink = Sink()
    reader = FrameReader(sink, sink, MAX_FRAME)
    for piece in pieces:
        reader.feed(piece)
    return sink.events


def block_frames(stream: int, parts: list[bytes], *, last: bool) -> bytes:
    """A header block in one HEADERS frame and as many CONTINUATION frames as it takes."""
    end = frames.END_STREAM if last else 0
    kinds = [frames.HEADERS] + [frames.CONTINUATION] * (len(parts) - 1)
    flags = [end if not place else 0 for place in range(len(parts))]
    flags[-1] |= frames.END_HEADERS
    return b"".join(frame(*row) for row in zip(kinds, flags, [stream] * len(parts), parts, strict=True))


def data_frame(stream: int, content: bytes, padding: int | None, *, last: bool) -> bytes:
    flags = frames.END_STREAM if last else 0
    if padding is None:
        return frame(frames.DATA, flags, stream, content)
    return frame(frames.DATA, flags | frames.PADDED, stream, bytes((padding,)) + content + bytes(padding))


STREAMS = st.integers(1, 9)
FRAMES = st.one_of(
    st.builds(block_frames, STREAMS, st.lists(st.binary(max_size=20), min_size=1, max_size=4), last=st.booleans()),
    st.builds(data_frame, STREAMS, st.binary(max_size=40), st.none() | st.integers(0, 30), last=st.booleans()),
    st.builds(lambda stream: frames.rst_stream(stream, ErrorCode.CANCEL), STREAMS),
    st.builds(frames.window_update, st.integers(0, 9), st.integers(0, 2**31 - 1)),
    st.builds(lambda payload, ack: frames.ping(payload, ack=ack), st.binary(min_size=8, max_size=8), st.booleans()),
    st.builds(lambda: frames.settings_frame({frames.Setting.MAX_FRAME_SIZE: 20_000})),
    st.builds(lambda payload: frame(0xEE, 0xFF, 3, payload), st.binary(max_size=20)),
    st.builds(lambda: frame(frames.PRIORITY, 0, 3, b"12345")),
    st.builds(lambda: frames.goaway(0, ErrorCode.NO_ERROR, "bye")),
)


@given(st.lists(FRAMES, max_size=8), st.lists(st.integers(0, 600), max_size=15))
def test_every_way_of_dividing_the_bytes_gives_the_same_frames(sent: list[bytes], cuts: list[int]) -> None:
    data = HELLO + b"".join(sent)
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [data[start:stop] for start, stop in itertools.pairwise(places)]
    whole = feed(data)
    assert feed(*pieces) == whole
    assert feed(*(data[place : place + 1] for place in range(len(data)))) == whole


def test_each_kind_of_frame_reaches_its_place() -> None:
    assert feed(
        HELLO
        + block_frames(1, [b"ab", b"", b"c"], last=True)
        + data_frame(3, b"hello", 4, last=True)
        + data_frame(5, b"", None, last=True)
        + data_frame(7, b"", 9, last=False)
        + frames.rst_stream(9, ErrorCode.CANCEL)
        + frames.window_update(0, 77)
        + frames.ping(b"12345678")
        + frames.ping(b"87654321", ack=True)
        + frame(frames.SETTINGS, frames.ACK, 0)
    ) == [
        ("settings", {}),
        ("headers", 1, b"abc", True),
        ("flow", 3, 10),
        ("data", 3, b"hello"),
        ("half_close", 3),
        ("flow", 5, 0),
        ("half_close", 5),
        ("flow", 7, 10),
        ("reset", 9),
        ("window", 0, 77),
        ("ping", b"12345678"),
        ("pong", b"87654321"),
    ]


def test_a_client_has_greeted_when_its_preface_and_its_settings_are_there() -> None:
    sink = Sink()
    reader = FrameReader(sink, sink, MAX_FRAME)
    for byte in HELLO[:-1]:
        assert not reader.greeted
        reader.feed(bytes((byte,)))
    reader.feed(HELLO[-1:])
    assert reader.greeted
    assert sink.events == [("settings", {})]


@pytest.mark.parametrize(
    "said",
    [b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSMx", b"\x16\x03\x01", frames.PREFACE[:-1] + b"x", b"X"],
)
def test_another_protocol_is_refused_at_its_first_wrong_byte(said: bytes) -> None:
    with pytest.raises(ProtocolViolation, match="this is no HTTP/2 client"):
        feed(said)


@pytest.mark.parametrize(
    "first", [frames.ping(b"12345678"), frame(frames.SETTINGS, frames.ACK, 0), data_frame(1, b"", None, last=True)]
)
def test_the_first_frame_is_settings(first: bytes) -> None:
    with pytest.raises(ProtocolViolation, match="the first frame is not SETTINGS"):
        feed(frames.PREFACE + first)


SIZE, PROTOCOL, CALM = ErrorCode.FRAME_SIZE_ERROR, ErrorCode.PROTOCOL_ERROR, ErrorCode.ENHANCE_YOUR_CALM
OPEN_BLOCK = frame(frames.HEADERS, 0, 1, b"a")
TOO_LARGE = frame_reader.MAX_CONTROL + 1


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (frame(frames.DATA, 0, 0, b"x"), PROTOCOL),
        (frames.frame_head(frames.DATA, 0, 1, MAX_FRAME + 1), SIZE),
        (frame(frames.DATA, frames.PADDED, 1, b"\1"), PROTOCOL),
        (frames.frame_head(frames.DATA, frames.PADDED, 1, 0) + b"\0", PROTOCOL),
        (frames.frame_head(frames.HEADERS, 0, 1, TOO_LARGE), SIZE),
        (frames.frame_head(0xEE, 0, 1, TOO_LARGE), SIZE),
        (frame(frames.HEADERS, frames.PADDED, 1, b"\2a"), PROTOCOL),
        (OPEN_BLOCK + OPEN_BLOCK, PROTOCOL),
        (OPEN_BLOCK + frames.ping(b"12345678"), PROTOCOL),
        (OPEN_BLOCK + frame(0xEE, 0, 1), PROTOCOL),
        (OPEN_BLOCK + data_frame(1, b"x", None, last=False), PROTOCOL),
        (OPEN_BLOCK + frame(frames.CONTINUATION, 0, 3), PROTOCOL),
        (frame(frames.CONTINUATION, 0, 1), PROTOCOL),
        (block_frames(1, [b"a"], last=False) + frame(frames.CONTINUATION, 0, 1), PROTOCOL),
        (OPEN_BLOCK + frame(frames.CONTINUATION, 0, 1) * frame_reader.MAX_BLOCK_FRAMES, CALM),
        (OPEN_BLOCK + frame(frames.CONTINUATION, 0, 1, bytes(frame_reader.MAX_CONTROL)), CALM),
        (frame(frames.RST_STREAM, 0, 1, b"123"), SIZE),
        (frame(frames.WINDOW_UPDATE, 0, 1, b"12345"), SIZE),
        (frame(frames.PING, 0, 0, b"1234567"), SIZE),
        (frame(frames.PING, 0, 1, b"12345678"), PROTOCOL),
        (frame(frames.SETTINGS, 0, 1), PROTOCOL),
        (frame(frames.SETTINGS, frames.ACK, 0, b"123456"), SIZE),
        (frame(frames.SETTINGS, 0, 0, b"12345"), SIZE),
        (frame(frames.PUSH_PROMISE, 0, 1, b"1234"), PROTOCOL),
        (frame(frames.PRIORITY, 0, 0, b"12345"), PROTOCOL),
        (frame(frames.PRIORITY, 0, 1, b"1234"), SIZE),
        (frame(frames.GOAWAY, 0, 1, b"12345678"), PROTOCOL),
    ],
)
def test_what_breaks_the_protocol_is_refused_with_its_code(sent: bytes, code: ErrorCode) -> None:
    with pytest.raises(ProtocolViolation) as raised:
        feed(HELLO + sent)
    assert raised.value.code is code
    with pytest.raises(ProtocolViolation) as raised:
        feed(HELLO, *(sent[place : place + 3] for place in range(0, min(len(sent), 999), 3)), sent[999:])
    assert raised.value.code is code
