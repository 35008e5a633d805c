"""Many requests on one call: order, ends, failures, and clients that go away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import numpy as np
import pytest

from infer.backends.api.errors import BackendFailure, Unavailable
from infer.backends.api.response import InferenceResponse
from infer.backends.api.tensor import Tensor
from infer.server.grpc import stream as stream_module

if TYPE_CHECKING:
    from collections.abc import Callable

FINAL = "triton_final_response"


def answer(*values: float, final: bool = True) -> InferenceResponse:
    return InferenceResponse({"OUTPUT0": Tensor.from_numpy(np.array(values, dtype=np.float32))}, final=final)


def summary(made: Any) -> tuple[str, str, bool | None, bytes]:
    """Id, error, final flag and first content of a message."""
    infer = made.infer_response
    final = infer.parameters[FINAL].bool_param if FINAL in infer.parameters else None
    content = infer.raw_output_contents[0] if infer.raw_output_contents else b""
    return infer.id, made.error_message, final, content


def ids(made: list[Any]) -> list[str]:
    return [item.infer_response.id for item in made]


def floats(*values: float) -> bytes:
    return np.array(values, dtype=np.float32).tobytes()


@pytest.fixture
def held(door: Any) -> Callable[[int], list[Any]]:
    """Waits until so many requests are held, and gives their tickets."""

    def wait(count: int) -> list[Any]:
        door.wait_until(lambda: len(door.engine.held) == count)
        return door.engine.held

    return wait


@pytest.fixture
def decoupled(door: Any) -> Any:
    """A decoupled model whose requests a test answers."""
    from infer.tests.unit.server.http.conftest import model, spec

    door.engine.add(model("drip", [spec("INPUT0", "FP32", -1)], [spec("OUTPUT0", "FP32", -1)], decoupled=True), None)
    return "drip"


def respond(door: Any, ticket: Any, *responses: InferenceResponse) -> None:
    def send() -> None:
        for response in responses:
            ticket.done = response.final
            ticket.on_response(response)

    door.on_loop(send)


def test_ordinary_requests_are_answered_in_their_order(door: Any, open_stream: Any, make: Any, held: Any) -> None:
    stream = open_stream()
    stream.send(make.one("held", [1], id="a"), make.one("held", [2], id="b"), make.simple(id="c"))
    tickets = list(held(2))
    door.wait_until(lambda: len(door.engine.tickets) == 3 and door.engine.tickets[2].done)
    respond(door, tickets[1], answer(2))
    respond(door, tickets[0], answer(1))
    made = stream.rest()
    assert ids(made) == ["a", "b", "c"]
    assert [summary(item)[2] for item in made] == [True, True, True]
    assert stream.end()[0] is grpc.StatusCode.OK


def test_decoupled_requests_do_not_wait_for_each_other(
    door: Any, open_stream: Any, make: Any, held: Any, decoupled: str
) -> None:
    stream = open_stream()
    stream.send(make.one("held", [1], id="slow"), make.one(decoupled, [1], id="a"), make.one(decoupled, [1], id="b"))
    slow, first, second = held(3)
    respond(door, second, answer(1, final=False))
    assert summary(stream.take()) == ("b", "", False, floats(1))
    respond(door, first, answer(2, final=False))
    respond(door, second, answer(3))
    assert summary(stream.take()) == ("a", "", False, floats(2))
    assert summary(stream.take()) == ("b", "", True, floats(3))
    respond(door, first, answer(4))
    assert summary(stream.take()) == ("a", "", True, floats(4))
    respond(door, slow, answer(5))
    assert [summary(item) for item in stream.rest()] == [("slow", "", True, floats(5))]


@pytest.mark.parametrize("count", [0, 2])
@pytest.mark.parametrize("wanted", [False, True])
def test_an_end_that_carries_nothing_is_sent_to_who_wants_it(
    door: Any, open_stream: Any, make: Any, held: Any, decoupled: str, parametrise: Any, wanted: bool, count: int
) -> None:
    values = {"triton_enable_empty_final_response": ("bool_param", True)} if wanted else {}
    stream = open_stream()
    stream.send(parametrise(make.one(decoupled, [1], id="x"), values))
    (ticket,) = held(1)
    respond(door, ticket, *[answer(1, final=False)] * count, InferenceResponse())
    made = stream.rest()
    expected = [("x", "", False, floats(1))] * count + ([("x", "", True, b"")] if wanted else [])
    assert [summary(item) for item in made] == expected
    if wanted:
        last = made[-1].infer_response
        assert (last.model_name, last.model_version, list(last.outputs)) == (decoupled, "", [])


@pytest.mark.parametrize(
    ("request_of", "phrase"),
    [
        (lambda make: make("nope", id="x"), "Request for unknown model: 'nope' is not found"),
        (lambda make: make("simple", id="x"), "expected 2 inputs but got 0 inputs for model 'simple'"),
        (lambda make: make.one("decoupled", [1], id="x", outputs=[{"name": "N"}]), "unexpected inference output 'N'"),
        (lambda make: make("simple", id="x", model_version="abc"), "failed to get model version"),
    ],
)
def test_a_refused_request_is_a_message_and_the_next_one_succeeds(
    door: Any, open_stream: Any, make: Any, request_of: Any, phrase: str
) -> None:
    stream = open_stream()
    stream.send(request_of(make), make.simple(id="next"))
    first, second = sorted(stream.rest(), key=lambda item: item.infer_response.id, reverse=True)
    assert phrase in first.error_message
    assert summary(first)[::2] == ("x", None)
    assert first.infer_response.model_name == ""
    assert summary(second)[:2] == ("next", "")
    assert stream.end()[0] is grpc.StatusCode.OK
    assert all(ticket.done for ticket in door.engine.tickets)


def test_a_refusal_takes_its_turn(door: Any, open_stream: Any, make: Any, held: Any) -> None:
    stream = open_stream()
    stream.send(make.one("held", [1], id="a"), make("nope", id="b"))
    (ticket,) = held(1)
    respond(door, ticket, answer(1))
    assert ids(stream.rest()) == ["a", "b"]
    assert [error.code.name for error in door.engine.refused] == ["NOT_FOUND"]


def test_what_is_no_message_is_refused_in_the_stream(open_stream: Any, make: Any) -> None:
    stream = open_stream()
    stream.send(b"\xff\xff", make.simple(id="next"))
    first, second = stream.rest()
    assert first.error_message == "Unable to parse request"
    assert second.infer_response.id == "next"


def test_a_failure_names_the_request_and_its_end(
    door: Any, open_stream: Any, make: Any, held: Any, decoupled: str
) -> None:
    stream = open_stream()
    stream.send(make.one(decoupled, [1], id="x"))
    (ticket,) = held(1)
    respond(door, ticket, answer(1, final=False), InferenceResponse(error=BackendFailure("boom"), final=True))
    first, second = stream.rest()
    assert summary(first) == ("x", "", False, floats(1))
    assert summary(second) == ("x", "boom", True, b"")
    assert second.infer_response.model_name == decoupled


def test_classes_that_cannot_be_had_fail_one_request(open_stream: Any, make: Any, parametrise: Any) -> None:
    def text(request_id: str) -> Any:
        tensor = make.tensor("INPUT0", "BYTES", 1)
        return make("text", raw=(b"\1\0\0\0a",), inputs=[tensor], id=request_id, outputs=[{"name": "OUTPUT0"}])

    wanted = text("x")
    parametrise(wanted.outputs[0], {"classification": ("int64_param", 1)})
    stream = open_stream()
    stream.send(wanted, text("y"))
    first, second = stream.rest()
    assert "class result not available" in first.error_message
    assert summary(first)[2] is True
    assert summary(second)[:2] == ("y", "")


def test_a_response_that_cannot_be_written_fails_its_request_alone(
    door: Any, open_stream: Any, make: Any, held: Any, caplog: pytest.LogCaptureFixture
) -> None:
    stream = open_stream()
    stream.send(make.one("held", [1], id="x"), make.simple(id="y"))
    (ticket,) = held(1)
    respond(door, ticket, InferenceResponse({"no\udcff": Tensor.from_numpy(np.ones(1, dtype=np.float32))}))
    first, second = stream.rest()
    assert summary(first)[:3] == ("x", "internal server error; the server's log has the details", True)
    assert summary(second)[:2] == ("y", "")
    assert "a response of model 'held' could not be written" in caplog.text


def test_a_fault_in_reading_ends_the_call(
    door: Any, open_stream: Any, make: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_arguments: Any, **_named: Any) -> Any:
        msg = "a fault"
        raise RuntimeError(msg)

    monkeypatch.setattr("infer.server.grpc.requests.RequestReader.read", broken)
    stream = open_stream()
    stream.send(make.simple(id="x"))
    with pytest.raises(grpc.RpcError):
        stream.rest()
    assert stream.end()[0] is grpc.StatusCode.INTERNAL
    assert "ModelStreamInfer failed" in caplog.text


def test_who_asks_for_a_status_gets_the_first_failure_as_one(
    door: Any, open_stream: Any, make: Any, decoupled: str
) -> None:
    stream = open_stream(("triton_grpc_error", "true"))
    stream.send(make("nope", id="refused"), make.one(decoupled, [1], id="z"), make.one("raises", [1], id="x"))
    refused = stream.take()
    assert (refused.infer_response.id, "unknown model" in refused.error_message) == ("refused", True)
    with pytest.raises(grpc.RpcError):
        stream.rest()
    assert stream.end() == (grpc.StatusCode.INTERNAL, "ValueError: boom from execute")
    door.wait_until(lambda: door.engine.held[0].cancelled)


@pytest.mark.parametrize("value", ["false", "TRUE", "1", ""])
def test_any_other_value_asks_for_messages(open_stream: Any, make: Any, value: str) -> None:
    stream = open_stream(("triton_grpc_error", value))
    stream.send(make.one("raises", [1], id="x"))
    assert [summary(item)[:3] for item in stream.rest()] == [("x", "ValueError: boom from execute", True)]
    assert stream.end()[0] is grpc.StatusCode.OK


def test_half_a_close_waits_for_every_answer(door: Any, open_stream: Any, make: Any, held: Any) -> None:
    stream = open_stream()
    stream.send(*[make.one("held", [n], id=str(n)) for n in range(3)])
    stream.half_close()
    tickets = list(held(3))
    assert not stream.call.done()
    for ticket in tickets:
        respond(door, ticket, answer(1))
    assert ids(stream.rest()) == ["0", "1", "2"]
    assert stream.end()[0] is grpc.StatusCode.OK


def test_a_stream_without_requests_ends_well(open_stream: Any) -> None:
    stream = open_stream()
    assert stream.rest() == []
    assert stream.end()[0] is grpc.StatusCode.OK


@pytest.mark.parametrize("closed", [False, True], ids=["open", "half-closed"])
def test_a_cancel_cancels_everything_on_the_stream(
    door: Any, open_stream: Any, make: Any, held: Any, decoupled: str, closed: bool
) -> None:
    stream, other = open_stream(), open_stream()
    other.send(make.one("held", [1], id="other"))
    (kept,) = held(1)
    stream.send(make.one("held", [1], id="a"), make.one(decoupled, [1], id="b"))
    tickets = held(3)[1:]
    if closed:
        stream.half_close()
    stream.call.cancel()
    door.wait_until(lambda: all(ticket.cancelled for ticket in tickets))
    assert not kept.cancelled
    respond(door, kept, answer(1))
    assert ids(other.rest()) == ["other"]
    door.wait_until(lambda: door.service.stream_count == 0)


def test_what_comes_behind_a_cancel_is_dropped(
    door: Any, open_stream: Any, make: Any, held: Any, decoupled: str
) -> None:
    released: list[bool] = []
    late = InferenceResponse(
        {"OUTPUT0": Tensor.from_numpy(np.ones(1, dtype=np.float32))}, final=False,
    )  # fmt: skip
    late.outputs["OUTPUT0"]._release = lambda: released.append(True)
    stream = open_stream()
    stream.send(make.one(decoupled, [1]))
    (ticket,) = held(1)
    ticket.cancel = lambda: setattr(ticket, "cancelled", True)  # the model goes on for a while
    stream.call.cancel()
    door.wait_until(lambda: ticket.cancelled)
    respond(door, ticket, late, InferenceResponse())
    assert released == [True]


def test_during_a_drain_requests_are_refused_and_the_others_finish(
    door: Any, open_stream: Any, make: Any, held: Any
) -> None:
    stream = open_stream()
    stream.send(make.one("held", [1], id="a"))
    (ticket,) = held(1)
    door.serving.run(door.service.stop_accepting())
    door.engine.draining = True
    stream.send(make.one("held", [1], id="b"))
    respond(door, ticket, answer(1))
    first, second = stream.rest()
    assert summary(first)[:2] == ("a", "")
    assert summary(second)[:2] == ("b", stream_module.SHUTTING_DOWN)
    assert stream.end()[0] is grpc.StatusCode.OK


def test_a_stop_ends_a_stream_that_its_client_leaves_open(door: Any, open_stream: Any, make: Any) -> None:
    stream = open_stream()
    stream.send(make.simple(id="a"))
    assert stream.take().infer_response.id == "a"
    door.serving.run(door.service.stop())
    with pytest.raises(grpc.RpcError):
        stream.rest()
    assert stream.end() == (grpc.StatusCode.UNAVAILABLE, stream_module.SHUTTING_DOWN)


def test_a_stop_waits_a_moment_for_answers(door: Any, open_stream: Any, make: Any, held: Any) -> None:
    stream = open_stream()
    stream.send(make.one("held", [1], id="a"))
    (ticket,) = held(1)
    respond(door, ticket, InferenceResponse(error=Unavailable("Server exiting")))
    door.serving.run(door.service.stop())
    assert stream.take().error_message == "Server exiting"


def test_a_client_that_does_not_read_is_not_read_either(
    door: Any, open_stream: Any, make: Any, held: Any, monkeypatch: pytest.MonkeyPatch, decoupled: str
) -> None:
    """What waits to be sent is bounded for requests to come; other streams go on."""
    monkeypatch.setattr(stream_module, "MAX_UNSENT", 1 << 20)
    stalled, other = open_stream(), open_stream()
    stalled.send(make.one(decoupled, [1], id="big"))
    (ticket,) = held(1)
    chunk = np.zeros(1 << 20, dtype=np.float32)
    respond(door, ticket, *[_large(chunk) for _ in range(4)])
    stalled.send(*[make.one(decoupled, [1], id=str(n)) for n in range(3)])
    other.send(make.simple(id="other"))
    assert other.take().infer_response.id == "other"
    assert len(door.engine.held) <= 2
    respond(door, ticket, answer(1))
    made = [stalled.take() for _ in range(5)]
    assert ids(made) == ["big"] * 5
    for waiting in held(4)[1:]:
        respond(door, waiting, answer(1))
    assert len(stalled.rest()) == 3


def test_senders_pause_while_much_waits_for_a_client_and_go_on_when_it_has_read(
    door: Any, open_stream: Any, make: Any, held: Any, decoupled: str
) -> None:
    stalled, other = open_stream(), open_stream()
    stalled.send(make.one(decoupled, [1], id="big"))
    other.send(make.one(decoupled, [1], id="small"))
    by_id = {each.request.request_id: each for each in held(2)}
    ticket, quick = by_id["big"], by_id["small"]
    chunk = np.zeros(1 << 20, dtype=np.float32)
    respond(door, ticket, *[_large(chunk) for _ in range(4)])
    respond(door, quick, answer(1, final=False))
    assert (ticket.paused, quick.paused) == (True, False)
    assert ids([stalled.take() for _ in range(4)]) == ["big"] * 4
    door.wait_until(lambda: not ticket.paused)
    respond(door, ticket, answer(2))
    respond(door, quick, answer(2))
    assert (len(stalled.rest()), len(other.rest())) == (1, 2)


def test_small_messages_that_wait_pause_their_sender_too(
    door: Any, open_stream: Any, make: Any, held: Any, decoupled: str
) -> None:
    stream = open_stream()
    stream.send(make.one(decoupled, [1], id="many"))
    (ticket,) = held(1)
    chunk = np.zeros(2000, dtype=np.float32)
    respond(door, ticket, *[_large(chunk) for _ in range(1000)])
    assert ticket.paused
    assert ids([stream.take() for _ in range(1000)]) == ["many"] * 1000
    door.wait_until(lambda: not ticket.paused)
    respond(door, ticket, answer(2))
    assert len(stream.rest()) == 1


@pytest.mark.parametrize("at_once", [0, 100, 1 << 20])
def test_messages_keep_their_order_whether_they_wait_or_not(
    door: Any, open_stream: Any, make: Any, held: Any, decoupled: str, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(stream_module, "AT_ONCE", at_once)
    stream = open_stream()
    stream.send(make.one(decoupled, [1], id="mixed"))
    (ticket,) = held(1)
    sizes = [1, 100_000, 2, 3, 50_000, 4, 300_000, 5, 6, 7]
    for size in sizes[:3]:
        respond(door, ticket, _large(np.zeros(size, dtype=np.float32)))
    respond(door, ticket, *[_large(np.zeros(size, dtype=np.float32)) for size in sizes[3:]])
    made = [stream.take() for _ in sizes]
    assert [len(item.infer_response.raw_output_contents[0]) // 4 for item in made] == sizes
    respond(door, ticket, answer(2))
    assert [summary(item)[2] for item in stream.rest()] == [True]


def _large(array: Any) -> InferenceResponse:
    return InferenceResponse({"OUTPUT0": Tensor.from_numpy(array)}, final=False)
