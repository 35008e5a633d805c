"""An accepted request, from the door that let it in to its one final response.

A ticket that enters leaves with exactly one final response: success, error, timeout, cancel, worker death, unload or
shutdown. ``send`` enforces it, whoever calls it and how often: what comes after the final response is dropped and
its buffers are given back.

For a model that is not decoupled a ticket also keeps the promise of one response: data and final flag that travel
apart are joined, and a second response is an error. So no door needs to know how a backend ends its requests.

Who takes the responses of a decoupled model may be slower than the model. It then says ``pause``, and ``resume`` once
it has room: the instance holds back what is to come, so that nothing grows without bound. A pause is about what has
come so far: who is sent more all the same says it again. It ends with the request, and with its cancellation.

Times are monotonic nanoseconds. Statistics, traces and "why is it waiting" read the slots.
"""

from __future__ import annotations

import enum
import logging
from time import monotonic_ns
from typing import TYPE_CHECKING, Protocol

from ...backends.api.errors import Code, FailureReason, Internal
from ...backends.api.response import InferenceResponse
from ..observe.statistics import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...backends.api.backend import Batch, LoopInstance
    from ...backends.api.errors import InferError
    from ...backends.api.request import InferenceRequest
    from ..observe.statistics import ModelStatistics
    from .response_order import ResponseOrder


log = logging.getLogger("infer.request")


class Phase(enum.IntEnum):
    """Where a ticket is."""

    PENDING = 0
    EXECUTING = 1
    DONE = 2


class WaitReason(enum.Enum):
    """Why a pending ticket waits."""

    NONE = ""
    ALL_INSTANCES_BUSY = "all instances are executing"
    SOME_RESTARTING = "instances are executing or restarting"
    BATCH_MAY_GROW = "its batch may grow until max_queue_delay_microseconds is over"
    SEQUENCE_BUSY = "an earlier request of its sequence has not been executed"
    NO_SEQUENCE_SLOT = "every slot is taken by another sequence"


class TicketOwner(Protocol):
    """The scheduler, as its tickets see it."""

    def cancel(self, ticket: Ticket, error: InferError | None = None) -> None:
        """The ticket was cancelled while it was pending or executing; with an ``error`` it is to end with that."""
        ...

    def reschedule(self, ticket: Ticket, mark: int) -> None:
        """The model gives the request back, to have it in a later batch."""
        ...

    def finished(self, ticket: Ticket) -> None:
        """The ticket has its final response."""
        ...


