"""Instances on their way out of a model that goes on serving: they take nothing more, end what they have, are closed.

What an instance has is the batches that it was handed, and the requests of a decoupled model that it still answers
after their batch is done.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Iterable

    from .pool import InstanceSlot
    from .ticket import Ticket


class Leaving:
    """The instances of one model version that leave. Serving loop only.

    :param executing: the requests that any instance of the version executes, as they are at each moment.
    :param close: closes an instance; it does not raise.
    """

    __slots__ = ("_close", "_closing", "_executing", "slots")

    def __init__(
        self, executing: Collection[Ticket], close: Callable[[InstanceSlot], Coroutine[None, None, None]]
    ) -> None:
        self.slots: list[InstanceSlot] = []
        """Those that still have something to end."""
        self._executing = executing
        self._close = close
        self._closing: set[asyncio.Task[None]] = set()

    def take(self, slots: Iterable[InstanceSlot]) -> None:
        """Have instances leave that are no longer in the pool."""
        self.slots += slots
        self.look()

    def look(self) -> None:
        """Close those that have nothing left to do. To be called whenever a batch or a request has come to its end."""
        if not self.slots:
            return
        at_work = {ticket.instance for ticket in self._executing}
        done = [slot for slot in self.slots if not slot.batches and slot.instance not in at_work]
        for slot in done:
            self._let_go(slot)

    async def finish(self) -> None:
        """Close all of them, whatever they still do, and wait until they are closed."""
        for slot in tuple(self.slots):
            self._let_go(slot)
        if self._closing:
            await asyncio.gather(*self._closing)

    def _let_go(self, slot: InstanceSlot) -> None:
        self.slots.remove(slot)
        task = asyncio.get_running_loop().create_task(self._close(slot))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
