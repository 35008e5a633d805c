"""Slabs: memfds that carry large tensors between two processes.

Their creator seals them against shrinking and growing, because reading a mapping behind the end of a truncated file
kills the reader with SIGBUS; the receiver checks seals and size before it maps. Touching fresh memory is what makes a
slab slow (9.6 ms for 10 MB, 0.4 ms warm), so the creator keeps them in a pool and both sides keep their mappings.
A slab is used again only after its receiver has said RELEASE, which it does when the last array over it is gone:
who keeps a view never sees another message in it.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
SMALLEST = 128 * 1024
IDLE_LIMIT = 128 * 1024 * 1024
"""Bytes of unused slabs that a pool keeps warm."""


class SlabError(Exception):
    """A descriptor that must not be mapped: unsealed, too small, or no memfd at all."""


def create(size: int) -> int:
    """The descriptor of a new sealed memfd of ``size`` bytes."""
    descriptor = os.memfd_create("infer-slab", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(descriptor, size)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SEALS | fcntl.F_SEAL_SEAL)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def check(descriptor: int, size: int) -> int:
    """The size of a received memfd. Raises SlabError unless it is sealed and holds at least ``size`` bytes."""
    try:
        seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
        actual = os.fstat(descriptor).st_size
    except OSError as exc:
        msg = f"received descriptor is not a memfd: {exc}"
        raise SlabError(msg) from exc
    if seals & SEALS != SEALS:
        msg = f"received slab of {actual} bytes is not sealed against shrinking and growing"
        raise SlabError(msg)
    if actual < size:
        msg = f"received slab holds {actual} bytes and should hold {size}"
        raise SlabError(msg)
    return actual


def from_bytes(data: memoryview) -> int:
    """The descriptor of a sealed memfd that holds ``data``."""
    descriptor = create(data.nbytes)
    position = 0
    while position < data.nbytes:
        position += os.pwrite(descriptor, data[position:], position)
    return descriptor


def to_bytes(descriptor: int, size: int) -> bytearray:
    """The first ``size`` bytes of a received memfd, by reading. Raises SlabError."""
    check(descriptor, size)
    data = bytearray(size)
    view = memoryview(data)
    position = 0
    while position < size:
        count = os.preadv(descriptor, [view[position:]], position)
        if not count:
            msg = f"received memfd ends after {position} of {size} bytes"
            raise SlabError(msg)
        position += count
    return data


class Slab:
    """One memfd of the creator's. ``descriptor`` is -1 once it has been handed over."""

    __slots__ = ("descriptor", "id", "memory", "size")

    def __init__(self, slab_id: int, size: int) -> None:
        self.id = slab_id
        self.size = size
        self.descriptor = create(size)
        self.memory: NDArray[np.uint8] = np.frombuffer(mmap.mmap(self.descriptor, size), dtype=np.uint8)

    def write(self, offset: int, data: Any) -> int:  # noqa: ANN401  any bytes-like object
        """Copy one tensor in (the interpreter lock is free meanwhile) and return its length."""
        source: NDArray[np.uint8] = np.frombuffer(data, dtype=np.uint8)
        self.memory[offset : offset + source.size] = source
        return source.size

    def take_descriptor(self) -> int:
        """The descriptor, to hand over with the first message; -1 later, when the receiver has its mapping."""
        descriptor, self.descriptor = self.descriptor, -1
        return descriptor

    def close(self) -> None:
        """Let go of it; the memory goes when nothing maps it any more."""
        descriptor = self.take_descriptor()
        if descriptor >= 0:
            os.close(descriptor)


class SlabPool:
    """The slabs that one side of a channel has created. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[int, list[Slab]] = {}
        self._used: dict[int, Slab] = {}
        self._idle_bytes = 0
        self._last_id = 0

    def take(self, size: int) -> Slab:
        """A slab of at least ``size`` bytes: a warm one, or a new one."""
        capacity = max(SMALLEST, 1 << (size - 1).bit_length())
        with self._lock:
            idle = self._idle.get(capacity)
            if idle:
                slab = idle.pop()
                self._idle_bytes -= capacity
            else:
                self._last_id += 1
                slab = Slab(self._last_id, capacity)
            self._used[slab.id] = slab
            return slab

    def give_back(self, slab_id: int) -> bool:
        """The receiver is done with it. Returns False where the pool is full and the receiver should forget it."""
        with self._lock:
            slab = self._used.pop(slab_id, None)
            if slab is None:
                return True
            if self._idle_bytes + slab.size > IDLE_LIMIT:
                slab.close()
                return False
            self._idle_bytes += slab.size
            self._idle.setdefault(slab.size, []).append(slab)
            return True

    def close(self) -> None:
        """Let go of all slabs."""
        with self._lock:
            for slab in [*self._used.values(), *(slab for idle in self._idle.values() for slab in idle)]:
                slab.close()
            self._used.clear()
            self._idle.clear()
            self._idle_bytes = 0

    @property
    def counts(self) -> tuple[int, int]:
        """How many slabs are in use, and how many idle."""
        with self._lock:
            return len(self._used), sum(map(len, self._idle.values()))


class SlabMap:
    """The slabs of the other side, mapped here. ``on_release(id)`` is called when a lease ends, on any thread."""

    def __init__(self, on_release: Callable[[int], None]) -> None:
        self._on_release = on_release
        self._maps: dict[int, mmap.mmap] = {}
        self._leases: dict[int, weakref.ref[NDArray[np.uint8]]] = {}

    def admit(self, slab_id: int, descriptor: int, size: int) -> None:
        """Map a slab that was handed over; the descriptor is closed. Raises SlabError."""
        try:
            self._maps[slab_id] = mmap.mmap(descriptor, check(descriptor, size))
        except OSError as exc:
            msg = f"received slab cannot be mapped: {exc}"
            raise SlabError(msg) from exc
        finally:
            os.close(descriptor)

    def lease(self, slab_id: int, size: int) -> NDArray[np.uint8]:
        """The first ``size`` bytes of a slab, for as long as any array or view over them lives. Raises SlabError."""
        mapping = self._maps.get(slab_id)
        if mapping is None or len(mapping) < size or slab_id in self._leases:
            msg = f"slab {slab_id} is unknown, in use, or holds less than {size} bytes"
            raise SlabError(msg)
        lease: NDArray[np.uint8] = np.frombuffer(mapping, dtype=np.uint8, count=size)

        def over(_: weakref.ref[NDArray[np.uint8]]) -> None:
            self._leases.pop(slab_id, None)
            self._on_release(slab_id)

        self._leases[slab_id] = weakref.ref(lease, over)
        return lease

    def forget(self, slab_id: int) -> None:
        """Its creator has let go of it."""
        self._maps.pop(slab_id, None)

    def close(self) -> None:
        """Drop the mappings; those under a lease go with it, and nobody is told."""
        self._leases.clear()
        self._maps.clear()
        self._on_release = _ignore


def _ignore(_: int) -> None:
    return