class Ticket:
    """One accepted request. Serving loop only, but ``cancelled`` may be read anywhere.

    :param on_response: gets every response, exactly one of them final.
    """

    __slots__ = (
        "__weakref__",
        "_error",
        "_held",
        "_on_response",
        "_responses",
        "batch",
        "cancelled",
        "decoupled",
        "execution_start",
        "instance",
        "last_response",
        "owner",
        "paused",
        "phase",
        "queue_start",
        "request",
        "request_end",
        "request_start",
        "rounds",
        "statistics",
        "wait_reason",
    )

    def __init__(
        self,
        request: InferenceRequest,
        statistics: ModelStatistics,
        owner: TicketOwner,
        on_response: Callable[[InferenceResponse], None],
        *,
        decoupled: bool = False,
    ) -> None:
        self.request = request
        self.statistics = statistics
        self.decoupled = decoupled
        self.cancelled = False
        self.paused = False
        """Whether there is no room for more responses. Any thread."""
        self.phase = Phase.PENDING
        self.wait_reason = WaitReason.NONE
        self.batch: Batch | None = None
        self.instance: LoopInstance | None = None
        self.request_start = self.queue_start = monotonic_ns()
        self.execution_start = self.request_end = self.last_response = 0
        self.rounds = 0
        """How often its model has given it back."""
        self.owner = owner
        self._on_response = on_response
        self._held: InferenceResponse | None = None
        self._error: InferError | None = None
        self._responses = 0

    def hand_over(self, batch: Batch, instance: LoopInstance) -> None:
        """The scheduler gives the ticket to an instance that is not free yet; it still waits."""
        self.batch = batch
        self.instance = instance

    def start_execution(self, batch: Batch, instance: LoopInstance, now: int) -> None:
        """The scheduler hands the ticket to an instance as part of ``batch``."""
        self.batch = batch
        self.instance = instance
        self.execution_start = now
        self.phase = Phase.EXECUTING

    def wait_again(self, request: InferenceRequest) -> None:
        """The scheduler puts the ticket back into its queue, with the request as it comes next time."""
        self.request = request
        self.batch = None
        self.instance = None
        self.phase = Phase.PENDING
        self.rounds += 1

    def in_turn(self, order: ResponseOrder) -> None:
        """From here on deliver responses when those of the requests before have been delivered."""
        self._on_response = order.take_turn(self._on_response, self)

    def send(self, response: InferenceResponse) -> None:
        """Deliver a response; a final one ends the ticket, anything after it is dropped."""
        if self.phase is Phase.DONE:
            response.release()
            return
        if not self.decoupled:
            whole = self._join(response)
            if whole is None:
                return
            response = whole
        if response.error is not None and self._error is None:
            self._error = response.error
        if self.decoupled:
            self._count_response(response)
            if self.cancelled and not response.final:
                response.release()
                return
        on_response = self._on_response
        if response.final:
            self._finish()
            # Who takes the responses knows its ticket: left as a circle, both would stay with all that they hold.
            self._on_response = _done
        on_response(response)

    def reschedule(self, mark: int) -> None:
        """The model gives the request back: it comes once more in a later batch, with ``mark`` as ``earlier``."""
        if self.phase is not Phase.DONE:
            self.owner.reschedule(self, mark)

    def fail(self, error: InferError) -> None:
        """End the ticket with an error."""
        self.send(InferenceResponse(error=error))

    def cancel(self) -> None:
        """The client does not want the answer any more; the final response still comes. Idempotent."""
        if self.phase is Phase.DONE or self.cancelled:
            return
        self.cancelled = True
        self.resume()
        self.owner.cancel(self)

    def pause(self) -> None:
        """There is no room for more responses at the moment. Idempotent, and nothing once nobody waits for them."""
        if self.phase is not Phase.DONE and not self.cancelled:
            self.paused = True

    def resume(self) -> None:
        """There is room again. Idempotent."""
        if self.paused:
            self.paused = False
            if self.instance is not None:
                self.instance.resume(self)

    def _join(self, response: InferenceResponse) -> InferenceResponse | None:
        """The one response of a model that is not decoupled, or None while it is not complete."""
        held = self._held
        if held is None:
            if response.final:
                return response
            self._held = response
            return None
        if response.final and response.is_empty:
            self._held = None
            held.final = True
            return held
        self._drop_held()
        if response.final and response.error is not None:
            return response
        response.release()
        return _wrong_count(2)

    def _drop_held(self) -> None:
        if self._held is not None:
            self._held.release()
            self._held = None

    def _count_response(self, response: InferenceResponse) -> None:
        now = monotonic_ns()
        since = self.last_response or self.execution_start or self.queue_start
        self.last_response = now
        error = response.error
        if response.final and self.cancelled and (response.is_empty or error is not None):
            outcome = Outcome.CANCEL
        elif error is not None:
            outcome = Outcome.FAIL
        elif response.is_empty:
            if response.final and self._responses:
                # The flag alone, behind responses, is none.
                return
            outcome = Outcome.EMPTY
        else:
            outcome = Outcome.SUCCESS
        self.statistics.record_response(self._responses, now - since, outcome, response.output_ns)
        self._responses += 1

    def _finish(self) -> None:
        executing = self.phase is Phase.EXECUTING
        self.phase = Phase.DONE
        self.request_end = now = monotonic_ns()
        error = self._error
        if error is None:
            self._record_success(now)
        else:
            reason = _reason(error, executing=executing)
            self.statistics.record_failure(reason, now - self.request_start)
            self._log_failure(error, reason)
        # The batch holds its tickets, and an error that is raised the frames with its ticket: left as circles, request
        # and response would stay until the next collection.
        self.batch = None
        self.resume()
        self._error = None
        self.owner.finished(self)

    def _log_failure(self, error: InferError, reason: FailureReason) -> None:
        if log.isEnabledFor(logging.DEBUG):
            statistics = self.statistics
            facts = {"request_id": self.request.request_id, "model": statistics.name, "version": statistics.version}
            words = "request to model '%s' version %s failed (%s): %s"
            log.debug(words, statistics.name, statistics.version, reason.value, error, extra=facts)

    def _record_success(self, now: int) -> None:
        batch = self.batch
        start = self.execution_start or now
        input_end = output_start = end = now
        if batch is not None:
            start = batch.compute_start or start
            input_end = batch.compute_input_end or start
            output_start = batch.compute_output_start or now
            end = batch.compute_end or now
        self.statistics.record_success(
            self.request.batch_size,
            total_ns=now - self.request_start,
            queue_ns=max(start - self.queue_start, 0),
            input_ns=max(input_end - start, 0),
            infer_ns=max(output_start - input_end, 0),
            output_ns=max(end - output_start, 0),
        )


def _reason(error: InferError, *, executing: bool) -> FailureReason:
    """The ``reason`` a failure is counted under."""
    if error.code is Code.CANCELLED:
        return FailureReason.CANCELED
    if executing and error.reason is FailureReason.OTHER:
        return FailureReason.BACKEND
    return error.reason


def _wrong_count(count: int) -> InferenceResponse:
    return InferenceResponse(error=Internal(f"expected a single response, got {count}"))


def _done(response: InferenceResponse) -> None:
    response.release()
