"""Models that send faster than their readers read: a server process that does not grow, and delays nobody else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from infer.tests.conftest import eventually
from infer.tests.contract.conftest import Reader, numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Server = Any

POUR = """
import threading
import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL

class TritonPythonModel:
    def initialize(self, args):
        self.sent = self.ended = 0

    def execute(self, requests):
        for request in requests:
            count, size = pb_utils.get_input_tensor_by_name(request, "COUNT_SIZE").as_numpy().tolist()
            sender = request.get_response_sender()
            if not count:
                sender.send(self.response(np.array([self.sent, self.ended], np.int32)), FINAL)
            elif count < 0:
                self.pour(sender, -count, size)
            else:
                threading.Thread(target=self.pour, args=(sender, count, size)).start()

    def pour(self, sender, count, size):
        for number in range(count):
            sender.send(self.response(np.full(size // 4, number, np.int32)))
            self.sent += 1
        sender.send(flags=FINAL)
        self.ended += 1

    def response(self, array):
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", array)])
"""
"""Sends so many responses of such a size: from a thread, or for a negative count within execute; for 0 says how many
it has sent, and how many requests it has answered to the end."""
READ_ON = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        out = []
        for request in requests:
            wanted = pb_utils.get_input_tensor_by_name(request, "COUNT_SIZE").as_numpy()
            calls = [self.call(wanted).exec(decoupled=True) for _ in range(2)]
            numbers = [r.output_tensors()[0].as_numpy()[0] for pair in zip(*calls) for r in pair if r.output_tensors()]
            out.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array(numbers, np.int32))]))
        return out

    def call(self, wanted):
        return pb_utils.InferenceRequest(
            model_name="pour", inputs=[pb_utils.Tensor("COUNT_SIZE", wanted)], requested_output_names=["OUT"])
"""
"""Calls the other model twice and reads the two answers in turns."""
CONFIG = """
backend: "python"
input [ { name: "COUNT_SIZE" data_type: TYPE_INT32 dims: [ 2 ] } ]
output [ { name: "OUT" data_type: TYPE_INT32 dims: [ -1 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
"""
DECOUPLED = "model_transaction_policy { decoupled: true }\n"
SQUARE = """
backend: "square"
model_transaction_policy { decoupled: true }
input [ { name: "IN" data_type: TYPE_INT32 dims: [ 1 ] } ]
output [ { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] } ]
"""
LIMIT_S = 60
ROOM = 48 << 20
"""Bytes that the server may grow by while a reader does not read: windows, buffers, and what Python keeps."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, start_module_server: Any) -> Server:
    """A server process, as its memory is looked at."""
    repository: Path = tmp_path_factory.mktemp("models")
    for name, config, source in (
        ("pour", DECOUPLED + CONFIG, POUR),
        ("read_on", CONFIG, READ_ON),
        ("square", SQUARE, ""),
    ):
        (repository / name / "1").mkdir(parents=True)
        (repository / name / "config.pbtxt").write_text(config)
        if source:
            (repository / name / "1" / "model.py").write_text(source)
    return start_module_server(f"--model-repository={repository}")


@pytest.fixture
def read(server: Server, read_from: Any) -> Callable[[], Reader]:
    """Opens streams."""
    return lambda: read_from(server)


def firsts(messages: Iterator[Any]) -> list[int]:
    """The first number of each response."""
    return [numbers(message)[0] for message in messages]


def sent(read: Callable[[], Reader]) -> tuple[int, int]:
    """How many responses the model has sent, and how many requests it has answered to the end."""
    reader = read()
    reader.ask("pour", COUNT_SIZE=[0, 0])
    (total, ended, *_) = reader.next()
    reader.leave()
    return total, ended


def until_blocked(read: Callable[[], Reader]) -> int:
    """Wait until the model sends nothing more, although it is not done; how many responses it has sent."""
    seen = [-2, -1]

    def stands_still() -> bool:
        seen.append(sent(read)[0])
        return seen[-1] == seen[-2] == seen[-3] > 0

    eventually("the model waits for its reader", stands_still)
    return seen[-1]


def memory(server: Server) -> int:
    """Bytes that the server and everything below it hold."""
    return sum(process.memory_info().rss for process in server.processes())


def check_slow_reader(server: Server, read: Callable[[], Reader], count: int, size: int) -> None:
    """Stop reading, look at everybody else, read on, and go away in the middle of another answer."""
    before_sent, before_ended = sent(read)
    before = memory(server)
    slow = read()
    slow.ask("pour", COUNT_SIZE=[count, size])
    assert slow.next()[0] == 0
    blocked = until_blocked(read) - before_sent
    assert blocked < count
    assert memory(server) - before < ROOM
    other = read()
    other.ask("pour", COUNT_SIZE=[20, 4])
    assert firsts(other.rest()) == list(range(20))
    assert firsts(slow.rest()) == list(range(1, count))
    assert memory(server) - before < ROOM
    leaver = read()
    leaver.ask("pour", COUNT_SIZE=[count, size])
    leaver.next()
    until_blocked(read)
    leaver.leave()
    eventually("the model's loop ends", lambda: sent(read)[1] >= before_ended + 3)


def test_a_reader_that_stops_keeps_its_sender_waiting_and_nobody_else(
    server: Server, read: Callable[[], Reader]
) -> None:
    check_slow_reader(server, read, 1500, 100_000)


@pytest.mark.slow
def test_a_million_responses_that_nobody_reads_take_no_memory(server: Server, read: Callable[[], Reader]) -> None:
    before, ended = memory(server), sent(read)[1]
    slow = read()
    slow.ask("pour", COUNT_SIZE=[1_000_000, 200])
    assert slow.next()[0] == 0
    until_blocked(read)
    assert [slow.next()[0] for _ in range(50_000)] == list(range(1, 50_001))
    until_blocked(read)
    assert memory(server) - before < ROOM
    slow.leave()
    eventually("the model's loop ends", lambda: sent(read)[1] > ended)


def test_a_model_that_sends_within_execute_is_free_again_when_its_client_has_gone(
    server: Server, read: Callable[[], Reader]
) -> None:
    ended = sent(read)[1]
    leaver = read()
    leaver.ask("pour", COUNT_SIZE=[-1000, 100_000])
    leaver.next()
    leaver.leave()
    assert sent(read)[1] > ended


def test_a_model_in_the_server_waits_for_its_reader_too(server: Server, read: Callable[[], Reader]) -> None:
    slow, other = read(), read()
    slow.ask("square", IN=[30_000])
    assert slow.next() == [30_000]
    other.ask("square", IN=[3])
    assert firsts(other.rest()) == [3] * 3
    assert sum(1 for _ in slow.rest()) == 29_999


@pytest.mark.parametrize("count", [400, -400], ids=["from a thread", "within execute"])
def test_a_caller_that_reads_two_answers_in_turns_gets_both(
    server: Server, read: Callable[[], Reader], count: int
) -> None:
    """Also where one instance is to make both, one behind the other."""
    caller = read()
    caller.ask("read_on", COUNT_SIZE=[count, 4])
    assert caller.next() == [number for each in range(abs(count)) for number in (each, each)]
