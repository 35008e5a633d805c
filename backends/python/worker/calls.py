"""Calls to other models from inside a model (BLS): the worker's side."""

from __future__ import annotations

import os
import queue
from typing import TYPE_CHECKING

from . import frames, parcels
from .errors import TritonError, TritonErrorCode, TritonModelException
from .frames import Kind
from .response import InferenceResponse
from .runtime import RUNTIME, credit_frame

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .request import InferenceRequest

_NEEDS_DECOUPLED = (
    "Model {name} is using the decoupled. The current BLS request call doesn't support models using the decoupled "
    "transaction policy. Please use 'exec(decoupled=True)' or 'async_exec(decoupled=True)'."
)


class Call:
    """One call under way. Used by one thread at a time."""

    def __init__(self, call_id: int, model_name: str) -> None:
        self.id = call_id
        self.over = False
        self._model_name = model_name
        self._replies: queue.SimpleQueue[bytearray] = queue.SimpleQueue()
        self._taken = 0
        self._channel = RUNTIME.channel()
        self._abandoned = False
        RUNTIME.calls[call_id] = self._take
        self._channel.expect(self)

    def next_response(self) -> InferenceResponse:
        """Wait for the next response; ``over`` is set with the last one."""
        payload = self._replies.get()
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

    def only_response(self) -> InferenceResponse:
        """Wait for the one response of a model that is not decoupled."""
        response = self.next_response()
        if self.over:
            return response
        self.cancel()
        while not self.over:
            self.next_response()
        return InferenceResponse(error=TritonError(_NEEDS_DECOUPLED.format(name=self._model_name)))

    def cancel(self) -> None:
        """Ask for the end of the call; its last response still comes."""
        if not self.over:
            self._channel.send(frames.pack(Kind.CANCEL, self.id))

    def abandon(self) -> None:
        """Nobody reads its responses any more: let them pass, so that it does not stand still at its credit's end.

        Called by a finaliser, so it does not wait; and not for a call that this process has inherited by a fork.
        """
        if not self.over and self._channel.pid == os.getpid():
            self._abandoned = True
            self._discard()

    def _take(self, payload: bytearray) -> None:
        self._replies.put(payload)
        if self._abandoned:
            self._discard()

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

    def close(self) -> None:
        """Its last response has come."""
        self.over = True
        RUNTIME.calls.pop(self.id, None)
        self._channel.expect_no_more(self)

    def _acknowledge(self) -> None:
        self._taken += 1
        if self._taken >= frames.WINDOW // 2:
            self._channel.send(credit_frame(self.id, self._taken))
            self._taken = 0


class ResponseIterator:
    """The responses of a decoupled call, as they come. A second iteration starts over with those that have come."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._responses = [call.next_response()]
        self._position = 0

    def __del__(self) -> None:
        call = getattr(self, "_call", None)
        if call is not None:
            call.abandon()

    def __iter__(self) -> Iterator[InferenceResponse]:
        if self._call.over and self._position >= len(self._responses):
            self._position = 0
        return self

    def __next__(self) -> InferenceResponse:
        if self._position >= len(self._responses):
            if self._call.over:
                raise StopIteration
            self._responses.append(self._call.next_response())
        self._position += 1
        return self._responses[self._position - 1]

    def cancel(self) -> None:
        """Ask the model to stop; it still ends with a last response. Safe after the end."""
        self._call.cancel()


def start(request: InferenceRequest, *, decoupled: bool) -> Call:
    """Send the request. Raises TritonModelException while the model is not serving."""
    if not RUNTIME.serving:
        msg = "BLS is only supported during the 'execute' function."
        raise TritonModelException(msg)
    call = Call(next(RUNTIME.call_ids), request.model_name())
    channel = RUNTIME.channel()
    channel.send_parcel(
        Kind.CALL,
        call.id,
        [request.entry(call.id, channel.signatures)],
        flags=frames.DECOUPLED if decoupled else 0,
    )
    return call
