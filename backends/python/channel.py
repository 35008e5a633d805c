"""The server's end of a channel: frames out and in on the serving loop, which never waits for the other side.

What a full socket does not take waits in a queue here; reading goes on whatever happens to writing.
"""

from __future__ import annotations

import collections
import contextlib
import os
import struct
from typing import TYPE_CHECKING

from .worker import frames, parcels, slabs
from .worker.exchange import Exchange
from .worker.frames import Frame, FrameError, Kind

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Callable, Sequence

    from .worker.parcels import Entry

CLOSED = "the worker closed its channel"
"""The reason of an end that breaks no rule: the process has ended, or let go of its channel."""
_IDS_PER_FRAME = 1000
_FRAMES_A_TURN = 8
"""Frames that are read at one wake-up, while there are any."""
_LONELY_TURNS = 8
"""Wake-ups at which only one frame is read, once there was not a second one."""
_NO_MEMORY = memoryview(bytearray())


class Channel(Exchange):
    """One socket to a worker or zygote.

    ``on_frame`` gets every frame that is not the channel's own business, ``on_end(reason)`` is called once when the
    other side is gone or breaks the format. Serving loop only.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        on_frame: Callable[[Frame], None],
        on_end: Callable[[str], None],
    ) -> None:
        super().__init__(self._release)
        sock.setblocking(False)  # noqa: FBT003  positional only
        self._loop = loop
        self._sock = sock
        self._on_frame = on_frame
        self._on_end = on_end
        self._memory = memoryview(bytearray(frames.MAX_PACKET))
        self._outgoing: collections.deque[tuple[bytes, list[int]]] = collections.deque()
        self._released: collections.deque[int] = collections.deque()
        self._flush_scheduled = False
        self._lonely = 0
        """Wake-ups for which a second frame is not looked for."""
        self.closed = False
        loop.add_reader(sock.fileno(), self._read_one)

    @property
    def queued(self) -> int:
        """Frames that wait for the socket."""
        return len(self._outgoing)

    def send(self, frame: bytes, descriptors: list[int] | None = None) -> None:
        """Send one frame, now or as soon as the socket takes it; the descriptors are closed afterwards."""
        if not (descriptors or self._outgoing or self.closed) and len(frame) <= frames.MAX_PACKET:
            # PERF: what nearly every frame is.
            try:
                self._sock.send(frame)
            except BlockingIOError:
                pass
            except OSError:
                return
            else:
                return
        owned = descriptors or []
        if self.closed:
            _close_all(owned)
            return
        if len(frame) > frames.MAX_PACKET:
            frame, descriptor = frames.overflow(frame)
            owned = [descriptor, *owned]
        if self._outgoing or not self._transmit(frame, owned):
            if not self._outgoing:
                self._loop.add_writer(self._sock.fileno(), self._writable)
            self._outgoing.append((frame, owned))

    def send_parcel(
        self, kind: int, frame_id: int, entries: Sequence[Entry], *, flags: int = 0, slab: slabs.Slab | None = None
    ) -> None:
        """Send requests or responses; tensors beyond INLINE_LIMIT go into a slab (or are in the given one)."""
        if slab is None:
            total = entries[0].layout.total if len(entries) == 1 else sum([entry.layout.total for entry in entries])
            if total <= parcels.INLINE_LIMIT:
                self.send(parcels.pack(kind, frame_id, entries, flags=flags))
                return
            slab = self.fill_slab(entries, total)
        descriptor = slab.take_descriptor()
        owned = [descriptor] if descriptor >= 0 else []
        self.send(parcels.pack(kind, frame_id, entries, flags=flags, slab=slab.id, descriptors=len(owned)), owned)

    def close(self) -> None:
        """Stop and close the socket; ``on_end`` is not called. Memory under a lease stays as long as it is used."""
        if self.closed:
            return
        self.closed = True
        self._loop.remove_reader(self._sock.fileno())
        if self._outgoing:
            self._loop.remove_writer(self._sock.fileno())
        for _, descriptors in self._outgoing:
            _close_all(descriptors)
        self._outgoing.clear()
        self._sock.close()
        self.pool.close()
        self.slabs.close()
        # Its owner knows it and is known here. Cut, both go at once, with the memory: rounds that look for circles
        # are rare in a server, and models come and go.
        self._memory = _NO_MEMORY
        self._on_frame = self._on_end = _ignore

    def drain(self) -> None:
        """Take the frames that have arrived; for a peer that is known to be dead."""
        while not self.closed and self._read_one():
            pass

    def _transmit(self, frame: bytes, descriptors: list[int]) -> bool:
        """Whether the socket took it. A socket whose other end is gone takes everything: reading reports the end."""
        try:
            if descriptors:
                self._sock.sendmsg([frame], frames.rights(descriptors))
            else:
                self._sock.send(frame)
        except BlockingIOError:
            return False
        except OSError:
            pass
        if descriptors:
            _close_all(descriptors)
        return True

    def _writable(self) -> None:
        while self._outgoing:
            frame, descriptors = self._outgoing[0]
            if not self._transmit(frame, descriptors):
                return
            self._outgoing.popleft()
        self._loop.remove_writer(self._sock.fileno())

    def _readable(self) -> None:
        """Take what has arrived: a few frames at most, which keeps many channels fair.

        PERF: to be woken takes longer than to read, but to look in vain is not free either.
        """
        if self._lonely:
            self._lonely -= 1
            self._read_one()
            return
        for count in range(_FRAMES_A_TURN):
            if not self._read_one():
                if count == 1:
                    self._lonely = _LONELY_TURNS
                return

    def _read_one(self) -> bool:
        """Take one frame; False where there is none (any more)."""
        if self.closed:
            return False
        try:
            frame = frames.receive(self._sock, self._memory)
            if frame is None:
                self._end(CLOSED)
                return False
            if frame.kind == Kind.RELEASE:
                answer = self.take_back(frame)
                if answer is not None:
                    self.send(answer)
                return True
            if frame.descriptors and frame.kind in (Kind.RESPONSE, Kind.FINAL, Kind.CALL):
                self.admit(frame)
            self._on_frame(frame)
        except BlockingIOError:
            return False
        except (FrameError, slabs.SlabError, OSError, ValueError, KeyError, struct.error) as exc:
            # A side that closes with frames unread resets the connection.
            self._end(CLOSED if isinstance(exc, ConnectionResetError) else f"the channel broke: {exc}")
            return False
        return True

    def _end(self, reason: str) -> None:
        if not self.closed:
            on_end = self._on_end
            self.close()
            on_end(reason)

    def _release(self, slab_id: int) -> None:
        """A lease is over; may be any thread, and in the middle of anything."""
        self._released.append(slab_id)
        if not self._flush_scheduled and not self.closed:
            self._flush_scheduled = True
            with contextlib.suppress(RuntimeError):  # a loop that is closed needs no slabs
                self._loop.call_soon_threadsafe(self._flush)

    def _flush(self) -> None:
        self._flush_scheduled = False
        while self._released and not self.closed:
            count = min(len(self._released), _IDS_PER_FRAME)
            self.send(frames.pack_ids(Kind.RELEASE, [self._released.popleft() for _ in range(count)]))


def _close_all(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _ignore(*_: object) -> None:
    return
