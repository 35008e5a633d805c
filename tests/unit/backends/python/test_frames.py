"""Frames and parcels: what is packed comes back equal, what is broken is refused."""

from __future__ import annotations

import os
import socket
import struct
from typing import TYPE_CHECKING

import psutil
import pytest

from infer.backends.python.worker import frames, slabs
from infer.backends.python.worker.frames import Entry, FrameError, Kind, Layout, Signatures

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with left, right:
        yield left, right


def receive(sock: socket.socket) -> frames.Frame:
    frame = frames.receive(sock, memoryview(bytearray(frames.MAX_PACKET)))
    assert frame is not None
    return frame


def entries() -> list[Entry]:
    signatures = Signatures()
    rows = (("x", "INT8", (3,), 3), ("y", "BYTES", (1,), 9), ("z", "FP32", (0,), 0))
    one = signatures.layout(("m", 3, ("A", "B")), rows)
    other = signatures.layout((), ())
    return [
        Entry(7, one, [b"abc", b"\x05\0\0\0hello", b""], 0, "ré".encode(), b'{"parameters": {"a": 1}}'),
        Entry(2**63, other, [], frames.ENTRY_FINAL | frames.ENTRY_ERROR | 5 << 8, b"bad"),
    ]


def test_a_parcel_comes_back_as_it_was_packed() -> None:
    frame = frames.pack_parcel(Kind.FINAL, 9, entries(), stamps=(1, 2, 3, 4))
    payload = bytearray(frame[frames.HEADER.size :])
    parcel = frames.unpack_parcel(payload, Signatures())
    assert (parcel.slab, parcel.stamps) == (0, (1, 2, 3, 4))
    first, second = parcel.items
    assert (first.id, first.text, first.extras) == (7, "ré", {"parameters": {"a": 1}})
    assert first.layout.head == ("m", 3, ("A", "B"))
    starts = [first.start + offset for offset in first.layout.offsets]
    assert all(start % frames.ALIGNMENT == 0 for start in starts)
    assert [
        bytes(payload[start : start + row[3]]) for start, row in zip(starts, first.layout.tensors, strict=True)
    ] == [
        b"abc",
        b"\x05\0\0\0hello",
        b"",
    ]
    assert (second.id, second.text, second.extras, second.layout.tensors) == (2**63, "bad", {}, ())
    assert second.flags >> 8 == 5


def test_equal_signatures_share_one_layout_on_both_sides() -> None:
    sender, receiver = Signatures(), Signatures()
    rows = (("x", "INT32", (1, 16), 64),)
    assert sender.layout((), rows) is sender.layout((), (("x", "INT32", (1, 16), 64),))
    signature = sender.layout((), rows).signature
    assert receiver.received(signature) is receiver.received(bytes(signature))
    assert receiver.received(signature).tensors == rows


def test_the_memory_of_signatures_is_bounded() -> None:
    signatures = Signatures()
    for size in range(3 * Signatures.LIMIT):
        signatures.received(signatures.layout((), (("x", "INT8", (size,), size),)).signature)
    assert len(signatures._by_key) <= Signatures.LIMIT
    assert len(signatures._by_bytes) <= Signatures.LIMIT


@pytest.mark.parametrize("cut", range(0, 300, 7))
def test_a_parcel_that_is_cut_off_anywhere_is_refused(cut: int) -> None:
    payload = frames.pack_parcel(Kind.EXECUTE, 1, entries())[frames.HEADER.size :]
    if cut < len(payload):
        with pytest.raises(FrameError):
            frames.unpack_parcel(bytearray(payload[:cut]), Signatures())


@pytest.mark.parametrize(
    "signature",
    [
        b"",
        b"[",
        b"7",
        b"[[]]",
        b"[[],[[1]]]",
        b'[[],[["x","INT8",[-1],1]]]',
        b'[[],[["x","INT8",[1],-1]]]',
        b"\xff",
        b'[[],[["x","INT8",null,1]]]',
    ],
)
def test_a_signature_that_makes_no_sense_is_refused(signature: bytes) -> None:
    with pytest.raises(FrameError):
        Layout.from_signature(signature)


def test_frames_cross_a_socket_with_their_descriptors(pair: tuple[socket.socket, socket.socket]) -> None:
    left, right = pair
    read, write = os.pipe()
    left.sendmsg([frames.pack_json(Kind.STATE, 5, {"pid": 1}, descriptors=1)], frames.rights([write]))
    os.close(write)
    frame = receive(right)
    assert (frame.kind, frame.id, bytes(frame.payload)) == (Kind.STATE, 5, b'{"pid": 1}')
    (received,) = frame.descriptors
    assert not os.get_inheritable(received)
    os.write(received, b"x")
    assert os.read(read, 1) == b"x"
    os.close(received)
    os.close(read)


def test_a_frame_larger_than_a_packet_travels_in_a_memfd(pair: tuple[socket.socket, socket.socket]) -> None:
    left, right = pair
    long = bytes(range(256)) * 4096
    short, descriptor = frames.overflow(frames.pack(Kind.LOG, 4, long, flags=1))
    left.sendmsg([short], frames.rights([descriptor]))
    os.close(descriptor)
    frame = receive(right)
    assert (frame.kind, frame.flags, frame.id, bytes(frame.payload), frame.descriptors) == (Kind.LOG, 1, 4, long, [])


def test_the_end_of_a_socket_is_none(pair: tuple[socket.socket, socket.socket]) -> None:
    left, right = pair
    left.close()
    assert frames.receive(right, memoryview(bytearray(frames.MAX_PACKET))) is None


@pytest.mark.parametrize(
    "packet",
    [
        b"short",
        frames.HEADER.pack(Kind.LOG, 0, 0, 10, 1),
        frames.HEADER.pack(Kind.LOG, 0, 2, 0, 1),
        frames.HEADER.pack(Kind.LOG, frames.OVERFLOW, 0, 10, 1),
        bytes(frames.MAX_PACKET + 1),
    ],
)
def test_a_packet_that_is_no_frame_is_refused_and_its_descriptors_are_closed(
    pair: tuple[socket.socket, socket.socket], packet: bytes
) -> None:
    left, right = pair
    before = psutil.Process().num_fds()
    left.sendmsg([packet], frames.rights([left.fileno()]))
    with pytest.raises(FrameError):
        receive(right)
    assert psutil.Process().num_fds() == before


def test_a_payload_in_an_unsealed_or_short_memfd_is_refused(pair: tuple[socket.socket, socket.socket]) -> None:
    left, right = pair
    unsealed = os.memfd_create("x")
    os.ftruncate(unsealed, 4096)
    for descriptor, length in ((unsealed, 10), (slabs.create(4096), 5000)):
        left.sendmsg([frames.HEADER.pack(Kind.LOG, frames.OVERFLOW, 1, length, 1)], frames.rights([descriptor]))
        os.close(descriptor)
        with pytest.raises(FrameError):
            receive(right)


def test_lists_of_slab_ids_come_back() -> None:
    frame = frames.pack_ids(Kind.RELEASE, [1, 2, 70_000])
    assert frames.unpack_ids(bytearray(frame[frames.HEADER.size :])) == (1, 2, 70_000)
    with pytest.raises(FrameError):
        frames.unpack_ids(bytearray(b"12345"))


def test_the_header_is_sixteen_bytes_little_endian() -> None:
    assert frames.pack(Kind.CANCEL, 1) == struct.pack("<BBHIQ", 5, 0, 0, 0, 1)
