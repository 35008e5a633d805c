"""The server's end of a channel over a real socket pair: order, slabs, what ends it, and what it lets go of."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import TYPE_CHECKING

import psutil
import pytest

from infer.backends.python import channel as channel_module
from infer.backends.python.channel import Channel
from infer.backends.python.worker import frames, parcels, slabs
from infer.backends.python.worker.frames import Frame, FrameError, Kind

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

LIMIT_S = 10
SIZE = 4 * parcels.INLINE_LIMIT


class Pair:
    """A channel, and the bare socket at its other end."""

    def __init__(self) -> None:
        sock, self.peer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.peer.settimeout(LIMIT_S)
        self.frames: asyncio.Queue[Frame] = asyncio.Queue()
        self.ends: asyncio.Queue[str] = asyncio.Queue()
        self.channel = Channel(asyncio.get_running_loop(), sock, self.take, self.ends.put_nowait)
        self.refuse = ""

    def take(self, frame: Frame) -> None:
        """What the channel hands on."""
        if self.refuse:
            raise FrameError(self.refuse)
        self.frames.put_nowait(frame)

    async def frame(self) -> Frame:
        """The next frame that the channel hands on."""
        return await asyncio.wait_for(self.frames.get(), LIMIT_S)

    async def end(self) -> str:
        """Why the channel has ended."""
        return await asyncio.wait_for(self.ends.get(), LIMIT_S)

    async def sent(self) -> Frame:
        """The next frame that arrives at the other end."""
        memory = memoryview(bytearray(frames.MAX_PACKET))
        frame = await asyncio.to_thread(frames.receive, self.peer, memory)
        assert frame is not None
        return frame


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    """A channel; afterwards it holds no descriptor."""
    await asyncio.to_thread(int)
    before = psutil.Process().num_fds()
    pair = Pair()
    yield pair
    pair.channel.close()
    pair.peer.close()
    while not pair.frames.empty():
        for descriptor in pair.frames.get_nowait().descriptors:
            os.close(descriptor)
    assert psutil.Process().num_fds() == before


def parcel_of(size: int, fill: bytes = b"\1") -> list[parcels.Entry]:
    """One response with one tensor of so many bytes."""
    return [parcels.Entry(1, parcels.Layout((), (("OUT", "INT8", (size,), size),)), [fill * size])]


async def test_frames_arrive_in_the_order_in_which_they_are_sent(pair: Pair) -> None:
    for number in range(5):
        pair.peer.send(frames.pack(Kind.CREDIT, number))
    assert [(await pair.frame()).id for _ in range(5)] == list(range(5))


async def test_a_sent_descriptor_is_the_receivers_and_no_longer_the_senders(pair: Pair) -> None:
    read, write = os.pipe()
    pair.channel.send(frames.pack(Kind.SPAWN, 7, descriptors=1), [write])
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(write)
    frame = await pair.sent()
    (received,) = frame.descriptors
    os.write(received, b"x")
    assert os.read(read, 1) == b"x"
    os.close(received)
    os.close(read)


async def test_what_a_full_socket_does_not_take_follows_in_order(pair: Pair) -> None:
    total = 0
    while pair.channel.queued < 3:
        pair.channel.send(frames.pack(Kind.CREDIT, total, bytes(60_000)))
        total += 1
    assert [(await pair.sent()).id for _ in range(total)] == list(range(total))
    pair.channel.send(frames.pack(Kind.CANCEL, total))
    assert (await pair.sent()).id == total
    assert pair.channel.queued == 0


async def test_frames_are_read_while_the_other_side_reads_nothing(pair: Pair) -> None:
    while not pair.channel.queued:
        pair.channel.send(frames.pack(Kind.CREDIT, 0, bytes(60_000)))
    pair.peer.send(frames.pack(Kind.CANCEL, 5))
    assert (await pair.frame()).id == 5


async def test_what_has_arrived_is_read_at_one_wake_up_but_no_more_than_a_few(pair: Pair) -> None:
    for number in range(3 * channel_module._FRAMES_A_TURN):
        pair.peer.send(frames.pack(Kind.LOG, number))
    pair.channel._readable()
    assert pair.frames.qsize() == channel_module._FRAMES_A_TURN
    pair.channel._readable()
    assert pair.frames.qsize() == 2 * channel_module._FRAMES_A_TURN
    assert [(await pair.frame()).id for _ in range(24)] == list(range(24))


async def test_a_second_frame_is_not_looked_for_again_and_again_where_there_is_none(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[None] = []
    receive = frames.receive

    def counted(sock: socket.socket, memory: memoryview) -> Frame | None:
        looks.append(None)
        return receive(sock, memory)

    monkeypatch.setattr(frames, "receive", counted)
    for number in range(1 + channel_module._LONELY_TURNS):
        pair.peer.send(frames.pack(Kind.LOG, number))
        pair.channel._readable()
    assert len(looks) == 2 + channel_module._LONELY_TURNS
    assert pair.frames.qsize() == 1 + channel_module._LONELY_TURNS
    pair.peer.send(frames.pack(Kind.LOG, 100))
    pair.peer.send(frames.pack(Kind.LOG, 101))
    pair.channel._readable()
    assert pair.frames.qsize() == 3 + channel_module._LONELY_TURNS


async def test_a_channel_that_is_closed_by_what_it_hands_on_reads_nothing_more(pair: Pair) -> None:
    for number in range(3):
        pair.peer.send(frames.pack(Kind.LOG, number))
    taken: list[int] = []

    def close(frame: Frame) -> None:
        taken.append(frame.id)
        pair.channel.close()

    pair.channel._on_frame = close
    pair.channel._readable()
    assert taken == [0]


async def test_a_frame_larger_than_a_packet_arrives_whole(pair: Pair) -> None:
    payload = bytes(range(256)) * 2000
    pair.channel.send(frames.pack(Kind.STATE, 3, payload))
    frame = await pair.sent()
    assert (frame.kind, frame.id, bytes(frame.payload)) == (Kind.STATE, 3, payload)


async def test_small_tensors_travel_in_the_frame(pair: Pair) -> None:
    pair.channel.send_parcel(Kind.EXECUTE, 1, parcel_of(64))
    parcel = parcels.unpack((await pair.sent()).payload, parcels.Signatures())
    assert (parcel.slab, parcel.size) == (0, 64)
    assert pair.channel.pool.counts == (0, 0)


async def test_a_slab_is_handed_over_once_and_used_again_when_it_is_released(pair: Pair) -> None:
    reader = slabs.SlabMap(lambda _: None)
    pair.channel.send_parcel(Kind.EXECUTE, 1, parcel_of(SIZE, b"a"))
    first = await pair.sent()
    slab_id, size = parcels.slab_of(first.payload)
    reader.admit(slab_id, first.descriptors.pop(), size)
    assert bytes(reader.lease(slab_id, size)) == b"a" * SIZE
    pair.peer.send(frames.pack_ids(Kind.RELEASE, [slab_id]))
    pair.peer.send(frames.pack(Kind.CANCEL, 1))
    await pair.frame()
    pair.channel.send_parcel(Kind.EXECUTE, 2, parcel_of(SIZE, b"b"))
    second = await pair.sent()
    assert second.descriptors == []
    assert parcels.slab_of(second.payload) == (slab_id, size)
    assert bytes(reader.lease(slab_id, size)) == b"b" * SIZE
    reader.close()


async def test_a_slab_that_is_too_much_to_keep_is_forgotten_on_both_sides(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slabs, "IDLE_LIMIT", 0)
    pair.channel.send_parcel(Kind.EXECUTE, 1, parcel_of(SIZE))
    sent = await pair.sent()
    os.close(sent.descriptors.pop())
    pair.peer.send(frames.pack_ids(Kind.RELEASE, [parcels.slab_of(sent.payload)[0]]))
    forget = await pair.sent()
    assert (forget.kind, forget.flags) == (Kind.RELEASE, frames.FORGET)
    assert frames.unpack_ids(forget.payload) == (parcels.slab_of(sent.payload)[0],)
    assert pair.channel.pool.counts == (0, 0)


def send_slab(pair: Pair, slab_id: int = 9) -> None:
    """Have the other side send a response whose tensor is in a slab."""
    descriptor = slabs.from_bytes(memoryview(b"z" * SIZE))
    packet = parcels.pack(Kind.RESPONSE, 0, parcel_of(SIZE), slab=slab_id, descriptors=1)
    pair.peer.sendmsg([packet], frames.rights([descriptor]))
    os.close(descriptor)


async def test_a_received_slab_is_released_when_the_last_view_of_it_is_gone(pair: Pair) -> None:
    send_slab(pair)
    frame = await pair.frame()
    parcel, memory = pair.channel.open_parcel(frame.payload)
    view = memoryview(memory)[10:20]  # pyright: ignore[reportArgumentType]
    del memory
    assert bytes(view) == b"z" * 10
    del view
    release = await pair.sent()
    assert (release.kind, release.flags, frames.unpack_ids(release.payload)) == (Kind.RELEASE, 0, (parcel.slab,))


async def test_a_slab_that_its_creator_forgets_cannot_be_opened_any_more(pair: Pair) -> None:
    send_slab(pair)
    frame = await pair.frame()
    pair.peer.send(frames.pack_ids(Kind.RELEASE, [9], flags=frames.FORGET))
    pair.peer.send(frames.pack(Kind.CANCEL, 1))
    await pair.frame()
    with pytest.raises(FrameError, match="slab 9 is unknown"):
        pair.channel.open_parcel(frame.payload)


async def test_the_end_of_the_other_side_is_told_once(pair: Pair) -> None:
    pair.peer.close()
    assert await pair.end() == "the worker closed its channel"
    pair.channel.drain()
    pair.channel.close()
    assert pair.channel.closed
    assert pair.ends.empty()


@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        (b"short", "packet of 5 bytes is shorter than a header"),
        (frames.HEADER.pack(Kind.LOG, 0, 0, 10, 1), "claims 10 bytes and carries 0"),
        (frames.pack(Kind.RELEASE, 0, b"abc"), "list of slab ids of 3 bytes"),
    ],
)
async def test_a_packet_that_breaks_the_format_ends_the_channel(pair: Pair, packet: bytes, reason: str) -> None:
    pair.peer.send(packet)
    end = await pair.end()
    assert end.startswith("the channel broke: ")
    assert reason in end
    assert pair.frames.empty()


async def test_a_frame_that_its_taker_refuses_ends_the_channel(pair: Pair) -> None:
    pair.refuse = "frame of unknown kind 99"
    pair.peer.send(frames.pack(99, 0))
    assert await pair.end() == "the channel broke: frame of unknown kind 99"


async def test_a_channel_that_is_closed_here_tells_nobody_and_lets_go_of_what_waits(pair: Pair) -> None:
    read, write = os.pipe()
    while not pair.channel.queued:
        pair.channel.send(frames.pack(Kind.CREDIT, 0, bytes(60_000)))
    pair.channel.send(frames.pack(Kind.SPAWN, 0, descriptors=1), [write])
    pair.channel.close()
    assert os.read(read, 1) == b"", "the other end of the pipe is closed"
    os.close(read)
    assert pair.ends.empty()
    assert pair.channel.queued == 0


async def test_what_is_sent_on_a_closed_channel_is_dropped_with_its_descriptors(pair: Pair) -> None:
    pair.channel.close()
    read, write = os.pipe()
    pair.channel.send(frames.pack(Kind.SPAWN, 0, descriptors=1), [write])
    assert os.read(read, 1) == b""
    os.close(read)


async def test_what_a_dead_peer_has_sent_is_taken_before_the_channel_is_closed(pair: Pair) -> None:
    for number in range(3):
        pair.peer.send(frames.pack(Kind.RESPONSE, number))
    pair.peer.close()
    pair.channel.drain()
    assert [pair.frames.get_nowait().id for _ in range(3)] == [0, 1, 2]
    assert pair.ends.get_nowait() == "the worker closed its channel"


async def test_sending_to_a_dead_peer_raises_nothing(pair: Pair) -> None:
    pair.peer.close()
    pair.channel.send(frames.pack(Kind.CANCEL, 1))
    assert await pair.end() == "the worker closed its channel"


async def test_a_parcel_too_short_for_the_slab_it_carries_ends_the_channel_and_leaks_nothing(pair: Pair) -> None:
    descriptor = slabs.create(slabs.SMALLEST)
    frame = frames.pack(Kind.FINAL, 1, b"short", descriptors=1)
    pair.peer.sendmsg([frame], frames.rights([descriptor]))
    os.close(descriptor)
    assert "parcel of 5 bytes is cut off" in await pair.end()
