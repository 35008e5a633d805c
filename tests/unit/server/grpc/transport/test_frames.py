"""Frames are written and read as RFC 9113 lays them out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer.server.grpc.transport import frames
from infer.server.grpc.transport.frames import ErrorCode, ProtocolViolation, Setting


@given(
    st.integers(0, 255), st.integers(0, 255), st.integers(0, frames.STREAM_MASK), st.binary(max_size=300), st.booleans()
)
def test_a_frame_is_read_as_it_was_written(kind: int, flags: int, stream: int, payload: bytes, reserved: bool) -> None:
    written = bytearray(b"before" + frames.frame(kind, flags, stream, payload))
    if reserved:
        written[6 + 5] |= 0x80
    assert frames.read_head(written, 6) == (len(payload), kind, flags, stream)
    assert written[6 + frames.HEAD_SIZE :] == payload
    assert frames.frame(kind, flags, stream, payload)[:9] == frames.frame_head(kind, flags, stream, len(payload))


def test_the_head_of_a_frame_is_nine_bytes_in_the_order_of_the_rfc() -> None:
    assert frames.frame_head(frames.DATA, frames.END_STREAM, 7, 0x010203) == bytes((1, 2, 3, 0, 1, 0, 0, 0, 7))


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (frames.window_update(3, 5), "000004 08 00 00000003 00000005"),
        (frames.rst_stream(5, ErrorCode.CANCEL), "000004 03 00 00000005 00000008"),
        (frames.goaway(9, ErrorCode.ENHANCE_YOUR_CALM, "hi"), "00000a 07 00 00000000 00000009 0000000b 6869"),
        (frames.ping(b"12345678"), "000008 06 00 00000000 3132333435363738"),
        (frames.ping(b"12345678", ack=True), "000008 06 01 00000000 3132333435363738"),
        (frames.settings_frame({Setting.MAX_FRAME_SIZE: 1 << 14}), "000006 04 00 00000000 0005 00004000"),
    ],
)
def test_every_frame_that_is_sent_has_its_bytes(written: bytes, expected: str) -> None:
    assert written == bytes.fromhex(expected)


def settings(*pairs: tuple[int, int]) -> bytes:
    return b"".join(key.to_bytes(2, "big") + value.to_bytes(4, "big") for key, value in pairs)


def test_the_last_of_two_values_of_a_setting_counts_and_unknown_settings_are_kept() -> None:
    assert frames.read_settings(settings((4, 1), (4, 2), (0xABC, 7))) == {4: 2, 0xABC: 7}
    assert frames.read_settings(b"") == {}


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        (b"12345", ErrorCode.FRAME_SIZE_ERROR),
        (settings((4, 2**31)), ErrorCode.FLOW_CONTROL_ERROR),
        (settings((5, 2**14 - 1)), ErrorCode.PROTOCOL_ERROR),
        (settings((5, 2**24)), ErrorCode.PROTOCOL_ERROR),
        (settings((2, 2)), ErrorCode.PROTOCOL_ERROR),
    ],
)
def test_settings_that_none_may_have_are_refused(payload: bytes, code: ErrorCode) -> None:
    with pytest.raises(ProtocolViolation) as raised:
        frames.read_settings(payload)
    assert raised.value.code is code


@pytest.mark.parametrize(
    "payload", [settings((4, 2**31 - 1)), settings((5, 2**24 - 1)), settings((2, 0)), settings((2, 1))]
)
def test_settings_at_their_limits_are_taken(payload: bytes) -> None:
    assert len(frames.read_settings(payload)) == 1


def test_a_window_update_has_four_bytes_whose_first_bit_says_nothing() -> None:
    assert frames.read_window_update(b"\x80\0\0\5") == 5
    with pytest.raises(ProtocolViolation, match="WINDOW_UPDATE frame has 3 bytes, not 4"):
        frames.read_window_update(b"\0\0\5")


@given(st.binary(max_size=50), st.integers(0, 255))
def test_padding_is_taken_off_at_both_ends(content: bytes, padding: int) -> None:
    payload = bytes((padding,)) + content + b"\0" * padding
    assert frames.unpadded(payload, frames.PADDED) == content
    assert frames.unpadded(payload, 0) == payload


@pytest.mark.parametrize("payload", [b"", b"\1", b"\5\0\0\0\0"])
def test_more_padding_than_payload_is_refused(payload: bytes) -> None:
    with pytest.raises(ProtocolViolation, match="more padding than payload"):
        frames.unpadded(payload, frames.PADDED)


def test_a_priority_stands_before_the_header_block() -> None:
    both = frames.PADDED | frames.HAS_PRIORITY
    assert frames.header_fragment(b"\0\0\0\0\x10block", frames.HAS_PRIORITY) == b"block"
    assert frames.header_fragment(b"\2\0\0\0\0\x10block\0\0", both) == b"block"
    with pytest.raises(ProtocolViolation, match="too short for its priority"):
        frames.header_fragment(b"\0\0\0\0", frames.HAS_PRIORITY)
