"""Sequences behind a whole server: over both doors, called by other models, and requests that a model wants again."""

from __future__ import annotations

import queue
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from tritonclient.utils import InferenceServerException

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from infer.app.wiring import RunningServer

    Serve = Any

LIMIT_S = 20
START, END = 1, 2
TENSORS = """
backend: "python"
input [ { name: "IN" data_type: TYPE_INT32 dims: [ 1 ] } ]
output [ { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] } ]
"""
CPU = "instance_group [ { kind: KIND_CPU count: %d } ]\n"
CONTROLS = """
sequence_batching {
  max_sequence_idle_microseconds: 60000000
  control_input [
    { name: "START" control [ { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } ] },
    { name: "READY" control [ { kind: CONTROL_SEQUENCE_READY bool_false_true: [ false, true ] } ] },
    { name: "END" control [ { kind: CONTROL_SEQUENCE_END fp32_false_true: [ 0, 1 ] } ] },
    { name: "ID" control [ { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } ] }
  ]
}
"""
HEADER = """
import os
import time
import numpy as np
import triton_python_backend_utils as pb_utils

def read(request, name="IN"):
    return pb_utils.get_input_tensor_by_name(request, name).as_numpy()

def out(*values, name="OUT"):
    return pb_utils.InferenceResponse([pb_utils.Tensor(name, np.array(values, np.int32))])
"""
ACCUM = """
class TritonPythonModel:
    # Keeps a sum for each sequence by its id; 1000 as input asks how many sums there are, -40 takes 40 ms after "go".
    def initialize(self, args):
        self.sums = {}
        self.go = os.path.join(args["model_repository"], "go")
    def execute(self, requests):
        responses = []
        for request in requests:
            key, flags, value = request.correlation_id(), request.flags(), int(read(request).ravel()[0])
            if flags & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START:
                self.sums[key] = 0
            if value == 666:
                os._exit(1)
            if value == 1000:
                responses.append(out(len(self.sums)))
                continue
            if value < 0:
                while not os.path.exists(self.go):
                    time.sleep(0.002)
                time.sleep(-value / 1000)
                value = 1
            self.sums[key] += value
            responses.append(out(self.sums[key]))
            if flags & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END:
                del self.sums[key]
        return responses
"""
ROWS = """
class TritonPythonModel:
    # Says what its controls say, and how many rows its batch has.
    def execute(self, requests):
        responses = []
        for request in requests:
            told = [int(read(request, name).ravel()[0]) for name in ("START", "READY", "END", "ID")]
            assert read(request, "START").shape == (1, 1)
            responses.append(pb_utils.InferenceResponse(
                [pb_utils.Tensor("OUT", np.array([[*told, len(requests)]], np.int32))]))
        return responses
"""
WRAPPER = """
class TritonPythonModel:
    # Sends its inputs to another model as one sequence of its own.
    def execute(self, requests):
        responses = []
        for request in requests:
            values = read(request, "VALUES").tolist()
            sums = []
            for index, value in enumerate(values):
                flags = (index == 0) * pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START
                flags |= (index == len(values) - 1) * pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END
                call = pb_utils.InferenceRequest(
                    model_name="accum", inputs=[pb_utils.Tensor("IN", np.array([value], np.int32))],
                    requested_output_names=["OUT"], correlation_id=read(request, "WHOSE").tolist()[0].decode(),
                    flags=flags)
                answer = call.exec()
                if answer.has_error():
                    raise pb_utils.TritonModelException(answer.error().message())
                sums.append(int(answer.output_tensors()[0].as_numpy()[0]))
            responses.append(out(*sums, name="SUMS"))
        return responses
"""
WRAPPER_CONFIG = """
backend: "python"
input [ { name: "VALUES" data_type: TYPE_INT32 dims: [ -1 ] }, { name: "WHOSE" data_type: TYPE_STRING dims: [ 1 ] } ]
output [ { name: "SUMS" data_type: TYPE_INT32 dims: [ -1 ] } ]
"""
AGAIN = """
class TritonPythonModel:
    # Executes a request as often as its input says, then answers how often that was and under which ids.
    def initialize(self, args):
        self.rounds = {}
    def execute(self, requests):
        responses = []
        for request in requests:
            key, wanted = request.correlation_id(), int(read(request).ravel()[0])
            assert bool(request.flags() & 1) is (key not in self.rounds)
            self.rounds[key] = self.rounds.get(key, 0) + 1
            if wanted == 13:
                request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
                raise ValueError("bad luck")
            if wanted == 14:
                request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
                responses.append(pb_utils.InferenceResponse(error=pb_utils.TritonError("no more of it")))
            elif wanted == 15:
                request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
                responses.append(out(0))
            elif self.rounds[key] < wanted:
                request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
                responses.append(None)
            else:
                responses.append(out(self.rounds.pop(key)))
        return responses
"""
STREAM = """
class TritonPythonModel:
    # Counts down, one response an execution, with the sender of the first one.
    def initialize(self, args):
        self.left = {}
    def execute(self, requests):
        for request in requests:
            key = request.correlation_id()
            left, sender = self.left.pop(key, (int(read(request).ravel()[0]), request.get_response_sender()))
            left -= 1
            if sender.is_cancelled():
                sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            elif left:
                request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
                sender.send(out(left))
                self.left[key] = left, sender
            else:
                sender.send(out(left), flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
ITERATIVE = "sequence_batching { iterative_sequence: true }\n"
DECOUPLED = "model_transaction_policy { decoupled: true }\n"
MODELS = {
    "accum": (TENSORS + CPU % 2 + "sequence_batching { max_sequence_idle_microseconds: 60000000 }\n", ACCUM),
    "fragile": (TENSORS + CPU % 1 + "sequence_batching { max_sequence_idle_microseconds: 60000000 }\n", ACCUM),
    "hasty": (TENSORS + CPU % 1 + "sequence_batching { max_sequence_idle_microseconds: 20000 }\n", ACCUM),
    "rows": (TENSORS.replace('"OUT" data_type: TYPE_INT32 dims: [ 1 ]',
             '"OUT" data_type: TYPE_INT32 dims: [ 5 ]') + CPU % 1 + "max_batch_size: 4\n" + CONTROLS, ROWS),
    "wrapper": (WRAPPER_CONFIG + CPU % 1, WRAPPER),
    "again": (TENSORS + CPU % 1 + ITERATIVE, AGAIN),
    "again_batched": (TENSORS + CPU % 1 + "max_batch_size: 4\n" + ITERATIVE.replace("true", "true oldest {}"), AGAIN),
    "stream": (TENSORS + CPU % 1 + ITERATIVE + DECOUPLED, STREAM),
    "plain": (TENSORS + CPU % 1, AGAIN.replace("assert ", "")),
}  # fmt: skip


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    repository: Path = tmp_path_factory.mktemp("models")
    for name, (config, source) in MODELS.items():
        (repository / name / "1").mkdir(parents=True)
        (repository / name / "config.pbtxt").write_text(config)
        (repository / name / "1" / "model.py").write_text(HEADER + source)
    return repository


@pytest.fixture(scope="module")
def server(repository: Path, serve: Serve) -> Iterator[RunningServer]:
    with serve(repository) as running:
        yield running


@pytest.fixture(params=["http", "grpc"])
def client(server: RunningServer, request: pytest.FixtureRequest) -> Iterator[Any]:
    address = server.http_address if request.param == "http" else server.grpc_address
    assert address is not None
    module = httpclient if request.param == "http" else grpcclient
    with module.InferenceServerClient(f"{address[0]}:{address[1]}") as client:
        client.module = module
        yield client


def send(client: Any, model: str, value: int, sequence: int | str = 0, flags: int = 0, shape: Any = (1,)) -> Any:
    given = client.module.InferInput("IN", list(shape), "INT32")
    given.set_data_from_numpy(np.full(shape, value, np.int32))
    result = client.infer(
        model, [given], sequence_id=sequence, sequence_start=bool(flags & START), sequence_end=bool(flags & END)
    )
    return result.as_numpy("OUT").ravel().tolist()


@pytest.fixture
def grpc_client(server: RunningServer) -> Iterator[Any]:
    address = server.grpc_address
    assert address is not None
    with grpcclient.InferenceServerClient(f"{address[0]}:{address[1]}") as client:
        client.module = grpcclient
        yield client


# A sequence, over both doors


@pytest.mark.parametrize("sequence", [7, 2**64 - 1, "mine"])
def test_a_sequence_keeps_its_state_from_start_to_end(client: Any, sequence: int | str) -> None:
    if client.module is grpcclient and sequence == 2**64 - 1:
        pytest.skip("the client sends an int64")
    assert send(client, "accum", 5, sequence, START) == [5]
    assert send(client, "accum", 6, sequence) == [11]
    assert send(client, "accum", 7, sequence, END) == [18]
    with pytest.raises(
        InferenceServerException,
        match=rf"inference request for sequence {sequence} to model 'accum' must specify the START flag on the first",
    ):
        send(client, "accum", 8, sequence)


def test_a_sequence_of_one_request_ends_with_it(client: Any) -> None:
    for _ in range(3):
        assert send(client, "accum", 5, 8, START | END) == [5]


def test_start_on_a_sequence_that_goes_on_begins_it_anew(client: Any) -> None:
    assert [send(client, "accum", 5, 9, START), send(client, "accum", 5, 9)] == [[5], [10]]
    assert [send(client, "accum", 1, 9, START), send(client, "accum", 1, 9, END)] == [[1], [2]]


def test_a_request_without_an_id_is_refused(client: Any) -> None:
    sentence = "inference request to model 'accum' must specify a non-zero or non-empty correlation ID"
    with pytest.raises(InferenceServerException, match=sentence):
        send(client, "accum", 5)


def test_a_batch_of_several_rows_is_refused(client: Any) -> None:
    sentence = "model 'rows' must specify batch-size 1 due to requirements of sequence batcher"
    with pytest.raises(InferenceServerException, match=sentence):
        send(client, "rows", 5, 9, START, shape=(2, 1))


def test_a_model_is_told_where_in_its_sequence_a_request_stands(client: Any) -> None:
    said = [send(client, "rows", 0, 77, flags, shape=(1, 1)) for flags in (START, 0, END, START | END)]
    assert said == [[1, 1, 0, 77, 1], [0, 1, 0, 77, 1], [0, 1, 1, 77, 1], [1, 1, 1, 77, 1]]


def test_a_text_is_no_id_for_a_model_that_takes_a_number(client: Any) -> None:
    sentence = "sequence batching control 'ID' data-type is 'BYTES', but model 'rows' expects 'UINT64'"
    with pytest.raises(InferenceServerException, match=sentence):
        send(client, "rows", 0, "mine", START, shape=(1, 1))


def test_a_free_row_below_one_that_executes_reaches_a_model_that_knows_what_is_ready(client: Any) -> None:
    assert send(client, "rows", 0, 5, START, shape=(1, 1)) == [1, 1, 0, 5, 1]
    assert send(client, "rows", 0, 6, START, shape=(1, 1)) == [1, 1, 0, 6, 2]
    assert send(client, "rows", 0, 5, END, shape=(1, 1)) == [0, 1, 1, 5, 1]
    assert send(client, "rows", 0, 6, END, shape=(1, 1)) == [0, 1, 1, 6, 2]


def test_sequences_over_one_stream_are_kept_apart_and_in_order(grpc_client: Any) -> None:
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
    grpc_client.start_stream(lambda result, error: answers.put((result, error)))
    for value in range(1, 6):
        for sequence in ("odd", "even"):
            given = grpcclient.InferInput("IN", [1], "INT32")
            given.set_data_from_numpy(np.array([2 * value - (sequence == "odd")], np.int32))
            grpc_client.async_stream_infer(
                "accum",
                [given],
                request_id=sequence,
                sequence_id=sequence,
                sequence_start=value == 1,
                sequence_end=value == 5,
            )
    sums: dict[str, list[int]] = {"odd": [], "even": []}
    for _ in range(10):
        result, error = answers.get(timeout=LIMIT_S)
        assert error is None
        sums[result.get_response().id].append(int(result.as_numpy("OUT")[0]))
    grpc_client.stop_stream()
    assert sums == {"odd": [1, 4, 9, 16, 25], "even": [2, 6, 12, 20, 30]}


def test_a_sequence_ends_with_the_worker_that_has_its_state(client: Any) -> None:
    assert send(client, "fragile", 5, 3, START) == [5]
    with pytest.raises(InferenceServerException, match="Stub process 'fragile_0_0'"):
        send(client, "fragile", 666, 3)
    deadline = time.monotonic() + LIMIT_S
    while not client.is_model_ready("fragile"):
        assert time.monotonic() < deadline
    with pytest.raises(InferenceServerException, match="sequence 3 to model 'fragile' must specify the START flag"):
        send(client, "fragile", 5, 3)
    assert send(client, "fragile", 6, 3, START | END) == [6]


# CASE-48 and CASE-49


def test_work_that_waits_is_not_idle_however_short_the_idle_time_is(
    server: RunningServer, repository: Path, grpc_client: Any
) -> None:
    (scheduler,) = [served.scheduler for entry, served in server.engine.rows() if entry.name == "hasty" and served]
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for index in range(5):
        given = grpcclient.InferInput("IN", [1], "INT32")
        given.set_data_from_numpy(np.array([-40], np.int32))
        grpc_client.async_infer(
            "hasty",
            [given],
            lambda result, error: answers.put((result, error)),
            sequence_id=4,
            sequence_start=index == 0,
            sequence_end=index == 4,
        )
        # One after the other, as each has a call of its own; the first does not end before all are there.
        deadline = time.monotonic() + LIMIT_S
        while scheduler.in_flight <= index:
            assert time.monotonic() < deadline
            threading.Event().wait(0.002)
    (repository / "hasty" / "go").touch()
    got = [answers.get(timeout=LIMIT_S) for _ in range(5)]
    assert [error for _, error in got] == [None] * 5
    assert sorted(int(result.as_numpy("OUT")[0]) for result, _ in got) == [1, 2, 3, 4, 5]


def test_a_sequence_that_was_silent_too_long_has_ended_and_its_slot_is_free(
    client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "infer.scheduling"):
        send(client, "hasty", 5, 3, START)
        # The only slot: it is had when the silent sequence is over.
        assert send(client, "hasty", 6, 2, START | END) == [6]
        with pytest.raises(InferenceServerException, match="sequence 3 to model 'hasty' must specify the START flag"):
            send(client, "hasty", 5, 3)
        assert send(client, "hasty", 7, 3, START | END) == [7]
    assert sum("has ended: it was idle" in record.message for record in caplog.records) == 1


# CASE-27: sequences of models that call models


def test_a_model_calls_another_with_a_sequence_of_its_own(server: RunningServer, grpc_client: Any) -> None:
    def ask(whose: str, answers: list[list[int]]) -> None:
        values = grpcclient.InferInput("VALUES", [3], "INT32")
        values.set_data_from_numpy(np.array([1, 2, 3], np.int32))
        name = grpcclient.InferInput("WHOSE", [1], "BYTES")
        name.set_data_from_numpy(np.array([whose.encode()], np.object_))
        answers.append(grpc_client.infer("wrapper", [values, name]).as_numpy("SUMS").tolist())

    answers: list[list[int]] = []
    askers = [threading.Thread(target=ask, args=(f"asker {index}", answers)) for index in range(4)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join(LIMIT_S)
    assert answers == [[1, 3, 6]] * 4
    # What was kept for them is let go of: only the asking sequence is left, on either instance.
    assert [send(grpc_client, "accum", 1000, f"left {n}", START) for n in range(2)] == [[1], [1]]
    assert [send(grpc_client, "accum", 0, f"left {n}", END) for n in range(2)] == [[0], [0]]


# Requests that a model asks for again


@pytest.mark.parametrize("rounds", [1, 2, 7])
def test_a_request_comes_as_often_as_its_model_asks_for_it(client: Any, rounds: int) -> None:
    assert send(client, "again", rounds) == [rounds]
    assert send(client, "again", rounds, "of its own", START) == [rounds]


def test_requests_that_come_again_share_batches_with_new_ones(grpc_client: Any) -> None:
    answers: list[list[int]] = []

    def ask(rounds: int) -> None:
        answers.append(send(grpc_client, "again_batched", rounds, shape=(1, 1)))

    askers = [threading.Thread(target=ask, args=(1 + index % 5,)) for index in range(12)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join(LIMIT_S)
    assert sorted(answers) == sorted([[1 + index % 5] for index in range(12)])


def test_a_response_to_a_request_that_is_rescheduled_is_an_error(client: Any) -> None:
    sentence = "Expected a None object in the execute function return list for reschduled request"
    with pytest.raises(InferenceServerException, match=sentence):
        send(client, "again", 15)
    assert send(client, "again", 2) == [2]


def test_an_error_and_an_exception_end_a_request_that_was_to_come_again(client: Any) -> None:
    with pytest.raises(InferenceServerException, match="bad luck"):
        send(client, "again", 13)
    with pytest.raises(InferenceServerException, match="no more of it"):
        send(client, "again", 14)
    assert send(client, "again", 2) == [2]


def test_a_model_that_is_not_iterative_cannot_ask_for_a_request_again(client: Any) -> None:
    sentence = "RELEASE_RESCHEDULE, while the model is not configured to handle such a flag"
    with pytest.raises(InferenceServerException, match=sentence):
        send(client, "plain", 2)
    assert send(client, "plain", 1) == [2]


def stream(client: Any, count: int) -> queue.SimpleQueue[Any]:
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
    given = grpcclient.InferInput("IN", [1], "INT32")
    given.set_data_from_numpy(np.array([count], np.int32))
    client.start_stream(lambda result, error: answers.put(error or int(result.as_numpy("OUT")[0])))
    client.async_stream_infer("stream", [given])
    return answers


@pytest.mark.parametrize("count", [1, 3, 40])
def test_a_decoupled_request_is_answered_a_little_in_each_round(grpc_client: Any, count: int) -> None:
    answers = stream(grpc_client, count)
    assert [answers.get(timeout=LIMIT_S) for _ in range(count)] == list(range(count - 1, -1, -1))
    grpc_client.stop_stream()


def test_a_request_that_is_cancelled_does_not_come_again(server: RunningServer, grpc_client: Any) -> None:
    answers = stream(grpc_client, 2**31 - 1)
    assert answers.get(timeout=LIMIT_S) == 2**31 - 2
    grpc_client.stop_stream(cancel_requests=True)
    assert stream(grpc_client, 1).get(timeout=LIMIT_S) == 0
    grpc_client.stop_stream()
