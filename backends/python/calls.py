"""Calls that a model makes to other models (BLS): the server's side, one book per channel.

A model that reads the responses of a call slowly slows down the model it calls: what has no credit waits here, and the
call is paused meanwhile. Not so while another call of the same model has had no response at all: it might have to wait
for an instance that the paused one holds, and the model reads on only when it is answered.
"""

from __future__ import annotations

import collections
import itertools
import struct
from functools import partial
from typing import TYPE_CHECKING

from ..api.errors import InferError, InvalidArgument
from ..api.response import InferenceResponse
from . import codec
from .worker import frames
from .worker.frames import Frame, FrameError, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..api.backend import Batch
    from ..api.call import Call, ModelCaller
    from .channel import Channel

_COUNT = struct.Struct("<I")


_REFUSED = "Model {name} - Error when running inference: {cause}"


class _OpenCall:
    """A call under way. Responses beyond the worker's credit wait here."""

    __slots__ = ("answered", "batch", "blocking", "call", "credit", "waiting")

    def __init__(self, batch: Batch | None, *, blocking: bool) -> None:
        self.call: Call | None = None
        self.batch = batch
        self.blocking = blocking
        self.answered = False
        self.credit = frames.WINDOW
        self.waiting: collections.deque[InferenceResponse] = collections.deque()

    def resume(self) -> None:
        """There is room for more of its responses."""
        if self.call is not None:
            self.call.resume()


class CallBook:
    """Takes CALL, CREDIT and CANCEL frames of one channel and answers with CALL_REPLY frames.

    ``batch_of(id)`` is the batch that executes under an id, or None.
    """

    def __init__(self, channel: Channel, caller: ModelCaller, batch_of: Callable[[int], Batch | None]) -> None:
        self._channel = channel
        self._caller = caller
        self._batch_of = batch_of
        self._open: dict[int, _OpenCall] = {}
        self._unanswered = 0
        """Calls that have had no response yet."""

    def __len__(self) -> int:
        return len(self._open)

    def calls(self) -> Iterable[_OpenCall]:
        """The calls that are under way."""
        return self._open.values()

    def start(self, frame: Frame) -> None:
        """A CALL frame: send the request on. A refused one is answered with the error."""
        call_id = frame.id
        parcel, memory = self._channel.open_parcel(frame.payload)
        items = parcel.items
        if self._open:
            self._resume_all()
        opened = _OpenCall(self._batch_of(parcel.stamps[0]), blocking=bool(frame.flags & frames.BLOCKING))
        self._open[call_id] = opened
        self._unanswered += 1
        if len(items) != 1:
            msg = f"a call carries one request, this one {len(items)}"
            raise FrameError(msg)
        try:
            request = codec.read_request(items[0], memory)
        except FrameError as exc:
            self._respond(call_id, InferenceResponse(error=InvalidArgument(str(exc))))
            return
        try:
            single = not frame.flags & frames.DECOUPLED
            opened.call = self._caller.call(request, partial(self._respond, call_id), single=single)
        except InferError as exc:
            words = _REFUSED.format(name=request.model_name, cause=exc)
            self._respond(call_id, InferenceResponse(error=InferError(words, code=exc.code)))

    def _resume_all(self) -> None:
        """A new call has no response yet: what others have to wait for may be what it needs."""
        for other in self._open.values():
            if other.waiting:
                other.resume()

    def credit(self, frame: Frame) -> None:
        """A CREDIT frame: the worker has taken responses, or says that it does nothing else until there is one."""
        opened = self._open.get(frame.id)
        if opened is None:
            return
        if frame.flags & frames.BLOCKING:
            opened.blocking = True
        opened.credit += _COUNT.unpack(frame.payload)[0]
        while opened.waiting and opened.credit:
            self._send(frame.id, opened, opened.waiting.popleft())
        if not opened.waiting:
            opened.resume()

    def cancel(self, frame: Frame) -> None:
        """A CANCEL frame: pass it on."""
        opened = self._open.get(frame.id)
        if opened is not None and opened.call is not None:
            opened.call.cancel()

    def close(self) -> None:
        """The caller is gone: nobody takes the responses of its calls."""
        opened, self._open = self._open, {}
        for call in opened.values():
            call.waiting.clear()
            if call.call is not None:
                call.call.cancel()

    def _respond(self, call_id: int, response: InferenceResponse) -> None:
        opened = self._open.get(call_id)
        if opened is None:
            response.release()
            return
        if not opened.answered:
            opened.answered = True
            self._unanswered -= 1
        if opened.waiting or not opened.credit:
            opened.waiting.append(response)
            if opened.call is not None and not self._unanswered:
                opened.call.pause()
        else:
            self._send(call_id, opened, response)

    def _send(self, call_id: int, opened: _OpenCall, response: InferenceResponse) -> None:
        opened.credit -= 1
        if response.final:
            self._open.pop(call_id, None)
        try:
            entry = codec.response_entry(call_id, response, self._channel.signatures)
        except InferError as exc:
            failed = InferenceResponse(error=exc, final=response.final)
            entry = codec.response_entry(call_id, failed, self._channel.signatures)
        self._channel.send_parcel(Kind.CALL_REPLY, call_id, [entry])
        response.release()


class CallBooks:
    """The books of one instance: one for its worker, and one for every fork of it that calls."""

    def __init__(self, caller: ModelCaller, batch_of: Callable[[int], Batch | None]) -> None:
        self._caller = caller
        self._batch_of = batch_of
        self._books: dict[Channel, CallBook] = {}

    def __iter__(self) -> Iterator[CallBook]:
        return iter(self._books.values())

    def calls(self) -> Iterable[_OpenCall]:
        """The calls that are under way in all of them."""
        return itertools.chain.from_iterable([book.calls() for book in self])

    def take(self, frame: Frame, source: Channel) -> None:
        """A CALL, CREDIT or CANCEL frame of a call."""
        book = self._books.get(source)
        if frame.kind == Kind.CALL:
            if book is None:
                book = self._books[source] = CallBook(source, self._caller, self._batch_of)
                self._books = {key: value for key, value in self._books.items() if not key.closed}
            book.start(frame)
        elif book is not None:
            (book.credit if frame.kind == Kind.CREDIT else book.cancel)(frame)

    def close(self) -> None:
        """The worker is gone, and with it who takes the responses."""
        for book in self:
            book.close()
        self._books.clear()


def credit_frame(request_id: int, count: int) -> bytes:
    """A CREDIT frame for the responses of a request."""
    return frames.pack(Kind.CREDIT, request_id, _COUNT.pack(count))
