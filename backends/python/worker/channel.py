"""The worker's end of a channel: one reader at a time, one write lock, and nothing that waits for the other side.

While the model is idle its own thread reads, which saves a request two changes of threads; so does the thread that
executes while it waits for a call of its own. Otherwise, while the model executes, the reader thread takes over as soon
as anything in the process waits for a frame (a call, credit, word of a cancel), and it goes on until nothing does.
Whoever reads never blocks on anything but the socket. Where the model executes on a thread of its own (coroutines), the
main thread reads all the time and nobody need take over.
What a finaliser has to say (a slab is free, a request was dropped) may come up on any thread, also in the middle of a
send, so it is put aside and sent by whoever holds the lock next.
"""

from __future__ import annotations

import collections
import os
import queue
import select
import threading
from typing import TYPE_CHECKING

from . import frames, parcels, slabs
from .exchange import Exchange
from .frames import Frame, FrameError, Kind

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    from .parcels import Entry


class Channel(Exchange):
    """Sends and receives frames, on any thread.

    ``next_frame`` gives the model's thread what is for it, ``on_frame`` gets what concerns requests and calls,
    ``on_end(reason)`` the end; both are called by whoever reads.
    """

    FOR_THE_MODEL = frozenset((Kind.EXECUTE, Kind.STATE, Kind.HELLO))
    OUTLIVES_A_FORK = True
    """Whether a fork of this process can ask for a channel of its own over it."""

    def __init__(self, sock: socket.socket, on_frame: Callable[[Frame], None], on_end: Callable[[str], None]) -> None:
        super().__init__(self._release)
        self.sock = sock
        self.pid = os.getpid()
        self.always_read = False
        """Whether the model's thread never does anything but read."""
        self._ended = False
        self._on_frame = on_frame
        self._on_end = on_end
        self._lock = threading.Lock()
        self._deferred: collections.deque[bytes] = collections.deque()
        self._released: collections.deque[int] = collections.deque()
        self._memory = memoryview(bytearray(frames.MAX_PACKET))
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self._inbox: queue.SimpleQueue[Frame | None] = queue.SimpleQueue()
        """What the reader thread has read for the model; None where it reads no more."""
        self._reading = threading.Lock()
        self._waiting: set[object] = set()
        self._dormant = False
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()

    def start(self) -> None:
        """Start the reader thread."""
        threading.Thread(target=self._read, name="infer-channel", daemon=True).start()

    def next_frame(self) -> Frame:
        """Wait for a frame for the model. Only its own thread calls this."""
        while self._inbox.empty() and self._reading.acquire(blocking=False):
            try:
                # The other reader leaves what it has read for the model before it stops reading.
                if not self._inbox.empty():
                    break
                frame = self._receive()
                if frame is not None:
                    return frame
            finally:
                self._reading.release()
        # The other reader may be about to stop: then it says so, and there is nobody else to read.
        frame = self._inbox.get()
        return self.next_frame() if frame is None else frame

    def take_waiting(self) -> None:
        """Read what has arrived; what is for the model waits in its inbox. Only its own thread calls this."""
        if not self._reading.acquire(blocking=False):
            return
        try:
            while not self._ended and self._poll.poll(0):
                frame = self._receive()
                if frame is not None:
                    self._inbox.put(frame)
        finally:
            self._reading.release()

    def expect(self, waiter: object) -> None:
        """Something waits for frames other than the model's next batch, until ``expect_no_more``."""
        if not self.always_read:
            self._waiting.add(waiter)
            self.attend()

    def expect_no_more(self, waiter: object) -> None:
        """It has got what it waited for."""
        self._waiting.discard(waiter)

    def read_until(self, arrived: Callable[[], bool], waiter: object) -> None:
        """Read until ``arrived()``; where another thread reads, have it go on until the ``waiter`` expects no more.

        For a thread that waits for a frame with all that the model executes.
        """
        # Where the model's thread always reads it would wait for what is read here, and not read when that is over.
        if self.always_read or not self._reading.acquire(blocking=False):
            self.expect(waiter)
            return
        try:
            # Asked only now: who has read before may have left it behind.
            while not arrived() and not self._ended:
                frame = self._receive()
                if frame is not None:
                    self._inbox.put(frame)
        finally:
            self._reading.release()

    def attend(self) -> None:
        """Have what has arrived read, also while the model executes."""
        if self._dormant and not self.always_read:
            self._dormant = False
            self._wake.put(None)

    def send(self, frame: bytes, descriptors: Sequence[int] = ()) -> None:
        """Send one frame; the descriptors are closed. Raises OSError where the server is gone."""
        owned = list(descriptors)
        try:
            if len(frame) > frames.MAX_PACKET:
                frame, descriptor = frames.overflow(frame)
                owned.insert(0, descriptor)
            with self._lock:
                if owned:
                    self.sock.sendmsg([frame], frames.rights(owned))
                else:
                    self.sock.send(frame)
        finally:
            for descriptor in owned:
                os.close(descriptor)
        if self._deferred or self._released:
            self.flush()

    def send_parcel(
        self,
        kind: int,
        frame_id: int,
        entries: Sequence[Entry],
        *,
        flags: int = 0,
        stamps: tuple[int, int, int, int] = parcels.NO_STAMPS,
    ) -> None:
        """Send requests or responses, their tensors in the frame or in a slab."""
        total = entries[0].layout.total if len(entries) == 1 else sum([entry.layout.total for entry in entries])
        if total <= parcels.INLINE_LIMIT:
            self.send(parcels.pack(kind, frame_id, entries, flags=flags, stamps=stamps))
            return
        slab = self.fill_slab(entries, total)
        descriptor = slab.take_descriptor()
        owned = [descriptor] if descriptor >= 0 else []
        self.send(
            parcels.pack(kind, frame_id, entries, flags=flags, stamps=stamps, slab=slab.id, descriptors=len(owned)),
            owned,
        )

    def post(self, frame: bytes) -> None:
        """Send a frame from a finaliser: soon, without waiting, and not from a fork of this process."""
        self._deferred.append(frame)
        self.flush()

    def flush(self) -> None:
        """Send what finalisers have left, unless someone is sending: then that one does it afterwards."""
        while (self._deferred or self._released) and self._lock.acquire(blocking=False):
            try:
                while self._deferred:
                    self.sock.send(self._deferred.popleft())
                ids: list[int] = []
                while self._released and len(ids) < 1000:  # noqa: PLR2004  what fits into a packet
                    ids.append(self._released.popleft())
                if ids:
                    self.sock.send(frames.pack_ids(Kind.RELEASE, ids))
            except OSError:
                self._deferred.clear()
                self._released.clear()
            finally:
                self._lock.release()

    def _release(self, slab_id: int) -> None:
        if os.getpid() == self.pid:
            self._released.append(slab_id)
            self.flush()

    def _read(self) -> None:
        while not self._ended:
            # Says that it sleeps before it looks for waiters, as they come forward before they look whether it does.
            self._dormant = True
            if not self._waiting:
                self._wake.get()
            self._dormant = False
            with self._reading:
                while not self._ended:
                    frame = self._receive()
                    if frame is not None:
                        self._inbox.put(frame)
                        if not self._waiting:
                            break
            if not self._ended:
                self._inbox.put(None)

    def _receive(self) -> Frame | None:
        """Take one frame; it is returned where it is for the model."""
        try:
            frame = frames.receive(self.sock, self._memory)
            if frame is None:
                self._end("the server closed the channel")
                return None
            if frame.descriptors:
                self.admit(frame)
            if frame.kind in self.FOR_THE_MODEL:
                return frame
            if frame.kind == Kind.RELEASE:
                answer = self.take_back(frame)
                if answer is not None:
                    self.post(answer)
            else:
                self._on_frame(frame)
        except (FrameError, slabs.SlabError, OSError) as exc:
            self._end(f"the channel broke: {exc}")
        return None

    def _end(self, reason: str) -> None:
        self._ended = True
        self._on_end(reason)
