"""Batches on their way to a worker: the tensors of large ones are copied on a pool thread, and the order stays."""

from __future__ import annotations

import asyncio
import collections
from typing import TYPE_CHECKING

from .worker import parcels
from .worker.frames import Kind

if TYPE_CHECKING:
    from ..api.backend import RunBlocking
    from .process import WorkerProcess
    from .threads import WorkerThread
    from .worker.parcels import Entry
    from .worker.slabs import Slab

LARGE = 2 * 1024 * 1024
"""Bytes of tensors whose copy would hold the loop for about a millisecond."""


class _Waiting:
    """A batch that cannot be sent before the tensors of one, its own or an earlier, are copied into their slab."""

    __slots__ = ("batch_id", "entries", "ready", "slab")

    def __init__(self, batch_id: int, entries: list[Entry], slab: Slab | None = None) -> None:
        self.batch_id = batch_id
        self.entries = entries
        self.slab = slab
        self.ready = slab is None


class Outbox:
    """Sends batches to one worker in the order in which they come, large ones without holding the loop."""

    def __init__(self, worker: WorkerProcess | WorkerThread, run_blocking: RunBlocking) -> None:
        self._worker = worker
        self._channel = worker.channel
        self._run_blocking = run_blocking
        self.signatures = worker.channel.signatures
        self._waiting: collections.deque[_Waiting] = collections.deque()

    @property
    def queued(self) -> int:
        """Batches that wait for a copy."""
        return len(self._waiting)

    def send(self, batch_id: int, entries: list[Entry]) -> None:
        """Send a batch, now or as soon as the large ones before it are copied."""
        total = entries[0].layout.total if len(entries) == 1 else sum([entry.layout.total for entry in entries])
        if total >= LARGE:
            self._send_large(batch_id, entries, total)
        elif self._waiting:
            # What is being copied goes first: batches are executed in the order they came.
            self._waiting.append(_Waiting(batch_id, entries))
        else:
            self._channel.send_parcel(Kind.EXECUTE, batch_id, entries)

    def clear(self) -> None:
        """The worker is gone: let go of what it does not get any more."""
        self._waiting.clear()

    def _send_large(self, batch_id: int, entries: list[Entry], total: int) -> None:
        """Copy the tensors on a pool thread, then send: the loop goes on meanwhile."""
        slab = self._channel.pool.take(total)
        waiting = _Waiting(batch_id, entries, slab)
        self._waiting.append(waiting)

        def copied(future: asyncio.Future[None]) -> None:
            error = future.exception()
            if error is not None:
                self._worker.kill(f"its inputs could not be copied: {error}")
            waiting.ready = True
            self._flush()

        copying = asyncio.ensure_future(self._run_blocking(parcels.fill, slab, entries))
        copying.add_done_callback(copied)

    def _flush(self) -> None:
        """Send what is copied, as far as nothing before it is still being copied."""
        while self._waiting and self._waiting[0].ready:
            waiting = self._waiting.popleft()
            if not self._channel.closed:
                self._channel.send_parcel(Kind.EXECUTE, waiting.batch_id, waiting.entries, slab=waiting.slab)
