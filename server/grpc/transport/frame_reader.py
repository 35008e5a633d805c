"""What a client sends, cut into frames. Data is passed on as it comes; every other frame is passed on whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from . import frames
from .frames import ErrorCode, ProtocolViolation

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_CONTROL = 256 << 10
"""Bytes of a frame that is no data, and of a header block in several frames."""
MAX_BLOCK_FRAMES = 64
"""Frames of one header block."""


class StreamSink(Protocol):
    """Where the frames of streams go to. Raises ProtocolViolation for what ends the connection."""

    def headers(self, stream_id: int, block: bytes, *, last: bool) -> None:
        """A header block; ``last`` half-closes the stream."""
        ...

    def flow(self, stream_id: int, size: int) -> None:
        """A DATA frame begins that counts ``size`` bytes, padding included."""
        ...

    def data(self, stream_id: int, data: bytes, start: int, stop: int) -> None:
        """A part of a DATA frame's contents."""
        ...

    def half_close(self, stream_id: int) -> None:
        """The client sends nothing more on a stream."""
        ...

    def reset(self, stream_id: int) -> None:
        """The client ends a stream."""
        ...

    def window(self, stream_id: int, increment: int) -> None:
        """The client lets us send more, on a stream or (0) on the connection."""
        ...


class ControlSink(Protocol):
    """Where the frames of the connection go to."""

    def settings(self, values: dict[int, int]) -> None:
        """The client's settings."""
        ...

    def ping(self, payload: bytes) -> None:
        """The client wants a sign of life."""
        ...

    def pong(self, payload: bytes) -> None:
        """The client has given one; ``payload`` is that of our ping."""
        ...


