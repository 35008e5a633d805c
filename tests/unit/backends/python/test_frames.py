"""Frames: what is packed comes back equal, what is broken is refused."""

from __future__ import annotations

import os
import socket
import struct
from typing import TYPE_CHECKING

import psutil
import pytest

from infer.backends.python.worker import frames, slabs
from infer.backends.python.worker.frames import FrameError, Kind

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
