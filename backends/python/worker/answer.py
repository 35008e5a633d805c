"""What becomes of one received request: its responses, its cancellation, its end."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from . import frames, parcels
from .credit import Credit
from .errors import TritonErrorCode, TritonModelException, whole
from .response import InferenceResponse, empty_entry, error_entry
from .runtime import RUNTIME

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from .channel import Channel
    from .parcels import Entry

COMPLETE_FINAL = 1
"""TRITONSERVER_RESPONSE_COMPLETE_FINAL."""
_UINT32 = (1 << 32) - 1
_CLOSED = "Unable to send response. Response sender has been closed."


class Answer:
    """The answer to one request, shared by the request and its sender. Any thread.

    When both are gone and no final response was sent, nobody can send one any more: the request then ends with an
    error, because a request that enters must leave.

    A decoupled model that is faster than its client waits in ``send`` for credit, on whatever thread it sends. It need
    not wait for the end of a request, and not once the request is cancelled: what it then sends is dropped.
    """

    __slots__ = (
        "__weakref__",
        "_channel",
        "_credit",
        "_lock",
        "cancelled",
        "closed",
        "decoupled",
        "flagged",
        "id",
        "parked",
        "requested",
        "rescheduled",
        "sent",
    )

    def __init__(self, request_id: int, channel: Channel, requested: AbstractSet[str], *, decoupled: bool) -> None:
        self.id = request_id
        self.requested = requested
        self.decoupled = decoupled
        self.cancelled = False
        self.closed = False
        self.rescheduled = False
        """Whether the model wants the request once more."""
        self.parked = False
        """Whether it is on its way there."""
        self.flagged = False
        """Whether the model itself has sent the final flag."""
        self.sent = 0
        self._channel = channel
        self._lock = threading.Lock()
        self._credit: Credit | None = None

    def __del__(self) -> None:
        if not self.closed:
            RUNTIME.answers.pop(self.id, None)
            if RUNTIME.is_worker() and not self.parked:
                message = "the model let go of the request without sending its final response"
                entry = error_entry(
                    self.id, self._channel.signatures, message, TritonErrorCode.INTERNAL, parcels.ENTRY_FINAL
                )
                self._channel.post(parcels.pack(frames.Kind.RESPONSE, 0, [entry]))

    def is_cancelled(self) -> bool:
        """Whether nobody waits for the request any more, as far as word of it has arrived."""
        if not self.cancelled:
            self._channel.attend()
        return self.cancelled

    def add_credit(self, count: int) -> None:
        """The server has passed ``count`` responses on."""
        credit = self._credit
        if credit is not None:
            credit.add(count)

    def cancel(self) -> None:
        """Nobody waits for the request any more."""
        self.cancelled = True
        self._lift_credit()

    def close(self) -> None:
        """The final response is under way."""
        self.closed = True
        RUNTIME.answers.pop(self.id, None)
        self._lift_credit()

    def _lift_credit(self) -> None:
        credit = self._credit
        if credit is not None:
            credit.lift()

    def park(self) -> bool:
        """The request goes back to the scheduler; False where it has its final response."""
        with self._lock:
            self.parked = not self.closed
            return self.parked

    def resume(self, request_id: int) -> None:
        """The request is back, under another id: what the model has kept of it from before goes on."""
        with self._lock:
            self.id = request_id
            self.rescheduled = self.parked = False
            self._credit = None

    def send(self, response: InferenceResponse | None, flags: int) -> None:
        """Send a response, the final flag, or both. Raises TritonModelException where the rules forbid it."""
        final = flags == COMPLETE_FINAL
        with self._lock:
            if self.parked:
                msg = "Unable to send response. The request is rescheduled; send in its next execution."
                raise TritonModelException(msg)
            if response is None and not self.decoupled and self._flag_follows():
                return
            if self.closed:
                raise TritonModelException(_CLOSED)
            self.flagged = final
            if not self.decoupled:
                # The one response of such a request is also its last.
                final = True
            entry = self._entry(response, final=final)
            if final:
                self.close()
            elif self._credit is None:
                self._credit = Credit()
            self.sent += 1
        if not final and not self._may_send():
            # Nobody waits for it. A thread that the model has left behind is told in this way that it is alone.
            self._channel.attend()
            return
        self._channel.send_parcel(frames.Kind.RESPONSE, 0, [entry])

    def _flag_follows(self) -> bool:
        """The final flag apart, of a request with one response: whether it ends what was sent before.

        Raises TritonModelException where it comes first.
        """
        if self.closed:
            follows, self.flagged = bool(self.sent) and not self.flagged, True
            return follows
        msg = "Non-decoupled model cannot send complete final before sending a response"
        raise TritonModelException(msg)

    def _entry(self, response: InferenceResponse | None, *, final: bool) -> Entry:
        if response is None:
            return empty_entry(self.id, self._channel.signatures)
        return response.entry(self.id, self._channel.signatures, self.requested, parcels.ENTRY_FINAL if final else 0)

    def _may_send(self) -> bool:
        """Wait for room; whether the response is still wanted. Raises TritonModelException if the sender is closed."""
        credit = self._credit
        if credit is not None and not self.cancelled and not credit.take():
            waiter = object()
            self._channel.expect(waiter)
            try:
                credit.wait()
            finally:
                self._channel.expect_no_more(waiter)
            if self.closed:
                # Another thread has sent the final flag, or execute has failed.
                raise TritonModelException(_CLOSED)
        return not self.cancelled


class InferenceResponseSender:
    """Sends the responses of one request, from any thread, also after ``execute`` has returned."""

    __slots__ = ("_answer",)

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def send(self, response: InferenceResponse | None = None, flags: int = 0) -> None:
        """Send a response; ``flags`` is 0, or TRITONSERVER_RESPONSE_COMPLETE_FINAL with or after the last one.

        Raises TritonModelException for other flags, for nothing to send, and once the final flag was sent; TypeError
        for flags that are no number.
        """
        if type(flags) is not int:
            flags = whole(flags, "send", "flags", 0, _UINT32)
        if flags not in (0, COMPLETE_FINAL):
            msg = f"Unable to send response. Unsupported flag {flags}; use 0 or TRITONSERVER_RESPONSE_COMPLETE_FINAL."
            raise TritonModelException(msg)
        if response is None and flags == 0:
            msg = "Inference Response object must be provided when the response flags is set to zero."
            raise TritonModelException(msg)
        if response is not None and not isinstance(response, InferenceResponse):  # pyright: ignore[reportUnnecessaryIsInstance]
            msg = f"send(): incompatible argument 'response': expected InferenceResponse, got {type(response).__name__}"
            raise TypeError(msg)
        self._answer.send(response, flags)

    def is_cancelled(self) -> bool:
        """Whether nobody waits for the request any more."""
        return self._answer.is_cancelled()


def no_sender(*_: Any) -> InferenceResponseSender:  # noqa: ANN401  called as whatever it stands in for
    """What a request that the model made itself says when asked for a sender."""
    msg = "only a request received in execute has a response sender"
    raise TritonModelException(msg)
