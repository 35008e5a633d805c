"""Calls to other models from inside a model (BLS): the worker's side.

A call is answered by whoever reads the channel. The thread that executes reads itself while it waits for its call, any
other thread waits on a queue; a coroutine is woken by its event loop, so that as many calls as one likes wait without a
thread each.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from typing import TYPE_CHECKING, Any

from . import frames, parcels
from .errors import TritonError, TritonErrorCode, TritonModelException
from .frames import Kind
from .response import InferenceResponse
from .runtime import BATCH, RUNTIME, credit_frame
from .waiting import is_waiting

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator

    from .request import InferenceRequest

DOUBT_S = 1.0
"""How often a call of another thread that has no response yet looks whether the whole execution waits for it."""


class Call:
    """One call under way. One thread at a time waits for its responses, or any number of coroutines.

    ``doubtful``: it is made beside the execution, which may or may not wait for it. ``alone``: the execution waits for
    its one response and does nothing meanwhile.
    """

    __slots__ = (
        "_abandoned",
        "_alone",
        "_channel",
        "_doubtful",
        "_replies",
        "_taken",
        "_watchers",
        "id",
        "over",
    )

    def __init__(self, call_id: int, *, doubtful: bool = False, alone: bool = False) -> None:
        self.id = call_id
        self.over = False
        self._replies: queue.SimpleQueue[bytearray] = queue.SimpleQueue()
        self._watchers: list[tuple[asyncio.AbstractEventLoop, Callable[[], None]]] = []
        self._doubtful = doubtful
        self._alone = alone
        self._taken = 0
        self._channel = RUNTIME.channel()
        self._abandoned = False
        RUNTIME.calls[call_id] = self._take
        if not alone:
            self._channel.expect(self)

    @property
    def has_response(self) -> bool:
        """Whether there is one that need not be waited for."""
        return not self._replies.empty()

    def next_response(self) -> InferenceResponse:
        """Wait for the next response; ``over`` is set with the last one."""
        if self._alone:
            self._channel.read_until(self._has_reply, self)
        payload = self._replies.get() if not self._doubtful else self._first_reply()
        if not payload:
            self.close()
            return InferenceResponse(error=TritonError("the server closed the channel", TritonErrorCode.UNAVAILABLE))
        parcel, memory = self._channel.open_parcel(payload)
        item = parcel.items[0]
        if item.flags & parcels.ENTRY_FINAL:
            self.close()
        else:
            self._acknowledge()
        return InferenceResponse.received(item, memory)

    def when_response(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        """Have ``callback`` called on the loop, once or twice, when there is a response that need not be waited for."""
        self._watchers.append((loop, callback))
        if self.over or self.has_response:
            self._tell_watchers()

    def cancel(self) -> None:
        """Ask for the end of the call; its last response still comes."""
        if not self.over:
            self._channel.send(frames.pack(Kind.CANCEL, self.id))

    def give_up(self) -> None:
        """Cancel the call and let what still comes pass by."""
        self.cancel()
        self.abandon()

    def abandon(self) -> None:
        """Nobody reads its responses any more: let them pass, so that it does not stand still at its credit's end.

        Called by a finaliser, so it does not wait; and not for a call that this process has inherited by a fork.
        """
        if not self.over and self._channel.pid == os.getpid():
            self._abandoned = True
            self._discard()

    def close(self) -> None:
        """Its last response has come."""
        self.over = True
        RUNTIME.calls.pop(self.id, None)
        self._channel.expect_no_more(self)
        if self._watchers:
            self._tell_watchers()

    def _has_reply(self) -> bool:
        return not self._replies.empty()

    def _take(self, payload: bytearray) -> None:
        self._replies.put(payload)
        if self._abandoned:
            self._discard()
        elif self._watchers:
            self._tell_watchers()

    def _tell_watchers(self) -> None:
        # One by one from the one list, as another thread may add to it or tell them, too.
        with contextlib.suppress(IndexError):
            while True:
                loop, callback = self._watchers.pop()
                with contextlib.suppress(RuntimeError):  # a loop that is closed waits for nothing
                    loop.call_soon_threadsafe(callback)

    def _first_reply(self) -> bytearray:
        while True:
            try:
                payload = self._replies.get(timeout=DOUBT_S)
            except queue.Empty:
                thread = RUNTIME.busy_thread
                if thread and is_waiting(thread):
                    self._channel.send(credit_frame(self.id, 0, flags=frames.BLOCKING))
            else:
                self._doubtful = False
                return payload

    def _discard(self) -> None:
        while not self.over:
            try:
                payload = self._replies.get_nowait()
            except queue.Empty:
                return
            parcel = self._channel.open_parcel(payload)[0] if payload else None
            if parcel is None or parcel.items[0].flags & parcels.ENTRY_FINAL:
                self.close()
            else:
                self._channel.post(credit_frame(self.id, 1))

    def _acknowledge(self) -> None:
        self._taken += 1
        if self._taken >= frames.WINDOW // 2:
            self._channel.send(credit_frame(self.id, self._taken))
            self._taken = 0


class ResponseIterator:
    """The responses of a decoupled call, as they come. A second iteration starts over with those that have come.

    ``for`` waits for each with the whole thread; in a coroutine ``async for`` lets others go on meanwhile. Threads and
    coroutines that share one get each response once.
    """

    def __init__(self, call: Call) -> None:
        self._call = call
        self._lock = threading.Lock()
        self._responses = [call.next_response()]
        self._position = 0

    def __del__(self) -> None:
        call = getattr(self, "_call", None)
        if call is not None:
            call.abandon()

    def __iter__(self) -> Iterator[InferenceResponse]:
        self._start_over()
        return self

    def __next__(self) -> InferenceResponse:
        with self._lock:
            if self._position >= len(self._responses):
                if self._call.over:
                    raise StopIteration
                self._responses.append(self._call.next_response())
            self._position += 1
            return self._responses[self._position - 1]

    def __aiter__(self) -> ResponseIterator:
        self._start_over()
        return self

    async def __anext__(self) -> InferenceResponse:
        while self._position >= len(self._responses) and not self._call.has_response:
            # Others that iterate may have taken what has come meanwhile.
            if self._call.over:
                raise StopAsyncIteration
            await _response_of(self._call)
        try:
            return next(self)
        except StopIteration:
            raise StopAsyncIteration from None

    def cancel(self) -> None:
        """Ask the model to stop; it still ends with a last response. Safe after the end."""
        self._call.cancel()

    def _start_over(self) -> None:
        if self._call.over and self._position >= len(self._responses):
            self._position = 0


def execute(request: InferenceRequest, *, decoupled: bool) -> InferenceResponse | ResponseIterator:
    """Send the request and wait for the response, or with ``decoupled`` for the first one.

    Raises TritonModelException while the model is not serving.
    """
    call = _send(request, decoupled=decoupled, blocking=threading.get_ident() == RUNTIME.busy_thread)
    return _result(call, decoupled=decoupled)


def start(request: InferenceRequest, *, decoupled: bool) -> asyncio.Future[Any]:
    """Send the request: a future of the running loop with what :func:`execute` returns. Cancelling it ends the call.

    Raises TritonModelException while the model is not serving.
    """
    import asyncio  # noqa: PLC0415  most models, and the zygote, do without

    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    call = _send(request, decoupled=decoupled, blocking=False)

    def answer() -> None:
        if not future.done():
            future.set_result(_result(call, decoupled=decoupled))

    def ended(future: asyncio.Future[Any]) -> None:
        if future.cancelled():
            call.give_up()

    future.add_done_callback(ended)
    call.when_response(loop, answer)
    return future


def _send(request: InferenceRequest, *, decoupled: bool, blocking: bool) -> Call:
    if not RUNTIME.serving:
        msg = "BLS is only supported during the 'execute' function."
        raise TritonModelException(msg)
    channel = RUNTIME.channel()
    batch = BATCH.get()
    call = Call(
        next(RUNTIME.call_ids),
        doubtful=not (blocking or batch) and RUNTIME.is_worker(),
        alone=blocking and not decoupled,
    )
    flags = (frames.DECOUPLED if decoupled else 0) | (frames.BLOCKING if blocking else 0)
    entry = request.entry(call.id, channel.signatures)
    channel.send_parcel(Kind.CALL, call.id, [entry], flags=flags, stamps=(batch, 0, 0, 0))
    return call


def _result(call: Call, *, decoupled: bool) -> InferenceResponse | ResponseIterator:
    return ResponseIterator(call) if decoupled else call.next_response()


def _response_of(call: Call) -> asyncio.Future[None]:
    """A future of the running loop that is done when the call has a response."""
    import asyncio  # noqa: PLC0415  as above

    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not future.done():
            future.set_result(None)

    call.when_response(loop, wake)
    return future
