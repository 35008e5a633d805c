"""Batches on their way to a worker: large ones are copied elsewhere, and nothing overtakes them."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

import pytest

from infer.backends.python.channel import Channel
from infer.backends.python.outbox import LARGE, Outbox
from infer.backends.python.worker import frames, parcels
from infer.backends.python.worker.parcels import Entry, Layout

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


class Rig:
    """An outbox over a real channel. Copies are made when the test says so."""

    def __init__(self) -> None:
        own, self.peer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        loop = asyncio.get_running_loop()
        self.channel = Channel(loop, own, lambda _: None, lambda _: None)
        self.killed: list[str] = []
        self.copies: list[tuple[asyncio.Future[None], Callable[[], None]]] = []
        self.outbox = Outbox(self, self._run_blocking)  # pyright: ignore[reportArgumentType]

    def kill(self, reason: str) -> None:
        """What a WorkerProcess does."""
        self.killed.append(reason)

    def _run_blocking(self, function: Callable[..., None], /, *args: Any) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.copies.append((future, lambda: function(*args)))
        return future

    async def copy(self, index: int, error: Exception | None = None) -> None:
        """Make a copy, or fail it, and let its callback run."""
        future, function = self.copies[index]
        if error is None:
            function()
            future.set_result(None)
        else:
            future.set_exception(error)
        seen = asyncio.Event()
        future.add_done_callback(lambda _: seen.set())
        await seen.wait()

    def sent(self) -> list[int]:
        """The ids of the batches that have arrived at the worker."""
        memory = memoryview(bytearray(frames.MAX_PACKET))
        self.peer.setblocking(False)
        found: list[int] = []
        while True:
            try:
                frame = frames.receive(self.peer, memory)
            except BlockingIOError:
                return found
            assert frame is not None
            found.append(frame.id)
            for descriptor in frame.descriptors:
                socket.close(descriptor)


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    rig = Rig()
    yield rig
    rig.channel.close()
    rig.peer.close()


def batch(size: int) -> list[Entry]:
    """A batch of one request with so many bytes."""
    return [Entry(1, Layout(("m", 1, ()), (("IN", "INT8", (size,), size),)), [bytes(size)])]


async def test_a_small_batch_is_sent_at_once(rig: Rig) -> None:
    rig.outbox.send(1, batch(100))
    rig.outbox.send(2, batch(2 * parcels.INLINE_LIMIT))
    assert rig.sent() == [1, 2]
    assert rig.copies == []


async def test_batches_are_sent_in_their_order_whatever_copy_is_ready_first(rig: Rig) -> None:
    rig.outbox.send(1, batch(LARGE))
    rig.outbox.send(2, batch(100))
    rig.outbox.send(3, batch(LARGE))
    rig.outbox.send(4, batch(100))
    assert (rig.sent(), rig.outbox.queued) == ([], 4)
    await rig.copy(1)
    assert rig.sent() == []
    await rig.copy(0)
    assert (rig.sent(), rig.outbox.queued) == ([1, 2, 3, 4], 0)
    rig.outbox.send(5, batch(100))
    assert rig.sent() == [5]


async def test_what_is_ready_goes_before_the_next_copy_is(rig: Rig) -> None:
    for number, size in enumerate((LARGE, 100, LARGE), 1):
        rig.outbox.send(number, batch(size))
    await rig.copy(0)
    assert rig.sent() == [1, 2]
    await rig.copy(1)
    assert rig.sent() == [3]


async def test_a_copy_that_fails_ends_the_worker(rig: Rig) -> None:
    rig.outbox.send(1, batch(LARGE))
    await rig.copy(0, MemoryError("no memory"))
    assert rig.killed == ["its inputs could not be copied: no memory"]


async def test_what_waits_when_the_worker_dies_is_dropped(rig: Rig) -> None:
    rig.outbox.send(1, batch(LARGE))
    rig.outbox.send(2, batch(100))
    rig.outbox.clear()
    await rig.copy(0)
    assert (rig.sent(), rig.outbox.queued) == ([], 0)


async def test_a_copy_that_outlives_the_channel_goes_nowhere(rig: Rig) -> None:
    rig.outbox.send(1, batch(LARGE))
    rig.channel.close()
    await rig.copy(0)
    assert (rig.killed, rig.outbox.queued) == ([], 0)
