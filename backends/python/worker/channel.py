"""The worker's end of a channel: one reader thread, one write lock, and nothing that waits for the other side.

The reader never blocks on anything but the socket, so cancels, replies and credit arrive while the model executes.
What a finaliser has to say (a slab is free, a request was dropped) may come up on any thread, also in the middle of a
send, so it is put aside and sent by whoever holds the lock next.
"""

from __future__ import annotations

import collections
import os
import threading
from typing import TYPE_CHECKING

import numpy as np

from . import frames, slabs
from .frames import Entry, Frame, FrameError, Kind, Parcel

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray


class Channel:
    """Sends and receives frames, on any thread.

    ``on_frame`` gets every frame that is not the channel's own business, ``on_end(reason)`` the end of it; both are
    called on the reader thread.
    """

    def __init__(self, sock: socket.socket, on_frame: Callable[[Frame], None], on_end: Callable[[str], None]) -> None:
        self.sock = sock
        self.pid = os.getpid()
        self.signatures = frames.Signatures()
        self._on_frame = on_frame
        self._on_end = on_end
        self._lock = threading.Lock()
        self._deferred: collections.deque[bytes] = collections.deque()
        self._released: collections.deque[int] = collections.deque()
        self.pool = slabs.SlabPool()
        self.slabs = slabs.SlabMap(self._release)

    def start(self) -> None:
        """Start the reader thread."""
        threading.Thread(target=self._read, name="infer-channel", daemon=True).start()

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
        stamps: tuple[int, int, int, int] = frames.NO_STAMPS,
    ) -> None:
        """Send requests or responses, their tensors in the frame or in a slab."""
        total = sum([entry.layout.total for entry in entries])
        if total <= frames.INLINE_LIMIT:
            self.send(frames.pack_parcel(kind, frame_id, entries, flags=flags, stamps=stamps))
            return
        slab = self.pool.take(total)
        start = 0
        for entry in entries:
            for offset, buffer, row in zip(entry.layout.offsets, entry.buffers, entry.layout.tensors):
                if row[3]:
                    slab.write(start + offset, buffer)
            start += entry.layout.total
        descriptor = slab.take_descriptor()
        owned = [descriptor] if descriptor >= 0 else []
        self.send(
            frames.pack_parcel(
                kind, frame_id, entries, flags=flags, stamps=stamps, slab=slab.id, descriptors=len(owned)
            ),
            owned,
        )

    def open_parcel(self, payload: bytearray) -> tuple[Parcel, bytearray | NDArray[np.uint8]]:
        """A received parcel and the memory its tensors are in. Raises FrameError."""
        parcel = frames.unpack_parcel(payload, self.signatures)
        if not parcel.slab:
            return parcel, payload
        try:
            return parcel, self.slabs.lease(parcel.slab, parcel.size)
        except slabs.SlabError as exc:
            raise FrameError(str(exc)) from exc

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
        memory = memoryview(bytearray(frames.MAX_PACKET))
        reason = "the server closed the channel"
        try:
            while (frame := frames.receive(self.sock, memory)) is not None:
                if frame.kind == Kind.RELEASE:
                    self._slabs_released(frame)
                    continue
                if frame.descriptors:
                    self._admit(frame)
                self._on_frame(frame)
        except (FrameError, slabs.SlabError, OSError) as exc:
            reason = f"the channel broke: {exc}"
        self._on_end(reason)

    def _slabs_released(self, frame: Frame) -> None:
        ids = frames.unpack_ids(frame.payload)
        if frame.flags & frames.FORGET:
            for slab_id in ids:
                self.slabs.forget(slab_id)
            return
        gone = [slab_id for slab_id in ids if not self.pool.give_back(slab_id)]
        if gone:
            self.post(frames.pack_ids(Kind.RELEASE, gone, flags=frames.FORGET))

    def _admit(self, frame: Frame) -> None:
        """Map the slab that came with a parcel, in the order of arrival."""
        _, slab_id, size, *_ = frames.PREFIX.unpack_from(frame.payload)
        descriptor = frame.descriptors.pop(0)
        self.slabs.admit(slab_id, descriptor, size)
        for other in frame.descriptors:
            os.close(other)
        frame.descriptors.clear()
