"""A ticket that enters leaves with exactly one final response, and is counted once."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from infer.backends.api.backend import Batch
from infer.backends.api.datatypes import Datatype
from infer.backends.api.errors import BackendFailure, Cancelled, Code, Internal, InvalidArgument, QueueFull
from infer.backends.api.request import InferenceRequest
from infer.backends.api.response import InferenceResponse
from infer.backends.api.tensor import Tensor
from infer.server.observe.statistics import ModelStatistics
from infer.server.scheduling.ticket import Phase, Ticket


class Owner:
    """A scheduler that only remembers."""

    def __init__(self) -> None:
        self.cancelled: list[Ticket] = []
        self.ended: list[Ticket] = []
        self.rescheduled: list[tuple[Ticket, int]] = []

    def cancel(self, ticket: Ticket) -> None:
        self.cancelled.append(ticket)

    def reschedule(self, ticket: Ticket, mark: int) -> None:
        self.rescheduled.append((ticket, mark))

    def finished(self, ticket: Ticket) -> None:
        self.ended.append(ticket)


class Instance:
    """An instance that only remembers."""

    def __init__(self) -> None:
        self.resumed: list[Any] = []

    def resume(self, execution: Any) -> None:
        self.resumed.append(execution)


class Fixture:
    """One ticket and everything that hears of it."""

    def __init__(self, *, decoupled: bool = False) -> None:
        self.owner = Owner()
        self.instance: Any = Instance()
        self.statistics = ModelStatistics("m", 1)
        self.responses: list[InferenceResponse] = []
        request = InferenceRequest("m", {}, batch_size=3)
        self.ticket = Ticket(request, self.statistics, self.owner, self.responses.append, decoupled=decoupled)

    def execute(self) -> Batch:
        batch = Batch((self.ticket,), 3)
        self.ticket.start_execution(batch, self.instance, self.ticket.queue_start)
        return batch


def data(*, final: bool = True, released: list[str] | None = None) -> InferenceResponse:
    tensor = Tensor(Datatype.INT8, (1,), b"\1", release=lambda: (released if released is not None else []).append("x"))
    return InferenceResponse({"OUT": tensor}, final=final)


def test_one_response_ends_the_ticket_and_counts_its_batch_size() -> None:
    it = Fixture()
    it.execute()
    it.ticket.send(data())
    assert [response.final for response in it.responses] == [True]
    assert it.ticket.phase is Phase.DONE
    assert it.owner.ended == [it.ticket]
    assert it.statistics.snapshot().inference_count == 3


def test_a_response_after_the_final_one_is_dropped_and_its_buffers_given_back() -> None:
    it = Fixture()
    it.execute()
    released: list[str] = []
    it.ticket.send(data())
    it.ticket.send(data(released=released))
    it.ticket.fail(Internal("too late"))
    assert len(it.responses) == 1
    assert released == ["x"]
    assert it.statistics.snapshot().fail.count == 0


def test_data_and_final_flag_that_travel_apart_become_one_response() -> None:
    it = Fixture()
    it.execute()
    it.ticket.send(data(final=False))
    assert it.responses == []
    it.ticket.send(InferenceResponse())
    assert [(list(response.outputs), response.final) for response in it.responses] == [(["OUT"], True)]


@pytest.mark.parametrize("final", [True, False])
def test_a_second_response_of_a_model_that_is_not_decoupled_is_an_error(final: bool) -> None:
    it = Fixture()
    it.execute()
    released: list[str] = []
    it.ticket.send(data(final=False, released=released))
    it.ticket.send(data(final=final, released=released))
    assert str(it.responses[0].error) == "expected a single response, got 2"
    assert released == ["x", "x"]


def test_an_error_after_held_data_wins() -> None:
    it = Fixture()
    it.execute()
    it.ticket.send(data(final=False))
    it.ticket.fail(BackendFailure("boom"))
    assert str(it.responses[0].error) == "boom"


def test_an_answer_without_outputs_is_an_answer() -> None:
    it = Fixture()
    it.execute()
    it.ticket.send(InferenceResponse())
    assert it.responses[0].error is None


def test_a_decoupled_ticket_passes_every_response_on_in_order() -> None:
    it = Fixture(decoupled=True)
    it.execute()
    for _ in range(3):
        it.ticket.send(data(final=False))
    it.ticket.send(InferenceResponse())
    assert [response.final for response in it.responses] == [False, False, False, True]
    snapshot = it.statistics.snapshot()
    assert [(index, spans.success.count) for index, spans in snapshot.responses] == [("0", 1), ("1", 1), ("2", 1)]
    assert snapshot.success.count == 1


def test_a_decoupled_ticket_without_data_counts_an_empty_response() -> None:
    it = Fixture(decoupled=True)
    it.execute()
    it.ticket.send(InferenceResponse())
    assert it.statistics.snapshot().responses[0][1].empty_response.count == 1


def test_an_error_among_decoupled_responses_makes_the_request_a_failure() -> None:
    it = Fixture(decoupled=True)
    it.execute()
    it.ticket.send(InferenceResponse(error=InvalidArgument("no"), final=False))
    it.ticket.send(InferenceResponse())
    snapshot = it.statistics.snapshot()
    assert (snapshot.success.count, snapshot.failures["BACKEND"]) == (0, 1)


@pytest.mark.parametrize(
    ("error", "executing", "reason"),
    [
        (InvalidArgument("model said no"), True, "BACKEND"),
        (BackendFailure("boom"), True, "BACKEND"),
        (Cancelled("gone"), True, "CANCELED"),
        (Cancelled("gone"), False, "CANCELED"),
        (QueueFull("full"), False, "REJECTED"),
        (Internal("ours"), False, "OTHER"),
    ],
)
def test_a_failure_is_counted_once_under_its_reason(error: Exception, executing: bool, reason: str) -> None:
    it = Fixture()
    if executing:
        it.execute()
    it.ticket.fail(error)
    failures = it.statistics.snapshot().failures
    assert {name: count for name, count in failures.items() if count} == {reason: 1}


def test_cancel_reaches_the_owner_once_and_not_after_the_end() -> None:
    it = Fixture()
    it.ticket.cancel()
    it.ticket.cancel()
    assert it.owner.cancelled == [it.ticket]
    assert it.ticket.cancelled
    it.ticket.fail(Cancelled("gone"))
    done = Fixture()
    done.execute()
    done.ticket.send(data())
    done.ticket.cancel()
    assert done.owner.cancelled == []
    assert it.responses[0].error.code is Code.CANCELLED


def test_a_pause_lasts_until_there_is_room_and_the_instance_is_told_once() -> None:
    it = Fixture(decoupled=True)
    it.execute()
    assert not it.ticket.paused
    it.ticket.pause()
    it.ticket.pause()
    assert it.ticket.paused
    it.ticket.resume()
    it.ticket.resume()
    assert not it.ticket.paused
    assert it.instance.resumed == [it.ticket]


@pytest.mark.parametrize("end", ["cancel", "final response"])
def test_a_pause_ends_with_the_request_and_there_is_none_after_it(end: str) -> None:
    it = Fixture(decoupled=True)
    it.execute()
    it.ticket.pause()
    if end == "cancel":
        it.ticket.cancel()
    else:
        it.ticket.send(InferenceResponse())
    it.ticket.pause()
    assert not it.ticket.paused
    assert it.instance.resumed == [it.ticket]


def test_a_request_that_no_instance_has_may_be_paused() -> None:
    it = Fixture(decoupled=True)
    it.ticket.pause()
    it.ticket.resume()
    assert not it.ticket.paused


def test_responses_behind_a_cancel_are_counted_and_dropped_until_the_final_one() -> None:
    it = Fixture(decoupled=True)
    it.execute()
    it.ticket.send(data(final=False))
    it.ticket.cancel()
    released: list[str] = []
    it.ticket.send(data(final=False, released=released))
    it.ticket.send(InferenceResponse())
    assert [response.final for response in it.responses] == [False, True]
    assert released == ["x"]
    spans = [each for _, each in it.statistics.snapshot().responses]
    assert [(each.success.count, each.cancel.count, each.compute_infer.count) for each in spans] == [
        (1, 0, 1),
        (1, 0, 1),
        (0, 1, 0),
    ]


def test_a_cancelled_request_that_ends_with_data_is_a_success_of_its_statistics() -> None:
    it = Fixture(decoupled=True)
    it.execute()
    it.ticket.cancel()
    it.ticket.send(data())
    ((_, only),) = it.statistics.snapshot().responses
    assert (only.success.count, only.cancel.count) == (1, 0)


def test_the_phases_come_from_the_stamps_of_the_batch() -> None:
    it = Fixture()
    batch = it.execute()
    start = it.ticket.queue_start
    batch.compute_start, batch.compute_input_end = start + 10, start + 30
    batch.compute_output_start, batch.compute_end = start + 70, start + 75
    it.ticket.send(data())
    snapshot = it.statistics.snapshot()
    phases = (snapshot.queue, snapshot.compute_input, snapshot.compute_infer, snapshot.compute_output)
    assert [phase.ns for phase in phases] == [10, 20, 40, 5]


def test_a_failure_is_logged_with_the_id_of_its_request(caplog: pytest.LogCaptureFixture) -> None:
    it = Fixture()
    it.ticket.request.request_id = "42"
    with caplog.at_level(logging.DEBUG, logger="infer.request"):
        it.ticket.fail(InvalidArgument("no"))
    (record,) = caplog.records
    assert (record.request_id, record.model, record.version) == ("42", "m", "1")
    assert record.getMessage() == "request to model 'm' version 1 failed (OTHER): no"


def test_a_request_that_its_model_wants_again_is_its_schedulers_and_pending_once_more() -> None:
    it = Fixture()
    batch = it.execute()
    it.ticket.reschedule(7)
    assert it.owner.rescheduled == [(it.ticket, 7)]
    again = InferenceRequest("m", {}, earlier=7)
    it.ticket.wait_again(again)
    assert (it.ticket.phase, it.ticket.rounds, it.ticket.request) == (Phase.PENDING, 1, again)
    assert (it.ticket.batch, it.ticket.instance) == (None, None)
    it.ticket.start_execution(batch, None, it.ticket.queue_start)
    it.ticket.send(data())
    assert (len(it.responses), it.owner.ended) == (1, [it.ticket])


def test_a_request_that_has_its_final_response_cannot_come_again() -> None:
    it = Fixture()
    it.execute()
    it.ticket.send(data())
    it.ticket.reschedule(7)
    assert it.owner.rescheduled == []