class FrameReader:
    """Cuts bytes into frames, however they are divided."""

    __slots__ = ("_block", "_block_frames", "_block_stream", "_content", "_control", "_greeted", "_kinds", "_last",
                 "_max_frame", "_padding", "_stream", "_streams", "_tail")  # fmt: skip

    def __init__(self, streams: StreamSink, control: ControlSink, max_frame: int) -> None:
        self._streams = streams
        self._control = control
        self._max_frame = max_frame
        self._greeted = False
        self._tail = b""
        self._stream = 0
        self._content = self._padding = 0
        """What is still to come of a DATA frame of that stream."""
        self._last = False
        self._block_stream = self._block_frames = 0
        self._block = b""
        self._kinds: dict[int, Callable[[int, int, bytes], None]] = {
            frames.HEADERS: self._headers,
            frames.RST_STREAM: self._reset,
            frames.SETTINGS: self._settings,
            frames.PING: self._ping,
            frames.WINDOW_UPDATE: self._window,
            frames.CONTINUATION: self._continuation,
            frames.PUSH_PROMISE: self._push_promise,
            frames.PRIORITY: self._priority,
            frames.GOAWAY: self._goaway,
        }

    @property
    def greeted(self) -> bool:
        """Whether the client has said that it speaks HTTP/2."""
        return self._greeted

    def feed(self, data: bytes) -> None:
        """Take what was received. Raises ProtocolViolation."""
        if self._tail:
            data, self._tail = self._tail + data, b""
        position, end = 0, len(data)
        if not self._greeted:
            position = self._greet(data)
            if not position:
                end = 0
        while position < end:
            if self._content:
                position = self._take_content(data, position, end)
            elif self._padding:
                skipped = min(self._padding, end - position)
                self._padding -= skipped
                position += skipped
            else:
                start = self._take_frame(data, position, end)
                if start == position:
                    break
                position = start
        self._tail = data[position:]

    def _greet(self, data: bytes) -> int:
        """Behind the preface; 0 until the head of the first frame, which has to be SETTINGS, is there too."""
        preface = frames.PREFACE
        if not data.startswith(preface[: len(data)]):
            raise ProtocolViolation(ErrorCode.PROTOCOL_ERROR, "this is no HTTP/2 client")
        if len(data) < len(preface) + frames.HEAD_SIZE:
            return 0
        _, kind, flags, _ = frames.read_head(data, len(preface))
        if kind != frames.SETTINGS or flags & frames.ACK:
            raise ProtocolViolation(ErrorCode.PROTOCOL_ERROR, "the first frame is not SETTINGS")
        self._greeted = True
        return len(preface)

    def _take_content(self, data: bytes, position: int, end: int) -> int:
        stop = min(position + self._content, end)
        self._content -= stop - position
        self._streams.data(self._stream, data, position, stop)
        if not self._content and self._last:
            self._streams.half_close(self._stream)
        return stop

    def _take_frame(self, data: bytes, position: int, end: int) -> int:
        """Where the frame that begins here has been read up to; ``position`` where too little of it is there."""
        start = position + frames.HEAD_SIZE
        if start > end:
            return position
        length, kind, flags, stream_id = frames.read_head(data, position)
        if kind == frames.DATA:
            if flags & frames.PADDED and start == end:
                return position
            return self._begin_data(data, start, length, flags, stream_id)
        if length > MAX_CONTROL:
            raise ProtocolViolation(ErrorCode.FRAME_SIZE_ERROR, f"a frame of kind {kind} has {length} bytes")
        if start + length > end:
            return position
        if self._block_stream and kind != frames.CONTINUATION:
            raise ProtocolViolation(ErrorCode.PROTOCOL_ERROR, "a header block is interrupted by another frame")
        handler = self._kinds.get(kind)
        if handler is not None:
            handler(flags, stream_id, data[start : start + length])
        return start + length

    def _begin_data(self, data: bytes, start: int, length: int, flags: int, stream_id: int) -> int:
        if self._block_stream or not stream_id:
            raise ProtocolViolation(ErrorCode.PROTOCOL_ERROR, "a DATA frame stands where none may")
        if length > self._max_frame:
            raise ProtocolViolation(ErrorCode.FRAME_SIZE_ERROR, f"a DATA frame has {length} bytes")
        self._stream, self._content, self._padding = stream_id, length, 0
        self._last = bool(flags & frames.END_STREAM)
        if flags & frames.PADDED:
            padding = data[start]
            if padding >= length:
                raise ProtocolViolation(ErrorCode.PROTOCOL_ERROR, "a frame has more padding than payload")
            self._content, self._padding = length - 1 - padding, padding
            start += 1
        self._streams.flow(stream_id, length)
        if not self._content and self._last:
            self._streams.half_close(stream_id)
        return start

    def _headers(self, flags: int, stream_id: int, payload: bytes) -> None:
        self._last = bool(flags & frames.END_STREAM)
        self._block = frames.header_fragment(payload, flags)
        self._block_stream, self._block_frames = stream_id, 1
        self._end_block(flags)

    def _continuation(self, flags: int, stream_id: int, payload: bytes) -> None:
        if not self._block_stream or stream_id != self._block_stream:
            raise ProtocolViolation(ErrorCode.PROTOCOL_ERROR, "a CONTINUATION frame continues nothing")
        self._block += payload
        self._block_frames += 1
        if len(self._block) > MAX_CONTROL or self._block_frames > MAX_BLOCK_FRAMES:
            raise ProtocolViolation(ErrorCode.ENHANCE_YOUR_CALM, "a header block is too large")
        self._end_block(flags)

    def _end_block(self, flags: int) -> None:
        if flags & frames.END_HEADERS:
            stream_id, block = self._block_stream, self._block
            self._block_stream, self._block = 0, b""
            self._streams.headers(stream_id, block, last=self._last)

    def _reset(self, _flags: int, stream_id: int, payload: bytes) -> None:
        frames.check_size(payload, frames.WORD_SIZE, "RST_STREAM")
        self._streams.reset(stream_id)

    def _settings(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise ProtocolViolation(ErrorCode.PROTOCOL_ERROR, "a SETTINGS frame is on a stream")
        if flags & frames.ACK:
            frames.check_size(payload, 0, "SETTINGS ACK")
        else:
            self._control.settings(frames.read_settings(payload))

    def _ping(self, flags: int, stream_id: int, payload: bytes) -> None:
        frames.check_size(payload, frames.PING_SIZE, "PING")
        if stream_id:
            raise ProtocolViolation(ErrorCode.PROTOCOL_ERROR, "a PING frame is on a stream")
        if flags & frames.ACK:
            self._control.pong(payload)
        else:
            self._control.ping(payload)

    def _window(self, _flags: int, stream_id: int, payload: bytes) -> None:
        self._streams.window(stream_id, frames.read_window_update(payload))

    def _push_promise(self, _flags: int, _stream_id: int, _payload: bytes) -> None:
        raise ProtocolViolation(ErrorCode.PROTOCOL_ERROR, "a client cannot push")

    def _priority(self, _flags: int, stream_id: int, payload: bytes) -> None:
        """Priorities are read past, as RFC 9113 deprecates them."""
        frames.check_size(payload, frames.PRIORITY_SIZE, "PRIORITY")
        if not stream_id:
            raise ProtocolViolation(ErrorCode.PROTOCOL_ERROR, "a PRIORITY frame is on no stream")

    def _goaway(self, _flags: int, stream_id: int, _payload: bytes) -> None:
        """A client that goes away closes the connection itself when its calls are over."""
        if stream_id:
            raise ProtocolViolation(ErrorCode.PROTOCOL_ERROR, "a GOAWAY frame is on a stream")
