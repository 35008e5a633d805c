"""Batches under way: who gets which response, when a batch is done, and what becomes of both when a worker dies."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from infer.backends.api.backend import Batch
from infer.backends.api.errors import BackendFailure, InstanceDied, Unsupported
from infer.backends.api.request import InferenceRequest
from infer.backends.api.response import InferenceResponse
from infer.backends.api.tensor import Device, Tensor
from infer.backends.python import codec
from infer.backends.python.batches import Batches
from infer.backends.python.worker import frames, parcels
from infer.backends.python.worker.frames import HEADER, Kind
from infer.backends.python.worker.parcels import Entry, Layout, Signatures

NOTHING = Layout((), ())


class Execution:
    """One request; keeps what it is answered."""

    def __init__(self, device: Device | None = None, request_id: str = "") -> None:
        tensor = Tensor.from_numpy(np.zeros(3, np.int32))
        if device is not None:
            tensor = Tensor(tensor.datatype, tensor.shape, tensor.buffer, device=device)
        self.request = InferenceRequest("m", {"IN": tensor}, request_id=request_id)
        self.cancelled = False
        self.paused = False
        self.responses: list[InferenceResponse] = []
        self.marks: list[int] = []

    def send(self, response: InferenceResponse) -> None:
        """Take a response."""
        self.responses.append(response)

    def reschedule(self, mark: int) -> None:
        """The request comes again."""
        self.marks.append(mark)


class Books:
    """The batches of one instance, what is sent for them, and how often which batch is done."""

    def __init__(self, *, decoupled: bool = False) -> None:
        self.sent: list[bytes] = []
        self.done: list[Batch] = []
        self.batches = Batches({"instance": "m_0_0"}, self.sent.append, decoupled=decoupled)
        self.signatures = Signatures()

    def begin(self, *executions: Execution) -> tuple[int, list[int]]:
        """Enter a batch: its id, and those of the requests that are to be sent."""
        batch = Batch(executions, len(executions))
        batch_id, entries = self.batches.begin(batch, lambda: self.done.append(batch), self.signatures)
        return batch_id, [entry.id for entry in entries]

    def respond(self, *entries: Entry) -> None:
        """A RESPONSE frame of the worker."""
        self.batches.respond(*self._received(entries))

    def final(self, batch_id: int, *entries: Entry, stamps: tuple[int, int, int, int] = (1, 2, 3, 4)) -> None:
        """A FINAL frame of the worker."""
        self.batches.final(batch_id, *self._received(entries, stamps))

    def _received(
        self, entries: tuple[Entry, ...], stamps: tuple[int, int, int, int] = parcels.NO_STAMPS
    ) -> tuple[parcels.Parcel, bytearray]:
        payload = bytearray(parcels.pack(Kind.FINAL, 0, entries, stamps=stamps)[HEADER.size :])
        return parcels.unpack(payload, self.signatures), payload


def answer(request_id: int, value: int = 0, *, final: bool = True) -> Entry:
    """A response with one tensor."""
    response = InferenceResponse({"OUT": Tensor.from_numpy(np.array([value], np.int32))}, final=final)
    return codec.response_entry(request_id, response, Signatures())


def credit(request_id: int, count: int) -> bytes:
    """The frame that lets the worker send so many responses more."""
    return frames.pack(Kind.CREDIT, request_id, count.to_bytes(4, "little"))


def test_ids_only_grow_and_every_request_gets_its_own_response() -> None:
    books = Books()
    one, two = Execution(), Execution()
    batch_id, (first, second) = books.begin(one, two)
    later_id, (third,) = books.begin(Execution())
    assert batch_id < first < second < later_id < third
    books.final(batch_id, answer(second, 2), answer(first, 1))
    for execution, value in ((one, 1), (two, 2)):
        (response,) = execution.responses
        assert response.outputs["OUT"].as_numpy().tolist() == [value]
    assert books.batches.open_count == 1


def test_a_batch_is_done_when_it_is_executed_and_every_request_has_its_final_response() -> None:
    books = Books()
    batch_id, (first, second) = books.begin(Execution(), Execution())
    books.respond(answer(first))
    books.final(batch_id)
    assert (books.done, books.batches.executing) == ([], True)
    books.respond(answer(second))
    assert (len(books.done), books.batches.executing) == (1, False)


def test_a_batch_whose_responses_come_before_its_execute_call_is_over_is_done_with_that() -> None:
    books = Books()
    batch_id, (first,) = books.begin(Execution())
    books.respond(answer(first))
    assert books.done == []
    books.final(batch_id, stamps=(5, 6, 7, 8))
    (batch,) = books.done
    assert (batch.compute_start, batch.compute_input_end, batch.compute_output_start, batch.compute_end) == (5, 6, 7, 8)


def test_a_decoupled_batch_is_done_with_its_execute_call_and_its_requests_stay_open() -> None:
    books = Books(decoupled=True)
    execution = Execution()
    batch_id, (first,) = books.begin(execution)
    books.final(batch_id)
    assert len(books.done) == 1
    books.respond(answer(first, 1, final=False), answer(first, 2))
    assert [response.final for response in execution.responses] == [False, True]
    assert (len(books.done), books.batches.open_count) == (1, 0)


def test_a_request_that_cannot_be_sent_fails_at_once_and_the_others_go() -> None:
    books = Books()
    astray, other = Execution(Device(2, 1)), Execution()
    batch_id, (sent,) = books.begin(astray, other)
    assert isinstance(astray.responses[0].error, Unsupported)
    books.final(batch_id, answer(sent))
    assert (len(books.done), len(other.responses)) == (1, 1)


def test_a_batch_of_which_nothing_can_be_sent_is_done_at_once() -> None:
    books = Books()
    assert books.begin(Execution(Device(2, 1)))[1] == []
    assert (len(books.done), books.batches.executing) == (1, False)


def test_the_worker_gets_credit_for_every_half_a_window_of_responses() -> None:
    books = Books(decoupled=True)
    _, (first,) = books.begin(Execution())
    half = frames.WINDOW // 2
    books.respond(*[answer(first, final=False)] * (half - 1))
    assert books.sent == []
    books.respond(*[answer(first, final=False)] * (half + 2))
    assert books.sent == [credit(first, half)] * 2


def test_a_paused_request_gets_its_credit_when_it_is_resumed() -> None:
    books = Books(decoupled=True)
    paused, other = Execution(), Execution()
    _, (first, second) = books.begin(paused, other)
    half = frames.WINDOW // 2
    paused.paused = True
    books.respond(*[answer(first, final=False)] * frames.WINDOW)
    books.batches.resume(other)
    assert books.sent == []
    books.respond(*[answer(second, final=False)] * half)
    paused.paused = False
    books.batches.resume(paused)
    books.batches.resume(paused)
    assert books.sent == [credit(second, half), credit(first, frames.WINDOW)]


def test_a_request_that_is_resumed_at_its_end_gets_nothing() -> None:
    books = Books(decoupled=True)
    execution = Execution()
    _, (first,) = books.begin(execution)
    execution.paused = True
    books.respond(*[answer(first, final=False)] * frames.WINDOW, answer(first))
    books.batches.resume(execution)
    assert books.sent == []


def test_a_cancelled_request_gets_no_more_credit() -> None:
    books = Books(decoupled=True)
    execution = Execution()
    _, (first,) = books.begin(execution)
    execution.cancelled = True
    books.respond(*[answer(first, final=False)] * frames.WINDOW)
    assert books.sent == []


def test_a_paused_request_of_a_dead_worker_is_forgotten() -> None:
    books = Books(decoupled=True)
    execution = Execution()
    _, (first,) = books.begin(execution)
    execution.paused = True
    books.respond(*[answer(first, final=False)] * frames.WINDOW)
    books.batches.fail("it fell over")
    books.batches.resume(execution)
    assert books.sent == []


def test_a_request_is_found_by_its_execution_until_it_has_its_final_response() -> None:
    books = Books()
    one, two = Execution(), Execution()
    _, (first, second) = books.begin(one, two)
    assert (books.batches.id_of(one), books.batches.id_of(two)) == (first, second)
    books.respond(answer(first))
    assert (books.batches.id_of(one), books.batches.id_of(two)) == (0, second)


def test_an_exception_of_the_model_fails_its_requests_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    books = Books()
    executions = Execution(request_id="a"), Execution(request_id="b")
    batch_id, ids = books.begin(*executions)
    flags = parcels.ENTRY_FINAL | parcels.ENTRY_ERROR | parcels.ENTRY_RAISED | 1 << 8
    books.final(batch_id, *[Entry(each, NOTHING, (), flags, b"ValueError: x") for each in ids])
    for execution in executions:
        error: Any = execution.responses[0].error
        assert (type(error), error.message) == (BackendFailure, "ValueError: x")
    (record,) = caplog.records
    assert (record.getMessage(), record.__dict__["instance"]) == ("ValueError: x", "m_0_0")
    assert record.__dict__["request_id"] == "b"


def test_a_dead_worker_fails_what_is_open_and_its_batches_are_done_once() -> None:
    books = Books()
    answered, opened, later = Execution(), Execution(), Execution()
    batch_id, (first, second) = books.begin(answered, opened)
    books.begin(later)
    books.respond(answer(first))
    books.batches.fail("it fell over")
    assert [len(execution.responses) for execution in (answered, opened, later)] == [1, 1, 1]
    assert answered.responses[0].error is None
    for execution in (opened, later):
        assert isinstance(execution.responses[0].error, InstanceDied)
        assert execution.responses[0].error.message == "it fell over"
    assert (len(books.done), books.batches.open_count, books.batches.executing) == (2, 0, False)
    books.final(batch_id, answer(second))
    assert (len(books.done), len(opened.responses)) == (2, 1)


def test_a_batch_that_a_failing_request_brings_on_outlives_the_failure() -> None:
    books = Books()

    class Again(Execution):
        def send(self, response: InferenceResponse) -> None:
            super().send(response)
            books.begin(Execution())

    books.begin(Again())
    books.batches.fail("it fell over")
    assert (len(books.done), books.batches.open_count) == (1, 1)


def again(request_id: int) -> Entry:
    """The model wants a request once more."""
    return Entry(request_id, NOTHING, (), parcels.ENTRY_RESCHEDULED)


@pytest.mark.parametrize("decoupled", [False, True])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_request_that_is_to_come_again_is_not_open_and_its_batch_is_done(
    *, decoupled: bool, order: tuple[int, int]
) -> None:
    books = Books(decoupled=decoupled)
    executions = Execution(), Execution()
    batch_id, ids = books.begin(*executions)
    entries = again(ids[0]), answer(ids[1])
    books.final(batch_id, *[entries[index] for index in order])
    assert (executions[0].responses, executions[0].marks) == ([], [ids[0]])
    assert (len(executions[1].responses), executions[1].marks) == (1, [])
    assert (len(books.done), books.batches.open_count, books.batches.executing) == (1, 0, False)
    books.respond(answer(ids[0]))
    assert executions[0].responses == []


def test_a_request_that_comes_again_has_another_id_and_says_the_one_before() -> None:
    books = Books()
    execution = Execution()
    batch_id, (first,) = books.begin(execution)
    books.final(batch_id, again(first))
    execution.request.earlier = execution.marks[0]
    entries = books.batches.begin(Batch([execution], 1), lambda: None, books.signatures)[1]
    assert entries[0].id > first
    assert json.loads(entries[0].extras) == {"earlier": first}


def test_a_response_and_the_wish_for_another_round_contradict_each_other_and_the_response_counts() -> None:
    books = Books()
    execution = Execution()
    batch_id, (first,) = books.begin(execution)
    books.final(batch_id, answer(first), again(first))
    assert (len(execution.responses), execution.marks, len(books.done)) == (1, [], 1)
