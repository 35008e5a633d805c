"""Asks the server for its picture, again and again, beside the dashboard's loop.

One request is in flight at most. A request runs in a thread, so a server that does not answer never holds the screen
up; what comes back, and every change of the link, is a message.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from .cadence import Link, State, next_interval
from .failure import ClientError
from .messages import LinkChanged, Pictured

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.message import Message

    from .snapshot import Overview
    from .source import Source

TICK_S = 1.0
"""How often a countdown, or the wait for an answer, is shown anew."""


class Poller:
    """Asks one source. :meth:`run` is a worker of the app; the rest is called on the same loop."""

    def __init__(self, source: Source, post: Callable[[Message], object], interval_s: float) -> None:
        """``post`` takes the messages Pictured and LinkChanged."""
        self._source = source
        self._post = post
        self.link = Link(interval_s=interval_s)
        self._hurry = asyncio.Event()

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            if self.link.state is State.PAUSED:
                await self._hurry.wait()
                self._hurry.clear()
                continue
            await self._ask()
            await self._rest()

    def now(self) -> None:
        """Ask at once, whatever the interval says."""
        self._hurry.set()

    def step_interval(self, step: int) -> None:
        """Longer (1) or shorter (-1) intervals, from now on."""
        self._change(self.link.at_interval(next_interval(self.link.interval_s, step)))
        self._hurry.set()

    def toggle_pause(self) -> None:
        """Stop asking, or go on."""
        self._change(self.link.paused(self.link.state is not State.PAUSED))
        self._hurry.set()

    async def _ask(self) -> None:
        call = asyncio.ensure_future(asyncio.to_thread(self._source.overview))
        try:
            overview = await self._answer(call)
        except ClientError as error:
            if self.link.state is not State.PAUSED:
                self._change(self.link.failed(error))
            return
        if self.link.state is not State.PAUSED:
            self._change(self.link.answered())
            self._post(Pictured(overview))

    async def _answer(self, call: asyncio.Future[Overview]) -> Overview:
        waited = 0.0
        while True:
            done, _ = await asyncio.wait({call}, timeout=TICK_S)
            if done:
                return call.result()
            waited += TICK_S
            if self.link.state is not State.PAUSED:
                self._change(self.link.waiting(waited))

    async def _rest(self) -> None:
        """Wait for the next turn, counting down where the server is away; a key press cuts it short."""
        left = self.link.retry_in_s if self.link.state is State.LOST else self.link.interval_s
        while left > 0 and not self._hurry.is_set():
            step = min(left, TICK_S)
            try:
                await asyncio.wait_for(self._hurry.wait(), step)
            except TimeoutError:
                left -= step
                if self.link.state is State.LOST:
                    self._change(self.link.counted_down(step))
        self._hurry.clear()

    def _change(self, link: Link) -> None:
        if link != self.link:
            self.link = link
            self._post(LinkChanged(link))
