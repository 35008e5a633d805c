"""HTTP/2's frames and windows as a client sees them."""

from __future__ import annotations

import pytest

from infer.tui import http2


def test_a_frame_has_length_kind_flags_and_stream_before_it() -> None:
    assert http2.frame(http2.DATA, http2.END_STREAM, 1, b"ab") == b"\0\0\2\0\1\0\0\0\1ab"


@pytest.mark.parametrize(
    ("payload", "flags", "rest"),
    [(b"ab", 0, b"ab"), (b"\2ab\0\0", http2.PADDED, b"ab"), (b"\0ab", http2.PADDED, b"ab"), (b"", http2.PADDED, b"")],
)
def test_padding_is_taken_off(payload: bytes, flags: int, rest: bytes) -> None:
    assert http2.unpadded(payload, flags) == rest


def test_the_narrowest_window_and_the_largest_frame_bound_what_may_be_sent() -> None:
    windows = http2.Windows()
    assert windows.room == 16_384
    windows.spend(60_000)
    assert (windows.connection, windows.stream, windows.room) == (5_535, 5_535, 5_535)
    windows.widen(1, 100_000)
    assert windows.room == 5_535
    windows.widen(0, 100_000)
    assert windows.room == 16_384


def test_settings_move_the_open_streams_window_and_the_largest_frame() -> None:
    windows = http2.Windows()
    windows.spend(1_000)
    windows.settle(
        http2.SETTING.pack(http2.INITIAL_WINDOW_SIZE, 500) + http2.SETTING.pack(http2.MAX_FRAME_SIZE, 20_000)
    )
    assert (windows.stream, windows.room, windows.largest_frame) == (-500, 0, 20_000)
    windows.settle(http2.SETTING.pack(http2.INITIAL_WINDOW_SIZE, 70_000) + http2.SETTING.pack(99, 1))
    assert windows.room == 20_000
