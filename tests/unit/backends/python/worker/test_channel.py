"""The worker's end of a channel over a real socket pair: who reads, who sends, and what a finaliser leaves behind."""

from __future__ import annotations

import os
import queue
import select
import socket
import threading
from typing import TYPE_CHECKING

import psutil
import pytest

from infer.backends.python.worker import frames, parcels, slabs
from infer.backends.python.worker.channel import Channel
from infer.backends.python.worker.frames import Frame, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT_S = 10
SIZE = 4 * parcels.INLINE_LIMIT


class Pair:
    """A channel, and the bare socket at the server's end."""

    def __init__(self) -> None:
        sock, self.server = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.server.settimeout(LIMIT_S)
        self.frames: queue.SimpleQueue[tuple[Frame, str]] = queue.SimpleQueue()
        self.ends: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.channel = Channel(sock, self._take, self._end)

    def _take(self, frame: Frame) -> None:
        self.frames.put((frame, threading.current_thread().name))

    def _end(self, reason: str) -> None:
        self.ends.put(reason)
        if threading.current_thread() is threading.main_thread():
            raise EOFError(reason)  # a worker's process ends here

    def taken(self) -> tuple[Frame, str]:
        """The next frame that is not for the model, and the thread that has read it."""
        return self.frames.get(timeout=LIMIT_S)

    def sent(self) -> Frame:
        """The next frame that arrives at the server."""
        frame = frames.receive(self.server, memoryview(bytearray(frames.MAX_PACKET)))
        assert frame is not None
        return frame

    def nothing_sent(self) -> bool:
        """Whether nothing has arrived at the server."""
        return not select.select([self.server], [], [], 0)[0]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """A channel; afterwards it has no thread and no descriptor."""
    before = psutil.Process().num_fds()
    threads = set(threading.enumerate())
    pair = Pair()
    yield pair
    pair.server.close()
    started = set(threading.enumerate()) - threads
    pair.channel.expect(pair)
    for thread in started:
        thread.join(LIMIT_S)
        assert not thread.is_alive()
    pair.channel.sock.close()
    pair.channel.pool.close()
    pair.channel.slabs.close()
    assert psutil.Process().num_fds() == before


def parcel_of(size: int) -> list[parcels.Entry]:
    """One response with one tensor of so many bytes."""
    return [parcels.Entry(1, parcels.Layout((), (("OUT", "INT8", (size,), size),)), [b"\1" * size])]


def test_the_models_thread_reads_its_frames_and_what_lies_before_them(pair: Pair) -> None:
    pair.channel.start()
    pair.server.send(frames.pack(Kind.CREDIT, 1))
    pair.server.send(frames.pack(Kind.EXECUTE, 2))
    assert pair.channel.next_frame().id == 2
    frame, thread = pair.taken()
    assert (frame.id, thread) == (1, threading.main_thread().name)


def test_the_reader_thread_reads_while_something_waits_and_keeps_what_is_for_the_model(pair: Pair) -> None:
    pair.channel.start()
    pair.channel.expect("a call")
    pair.server.send(frames.pack(Kind.EXECUTE, 1))
    pair.server.send(frames.pack(Kind.STATE, 2))
    pair.server.send(frames.pack(Kind.CALL_REPLY, 3))
    frame, thread = pair.taken()
    assert (frame.id, thread) == (3, "infer-channel")
    assert [pair.channel.next_frame().id for _ in range(2)] == [1, 2]


class Lingering(set[object]):
    """Nobody waits. Who asks while it reads is told so only when the model's thread has tried to read as well."""

    def __init__(self, reading: threading.Lock) -> None:
        super().__init__()
        self.reading = reading
        self.tried = threading.Event()

    def __len__(self) -> int:
        if self.reading.locked():
            self.tried.wait(LIMIT_S)
        return 0


class Tried:
    """The right to read, which tells ``lingering`` when somebody did not get it after ``since`` was set."""

    def __init__(self, lingering: Lingering) -> None:
        self._lingering = lingering
        self.since = threading.Event()

    def acquire(self, *, blocking: bool = True) -> bool:
        got = self._lingering.reading.acquire(blocking=blocking)
        if not got and self.since.is_set():
            self._lingering.tried.set()
        return got

    def release(self) -> None:
        self._lingering.reading.release()


