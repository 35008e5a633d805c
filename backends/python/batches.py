"""The batches that are under way: which requests have no final response, and when a batch is done."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ..api.errors import BackendFailure, InferError, InstanceDied
from ..api.response import InferenceResponse
from . import calls, codec
from .worker import frames, parcels

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..api.backend import Batch, Execution
    from .worker.parcels import Entry, Parcel, Signatures

_log = logging.getLogger("infer.python")
_CREDIT_STEP = frames.WINDOW // 2


class _Running:
    """A batch whose execute call is not over, or whose requests are not."""

    __slots__ = ("batch", "done", "ended", "id", "pending")

    def __init__(self, batch_id: int, batch: Batch, done: Callable[[], None]) -> None:
        self.id = batch_id
        self.batch = batch
        self.done: Callable[[], None] | None = done
        self.pending = len(batch.executions)
        self.ended = False


class _Open:
    """A request that has no final response yet. ``taken`` responses await their credit."""

    __slots__ = ("execution", "running", "taken")

    def __init__(self, execution: Execution, running: _Running) -> None:
        self.execution = execution
        self.running = running
        self.taken = 0


class Batches:
    """The books of one instance, over all the workers that it has in its life. Serving loop only.

    ``send`` takes the frames that give a worker credit for more responses; a request that is paused gets none, so that
    its worker waits with what it has. Ids only grow: the worker relies on it.
    """

    def __init__(self, labels: dict[str, Any], send: Callable[[bytes], None], *, decoupled: bool) -> None:
        self._labels = labels
        self._send = send
        self._decoupled = decoupled
        self._open: dict[int, _Open] = {}
        self._running: dict[int, _Running] = {}
        self._withheld: dict[Execution, int] = {}
        """Requests that get no credit while they are paused."""
        self._last_id = 0

    @property
    def open_count(self) -> int:
        """Requests without a final response."""
        return len(self._open)

    @property
    def executing(self) -> bool:
        """Whether there is a batch that is not done."""
        return bool(self._running)

    def executing_under(self, batch_id: int) -> Batch | None:
        """The batch that was sent under an id and is not done."""
        running = self._running.get(batch_id)
        return running.batch if running is not None else None

    def id_of(self, execution: Execution) -> int:
        """The id under which a request was sent; 0 where it has its final response."""
        return next((number for number, opened in self._open.items() if opened.execution is execution), 0)

    def open_ids(self) -> list[int]:
        """The ids of the requests without a final response."""
        return list(self._open)

    def begin(self, batch: Batch, done: Callable[[], None], signatures: Signatures) -> tuple[int, list[Entry]]:
        """Enter a batch: its id, and what is to be sent. It is done at once where nothing of it can be sent."""
        self._last_id += 1
        running = self._running[self._last_id] = _Running(self._last_id, batch, done)
        entries: list[Entry] = []
        for execution in batch.executions:
            self._last_id += 1
            opened = self._open[self._last_id] = _Open(execution, running)
            try:
                entries.append(codec.request_entry(self._last_id, execution.request, signatures))
            except InferError as exc:
                self._deliver(self._last_id, opened, InferenceResponse(error=exc))
        if not entries:
            self._finish(running)
        return running.id, entries

    def final(self, batch_id: int, parcel: Parcel, memory: codec.Memory) -> None:
        """The execute call is over; the responses that it has returned."""
        running = self._running.get(batch_id)
        if running is None:
            return
        batch = running.batch
        batch.compute_start, batch.compute_input_end, batch.compute_output_start, batch.compute_end = parcel.stamps
        running.ended = True
        self.respond(parcel, memory)
        if running.done is not None and (self._decoupled or not running.pending):
            self._finish(running)

    def respond(self, parcel: Parcel, memory: codec.Memory) -> None:
        """Hand responses to their requests."""
        raised, request_id = "", ""
        for item in parcel.items:
            opened = self._open.get(item.id)
            if opened is None:
                continue
            if item.flags & parcels.ENTRY_RESCHEDULED:
                self._give_back(item.id, opened)
                continue
            response = codec.read_response(item, memory)
            if item.flags & parcels.ENTRY_RAISED:
                raised, request_id = item.text, opened.execution.request.request_id
                response.error = BackendFailure(item.text)
            self._deliver(item.id, opened, response)
        if raised:
            _log.error("%s", raised, extra={**self._labels, "request_id": request_id})

    def resume(self, execution: Execution) -> None:
        """A request is not paused any more: its worker may send again."""
        request_id = self._withheld.pop(execution, 0)
        opened = self._open.get(request_id)
        if opened is not None:
            self._give_credit(request_id, opened)

    def fail(self, reason: str) -> None:
        """The worker is gone: every request without a final response fails, every batch is done."""
        opened, self._open = self._open, {}
        running, self._running = self._running, {}
        self._withheld.clear()
        for each in running.values():
            each.ended = True
        for each in opened.values():
            each.execution.send(InferenceResponse(error=InstanceDied(reason)))
        for each in running.values():
            self._finish(each)

    def close(self) -> None:
        """No worker follows: let go of who sends."""
        self._send = _nowhere

    def _deliver(self, request_id: int, opened: _Open, response: InferenceResponse) -> None:
        if response.final:
            del self._open[request_id]
            self._withheld.pop(opened.execution, None)
            running = opened.running
            running.pending -= 1
            opened.execution.send(response)
            if running.ended and not running.pending:
                self._finish(running)
            return
        opened.execution.send(response)
        opened.taken += 1
        if opened.taken >= _CREDIT_STEP:
            if opened.execution.paused:
                self._withheld[opened.execution] = request_id
            elif not opened.execution.cancelled:
                # A worker whose request is cancelled runs out of credit, then hears of it, and sends nothing more.
                self._give_credit(request_id, opened)

    def _give_credit(self, request_id: int, opened: _Open) -> None:
        self._send(calls.credit_frame(request_id, opened.taken))
        opened.taken = 0

    def _give_back(self, request_id: int, opened: _Open) -> None:
        """The model wants the request once more; it then has another id, and the worker is told this one."""
        del self._open[request_id]
        opened.running.pending -= 1
        opened.execution.reschedule(request_id)

    def _finish(self, running: _Running) -> None:
        done, running.done = running.done, None
        running.ended = True
        self._running.pop(running.id, None)
        if done is not None:
            done()


def _nowhere(_: bytes) -> None:
    return
