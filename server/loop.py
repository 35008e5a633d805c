"""The serving loop: one thread that runs uvloop, and the ways into it from other threads."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import TYPE_CHECKING, Any, TypeVar

import uvloop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")

SWITCH_INTERVAL_S = 0.0005
"""How long another thread may keep the GIL while the loop waits for it.

At CPython's default of 5 ms one busy Python thread beside the loop takes nine tenths of its throughput.
"""

_STOPPED = "the serving loop has stopped"


class ServingLoop:
    """One thread that owns both doors, every queue and every scheduler."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="serving-loop", daemon=True)
        self._lock = threading.Lock()
        self._stopping = False

    @property
    def runs(self) -> bool:
        """Whether it was started and has not stopped."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start the thread."""
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        self._thread.start()

    def stop(self) -> None:
        """Stop the loop and join its thread. Work that is still scheduled is cancelled."""
        with self._lock:
            # From here on nothing comes behind the last round, where it would wait for ever.
            self._stopping = True
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._cancel_tasks(), self.loop).result()
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()
        if not self.loop.is_closed():
            self.loop.close()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for its result. Any thread but the loop's own.

        Raises RuntimeError once the loop stops, and CancelledError (of ``concurrent.futures``) for what that ends.
        """
        with self._lock:
            if self._stopping:
                coroutine.close()
                raise RuntimeError(_STOPPED)
            result = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        return result.result()

    def call_soon(self, function: Callable[..., object], *args: object) -> None:
        """Call a function on the loop soon. Any thread. Raises RuntimeError once the loop stops."""
        with self._lock:
            if self._stopping:
                raise RuntimeError(_STOPPED)
            self.loop.call_soon_threadsafe(function, *args)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    @staticmethod
    async def _cancel_tasks() -> None:
        current = asyncio.current_task()
        tasks = [task for task in asyncio.all_tasks() if task is not current]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
