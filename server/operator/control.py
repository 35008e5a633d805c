"""Changes asked for at the operator's door: who may ask, how many at a time, and how long they are waited for."""

from __future__ import annotations

import asyncio
import concurrent.futures
import ipaddress
import threading
from typing import TYPE_CHECKING, Any

from ...backends.api.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping


def refusal(remote_address: str, headers: Mapping[str, str]) -> str | None:
    """Why this client may not change anything, as a sentence, or None.

    Only a process on this machine may. A proxy on this machine speaks for others, and a browser for whatever page
    it shows: both give themselves away by a header that a command line client does not send.
    """
    try:
        address = ipaddress.ip_address(remote_address.partition("%")[0])
    except ValueError:
        return f"changes are taken from this machine only, not from '{remote_address}'"
    mapped = getattr(address, "ipv4_mapped", None)
    if not (mapped or address).is_loopback:
        return f"changes are taken from this machine only, not from {remote_address}"
    names = {name.lower() for name in headers}
    for telling in ("forwarded", "x-forwarded-for", "origin", "sec-fetch-site"):
        if telling in names:
            return f"changes are not taken through a proxy or a browser (header '{telling}')"
    return None


class Control:
    """Runs coroutines on the serving loop for threads of the door, few at a time, each with a limit.

    The limit on their number keeps threads free for what only reads: the door answers while models load.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, slots: int, timeout_s: float) -> None:
        """``slots`` is how many may run at a time, ``timeout_s`` how long each is waited for."""
        self._loop = loop
        self._slots = slots
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._running: set[concurrent.futures.Future[Any]] = set()
        self._closed = False

    def run(self, what: str, coroutine: Coroutine[Any, Any, object]) -> None:
        """Run it and wait; ``what`` names it in a message.

        Raises what the coroutine raises; Unavailable when there is no slot, the time is over (the change itself goes
        on) or the server stops.
        """
        future = self._submit(what, coroutine)
        try:
            future.result(self._timeout_s)
        except concurrent.futures.CancelledError as error:
            raise Unavailable(f"{what}: the server is stopping") from error
        except concurrent.futures.TimeoutError as error:
            message = f"{what}: not done after {self._timeout_s:g} s and still under way; ask the index for its state"
            raise Unavailable(message) from error
        finally:
            with self._lock:
                self._running.discard(future)

    def close(self) -> None:
        """Refuse what comes, and let those who wait go."""
        with self._lock:
            self._closed = True
            running = tuple(self._running)
        for future in running:
            future.cancel()

    def _submit(self, what: str, coroutine: Coroutine[Any, Any, object]) -> concurrent.futures.Future[object]:
        with self._lock:
            if self._closed or len(self._running) >= self._slots:
                coroutine.close()
                if self._closed:
                    raise Unavailable(f"{what}: the server is stopping")
                raise Unavailable(f"{what}: {self._slots} changes are under way already; ask again when one is done")
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
            self._running.add(future)
            return future
