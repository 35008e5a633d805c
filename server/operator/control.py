"""Who may change things and read the log at the operator's door, how many changes there may be, and how long they take.

The log is guarded as changes are: it may quote what clients sent, and the port listens on every interface by default.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import hmac
import threading
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import falcon

from ...backends.api.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Coroutine

OVER_SOCKET: Final = "infer.control_socket"
"""Set in the WSGI environment of a request that came over the control socket; no header can set it."""


class Refusal(NamedTuple):
    """Why a client does not get what it asks for: an HTTP status and a sentence."""

    status: int
    sentence: str


def refusal(
    key: str, authorization: str | None, *, over_socket: bool, origin: str | None = None, what: str = "changes"
) -> Refusal | None:
    """Why this client does not get ``what`` (a plural, in the words of the sentence), or None.

    Who reaches the control socket may, since only the server's own user can. Others show the ``key``; where that is
    "" nobody else may. A page in a browser sends ``origin``, and may not whatever it shows.
    """
    if origin is not None:
        return Refusal(403, f"no {what} for a page in a browser (header 'origin')")
    if over_socket:
        return None
    if not key:
        return Refusal(
            403,
            f"this server has no control key, so there are no {what} over TCP; "
            "start it with --control-key-file FILE, or use its control socket",
        )
    if authorization is None:
        return Refusal(
            401,
            f"{what} want the server's control key: send 'Authorization: Bearer KEY' (the command line takes it from "
            "INFER_CONTROL_KEY), or use the control socket on the server's machine",
        )
    scheme, _, shown = authorization.partition(" ")
    if scheme.lower() == "bearer" and hmac.compare_digest(shown.strip().encode(), key.encode()):
        return None
    return Refusal(
        403,
        "this is not the control key of this server; send 'Authorization: Bearer KEY' with the one that it was started "
        "with",
    )


class Gate:
    """Who may change things, and read the log, at the door of one server."""

    def __init__(self, key: str) -> None:
        """``key`` "" lets nobody in but over the control socket."""
        self._key = key

    def check(self, req: falcon.Request, what: str = "changes") -> None:
        """Let a request pass, or raise falcon's 401 or 403 with the sentence that says why it may not have ``what``."""
        found = self.refusal(req, what)
        if found is None:
            return
        if found.status == HTTPStatus.UNAUTHORIZED:
            raise falcon.HTTPUnauthorized(description=found.sentence, challenges=["Bearer"])
        raise falcon.HTTPForbidden(description=found.sentence)

    def refusal(self, req: falcon.Request, what: str = "changes") -> Refusal | None:
        """Why this request may not have ``what``, or None."""
        return refusal(
            self._key,
            req.get_header("Authorization"),
            over_socket=bool(req.env.get(OVER_SOCKET, False)),
            origin=req.get_header("Origin"),
            what=what,
        )


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