def test_a_model_that_asks_for_a_frame_while_the_reader_thread_is_about_to_stop_is_not_left_alone(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.channel.start()
    pair.channel.expect("a call")
    pair.server.send(frames.pack(Kind.CALL_REPLY, 1))
    pair.taken()
    lingering = Lingering(pair.channel._reading)
    tried = Tried(lingering)
    monkeypatch.setattr(pair.channel, "_waiting", lingering)
    monkeypatch.setattr(pair.channel, "_reading", tried)
    pair.server.send(frames.pack(Kind.EXECUTE, 2))
    assert pair.channel.next_frame().id == 2
    tried.since.set()
    found: queue.SimpleQueue[int] = queue.SimpleQueue()
    threading.Thread(target=lambda: found.put(pair.channel.next_frame().id), daemon=True).start()
    assert lingering.tried.wait(LIMIT_S)
    pair.server.send(frames.pack(Kind.EXECUTE, 3))
    assert found.get(timeout=LIMIT_S) == 3
    monkeypatch.undo()


def test_the_reader_thread_hands_over_once_nothing_waits(pair: Pair) -> None:
    pair.channel.start()
    pair.channel.expect("a call")
    pair.server.send(frames.pack(Kind.CALL_REPLY, 1))
    pair.taken()
    pair.channel.expect_no_more("a call")
    for number in (2, 3):
        pair.server.send(frames.pack(Kind.EXECUTE, number))
    assert [pair.channel.next_frame().id for _ in range(2)] == [2, 3]


def test_a_thread_that_waits_for_its_call_reads_itself_and_gives_everyone_what_is_theirs(pair: Pair) -> None:
    pair.channel.start()
    for kind, number in ((Kind.EXECUTE, 1), (Kind.CREDIT, 2), (Kind.CALL_REPLY, 3), (Kind.CALL_REPLY, 4)):
        pair.server.send(frames.pack(kind, number))
    seen: list[int] = []

    def arrived() -> bool:
        while not pair.frames.empty():
            frame, thread = pair.taken()
            assert thread == threading.main_thread().name
            seen.append(frame.id)
        return 3 in seen

    pair.channel.read_until(arrived, "a call")
    assert seen == [2, 3]
    assert pair.channel.next_frame().id == 1
    pair.channel.expect("another call")
    assert pair.taken() == (Frame(Kind.CALL_REPLY, 0, 4, bytearray(), []), "infer-channel")


def test_a_thread_that_waits_for_its_call_leaves_the_reading_to_a_thread_that_does_it_already(pair: Pair) -> None:
    pair.channel.start()
    pair.channel.expect("another call")
    pair.server.send(frames.pack(Kind.CREDIT, 1))
    assert pair.taken()[1] == "infer-channel"
    pair.channel.read_until(lambda: pytest.fail("asked without reading"), "a call")
    pair.channel.expect_no_more("another call")
    for number in (2, 3):
        pair.server.send(frames.pack(Kind.EXECUTE, number))
    pair.server.send(frames.pack(Kind.CALL_REPLY, 4))
    assert pair.taken() == (Frame(Kind.CALL_REPLY, 0, 4, bytearray(), []), "infer-channel")


def test_a_call_that_another_thread_makes_meanwhile_is_answered_by_whoever_reads(pair: Pair) -> None:
    pair.channel.start()
    answered = threading.Event()

    def other() -> None:
        pair.channel.expect("another call")
        pair.server.send(frames.pack(Kind.CALL_REPLY, 1))
        pair.taken()
        answered.set()
        pair.server.send(frames.pack(Kind.CALL_REPLY, 2))

    thread = threading.Thread(target=other)

    def arrived() -> bool:
        if thread.ident is None:
            thread.start()  # only now, as the one who reads is certain
        return answered.is_set() and not pair.frames.empty()

    pair.channel.read_until(arrived, "a call")
    thread.join(LIMIT_S)
    frame, reader = pair.taken()
    assert (frame.id, reader) == (2, threading.main_thread().name)


def test_reading_for_a_call_stops_where_the_server_is_gone(pair: Pair) -> None:
    pair.server.close()
    with pytest.raises(EOFError):
        pair.channel.read_until(lambda: False, "a call")


def test_word_of_a_cancel_is_read_while_the_model_executes_once_it_asks(pair: Pair) -> None:
    pair.channel.start()
    pair.server.send(frames.pack(Kind.CANCEL, 4))
    while pair.frames.empty():
        pair.channel.attend()
    assert pair.taken()[0].id == 4


def test_frames_of_many_threads_arrive_whole(pair: Pair) -> None:
    def send(number: int) -> None:
        for _ in range(20):
            pair.channel.send(frames.pack(Kind.LOG, number, bytes([number]) * 1000))

    threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    received = [pair.sent() for _ in range(80)]
    for thread in threads:
        thread.join()
    assert all(frame.payload == bytes([frame.id]) * 1000 for frame in received)
    assert sorted(frame.id for frame in received) == [number for number in range(4) for _ in range(20)]


def test_a_frame_larger_than_a_packet_arrives_whole(pair: Pair) -> None:
    payload = bytes(range(256)) * 2000
    pair.channel.send(frames.pack(Kind.LOG, 3, payload))
    frame = pair.sent()
    assert (frame.kind, frame.id, bytes(frame.payload), frame.descriptors) == (Kind.LOG, 3, payload, [])


def test_sending_to_a_server_that_is_gone_raises_and_closes_the_descriptors(pair: Pair) -> None:
    pair.server.close()
    read, write = os.pipe()
    with pytest.raises(OSError, match="Broken pipe"):
        pair.channel.send(frames.pack(Kind.HELLO, 0, descriptors=1), [write])
    assert os.read(read, 1) == b""
    os.close(read)


def test_what_a_finaliser_posts_in_the_middle_of_a_send_follows_it(pair: Pair) -> None:
    with pair.channel._lock:
        pair.channel.post(frames.pack(Kind.CREDIT, 1))
        assert pair.nothing_sent()
    pair.channel.send(frames.pack(Kind.LOG, 2))
    assert [pair.sent().id for _ in range(2)] == [2, 1]


def test_a_post_is_sent_at_once_where_nobody_sends(pair: Pair) -> None:
    pair.channel.post(frames.pack(Kind.CREDIT, 1))
    assert pair.sent().id == 1


def test_a_post_to_a_server_that_is_gone_is_dropped_in_silence(pair: Pair) -> None:
    pair.server.close()
    pair.channel.post(frames.pack(Kind.CREDIT, 1))
    pair.channel.flush()
    assert not pair.channel._deferred


def test_large_tensors_travel_in_a_slab_that_is_used_again_when_it_is_released(pair: Pair) -> None:
    pair.channel.send_parcel(Kind.FINAL, 1, parcel_of(SIZE), stamps=(1, 2, 3, 4))
    first = pair.sent()
    slab_id, size = parcels.slab_of(first.payload)
    assert bytes(slabs.to_bytes(first.descriptors[0], size)) == b"\1" * SIZE
    os.close(first.descriptors.pop())
    pair.server.send(frames.pack_ids(Kind.RELEASE, [slab_id]))
    pair.server.send(frames.pack(Kind.EXECUTE, 2))
    pair.channel.next_frame()
    pair.channel.send_parcel(Kind.FINAL, 2, parcel_of(SIZE))
    second = pair.sent()
    assert (parcels.slab_of(second.payload), second.descriptors) == ((slab_id, size), [])


def test_a_slab_that_is_too_much_to_keep_is_forgotten_on_both_sides(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slabs, "IDLE_LIMIT", 0)
    pair.channel.send_parcel(Kind.FINAL, 1, parcel_of(SIZE))
    sent = pair.sent()
    os.close(sent.descriptors.pop())
    slab_id, _ = parcels.slab_of(sent.payload)
    pair.server.send(frames.pack_ids(Kind.RELEASE, [slab_id]))
    pair.server.send(frames.pack(Kind.EXECUTE, 2))
    pair.channel.next_frame()
    forget = pair.sent()
    assert (forget.kind, forget.flags, frames.unpack_ids(forget.payload)) == (Kind.RELEASE, frames.FORGET, (slab_id,))


def received_slab(pair: Pair) -> frames.Frame:
    """An EXECUTE frame whose tensor is in slab 9, as the model's thread gets it."""
    descriptor = slabs.from_bytes(memoryview(b"z" * SIZE))
    packet = parcels.pack(Kind.EXECUTE, 0, parcel_of(SIZE), slab=9, descriptors=1)
    pair.server.sendmsg([packet], frames.rights([descriptor]))
    os.close(descriptor)
    return pair.channel.next_frame()


def test_a_received_slab_is_released_when_the_last_view_of_it_is_gone(pair: Pair) -> None:
    parcel, memory = pair.channel.open_parcel(received_slab(pair).payload)
    view = memoryview(memory)[10:20]  # pyright: ignore[reportArgumentType]
    del memory
    assert bytes(view) == b"z" * 10
    assert pair.nothing_sent()
    del view
    release = pair.sent()
    assert (release.kind, frames.unpack_ids(release.payload)) == (Kind.RELEASE, (parcel.slab,))


def test_a_fork_that_drops_what_it_has_inherited_releases_nothing(pair: Pair) -> None:
    _, memory = pair.channel.open_parcel(received_slab(pair).payload)
    pair.channel.pid = os.getppid()
    del memory
    assert pair.nothing_sent()


def test_the_end_of_the_server_is_told_to_whoever_reads(pair: Pair) -> None:
    pair.channel.start()
    pair.channel.expect("a call")
    pair.server.close()
    assert pair.ends.get(timeout=LIMIT_S) == "the server closed the channel"


def test_a_broken_packet_ends_the_channel_with_its_reason(pair: Pair) -> None:
    pair.server.send(b"short")
    with pytest.raises(EOFError, match="the channel broke: packet of 5 bytes is shorter than a header"):
        pair.channel.next_frame()


def test_where_the_models_thread_always_reads_nobody_else_does(pair: Pair) -> None:
    pair.channel.always_read = True
    pair.channel.read_until(lambda: pytest.fail("it reads"), "a call")
    pair.server.send(frames.pack(Kind.EXECUTE, 1))
    assert pair.channel.next_frame().id == 1
