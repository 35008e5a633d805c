"""What users of other servers reported of batches, queues and time-outs, each as it should be.

Real worker processes and real sockets. A model's executions wait for a file (its gate) where a case needs an instance
that is busy, so that no test depends on how long something takes; the bounds in seconds are the cases' own.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
import urllib.request
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from infer.app.wiring import RunningServer

    Serve = Any

SLACK = 10
"""What the bounds of the cases are widened by on a busy machine."""
LIMIT_S = 30
MODEL = """
import os, threading
import numpy as np
import triton_python_backend_utils as pb_utils

GATE, BUSY, ORDER = {gate!r}, {busy!r}, {order!r}

class TritonPythonModel:
    def execute(self, requests):
        inputs = [pb_utils.get_input_tensor_by_name(request, "IN").as_numpy() for request in requests]
        with open(ORDER, "a") as log:
            log.write(" ".join(str(int(each.reshape(-1)[0])) for each in inputs) + "\\n")
        open(BUSY, "w").close()
        if any(each.reshape(-1)[0] == 0 for each in inputs):
            pause = threading.Event()
            while not os.path.exists(GATE):
                pause.wait(0.005)
        rows = sum(len(each) for each in inputs)
        return [
            pb_utils.InferenceResponse([
                pb_utils.Tensor("OUT", each),
                pb_utils.Tensor("ROWS", np.full((len(each), 1), rows, np.int32)),
            ])
            for each in inputs
        ]
"""
CONFIG = """
backend: "python"
max_batch_size: {rows}
input [ {{ name: "IN" data_type: TYPE_INT32 dims: [ -1 ] }} ]
output [ {{ name: "OUT" data_type: TYPE_INT32 dims: [ -1 ] }}, {{ name: "ROWS" data_type: TYPE_INT32 dims: [ 1 ] }} ]
instance_group [ {{ kind: KIND_CPU count: 1 }} ]
dynamic_batching {{ {batching} }}
"""
MODELS = {
    "delayed": (64, "max_queue_delay_microseconds: 2000000"),
    "natural": (64, ""),
    "mixed": (8, "max_queue_delay_microseconds: 1000000"),
    "bounded": (1, "default_queue_policy { max_queue_size: 2 }"),
    "urgent": (1, "priority_levels: 2 default_priority_level: 2"),
    "impatient": (
        1,
        "default_queue_policy { allow_timeout_override: true default_timeout_microseconds: 1000000 }",
    ),
    "patient": (
        1,
        "default_queue_policy { allow_timeout_override: true default_timeout_microseconds: 60000000 }",
    ),
}
Answer = tuple[int, dict[str, Any], float]
"""Status, document, seconds."""


class Case:
    """One model of the running server, and the clients of a test."""

    def __init__(self, server: RunningServer, folder: Path, name: str) -> None:
        self.name = name
        self.server = server
        self._folder = folder / name
        self._pool = ThreadPoolExecutor(64)
        for leftover in ("gate", "busy", "order"):
            (self._folder / leftover).unlink(missing_ok=True)
        self._before = self.statistics()

    def close(self) -> None:
        self.open_gate()
        self._pool.shutdown()

    def send(self, first: int, *, length: int = 1, **parameters: int) -> Future[Answer]:
        """Send one row that begins with ``first`` from a client of its own. 0 waits for the gate when it executes."""
        body = {
            "parameters": parameters,
            "inputs": [{"name": "IN", "datatype": "INT32", "shape": [1, length], "data": [first] + [7] * (length - 1)}],
        }
        return self._pool.submit(self._post, json.dumps(body))

    def _post(self, body: str) -> Answer:
        address = self.server.http_address
        assert address is not None
        started = time.monotonic()
        connection = http.client.HTTPConnection(*address, timeout=LIMIT_S)
        try:
            connection.request("POST", f"/v2/models/{self.name}/infer", body)
            response = connection.getresponse()
            return response.status, json.loads(response.read()), time.monotonic() - started
        finally:
            connection.close()

    def occupy(self) -> Future[Answer]:
        """Keep the instance busy until the gate is opened."""
        answer = self.send(0)
        self.until((self._folder / "busy").exists)
        return answer

    def open_gate(self) -> None:
        (self._folder / "gate").touch()

    def executions(self) -> list[list[int]]:
        """The first elements of the requests of every execution."""
        lines = (self._folder / "order").read_text().splitlines()
        return [[int(word) for word in line.split()] for line in lines]

    def statistics(self) -> Any:
        return self.server.engine.statistics(self.name)[0]

    def batch_sizes(self) -> dict[int, int]:
        """Executions of each size since the case began."""
        before = {batch.batch_size: batch.compute_infer.count for batch in self._before.batches}
        counts = {
            batch.batch_size: batch.compute_infer.count - before.get(batch.batch_size, 0)
            for batch in self.statistics().batches
        }
        return {size: count for size, count in counts.items() if count}

    def pending(self) -> int:
        """The gauge as a scrape shows it."""
        address = self.server.operator_address
        assert address is not None
        with urllib.request.urlopen(f"http://{address[0]}:{address[1]}/metrics", timeout=LIMIT_S) as response:
            text = response.read().decode()
        line = next(
            line
            for line in text.splitlines()
            if line.startswith("nv_inference_pending_request_count{") and f'model="{self.name}"' in line
        )
        return int(float(line.rsplit(" ", 1)[1]))

    def wait_for_pending(self, count: int) -> None:
        self.until(lambda: self.statistics().pending == count)

    @staticmethod
    def until(condition: Callable[[], bool]) -> None:
        pause = threading.Event()
        end = time.monotonic() + LIMIT_S
        while not condition():
            assert time.monotonic() < end, "it did not come to that"
            pause.wait(0.002)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    repository = tmp_path_factory.mktemp("cases")
    for name, (rows, batching) in MODELS.items():
        model = repository / name
        (model / "1").mkdir(parents=True)
        (model / "config.pbtxt").write_text(CONFIG.format(rows=rows, batching=batching))
        files = {key: str(model / key) for key in ("gate", "busy", "order")}
        (model / "1" / "model.py").write_text(MODEL.format(**files))
    return repository


@pytest.fixture(scope="module")
def server(folder: Path, serve: Serve) -> Iterator[RunningServer]:
    with serve(folder, allow_metrics=True, metrics_port=0) as running:
        yield running


@pytest.fixture
def case(server: RunningServer, folder: Path, request: pytest.FixtureRequest) -> Iterator[Case]:
    made = Case(server, folder, request.param)
    yield made
    made.close()


def on(model: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", [model], indirect=True)


@on("delayed")
def test_forty_requests_within_the_delay_execute_as_one(case: Case) -> None:
    """CASE-30 (server#7271)."""
    answers = [case.send(number) for number in range(1, 41)]
    assert [answer.result()[0] for answer in answers] == [200] * 40
    assert {answer.result()[1]["outputs"][1]["data"][0] for answer in answers} == {40}
    assert case.batch_sizes() == {40: 1}


@on("natural")
def test_what_came_while_the_instance_was_busy_executes_as_one(case: Case) -> None:
    """CASE-31 (server#3624)."""
    first = case.occupy()
    rest = [case.send(number) for number in range(1, 5)]
    case.wait_for_pending(4)
    case.open_gate()
    assert [answer.result()[0] for answer in (first, *rest)] == [200] * 5
    assert case.batch_sizes() == {1: 1, 4: 1}


@on("mixed")
def test_requests_of_two_lengths_execute_with_their_like_and_get_their_own_data(case: Case) -> None:
    """CASE-33 (server#3395, server#270)."""
    answers = [case.send(number, length=length) for number, length in ((1, 3), (2, 5), (3, 3), (4, 5))]
    for number, length, answer in zip((1, 2, 3, 4), (3, 5, 3, 5), answers, strict=True):
        status, document, _ = answer.result()
        assert status == 200
        assert document["outputs"][0]["data"] == [number] + [7] * (length - 1)
        assert document["outputs"][1]["data"] == [2]
    assert case.batch_sizes() == {2: 2}
    assert sorted(sorted(each) for each in case.executions()) == [[1, 3], [2, 4]]


@on("bounded")
def test_a_queue_of_two_takes_two_and_refuses_the_rest_at_once(case: Case) -> None:
    """CASE-34 (server#5783, server#6796)."""
    before = case.statistics().failures["REJECTED"]
    answers = [case.occupy(), *(case.send(number) for number in range(1, 6))]
    case.until(lambda: case.statistics().failures["REJECTED"] - before == 3)
    assert case.pending() == 2
    case.open_gate()
    refused = [answer.result() for answer in answers if answer.result()[0] != 200]
    assert len(refused) == 3
    for status, document, seconds in refused:
        assert (status, document["error"]) == (503, "[request id: <id_unknown>] Exceeds maximum queue size")
        assert seconds < 0.3 * SLACK


@on("urgent")
def test_urgent_requests_are_served_first_and_equals_in_the_order_of_arrival(case: Case) -> None:
    """CASE-36 (server#980)."""
    answers = [case.occupy()]
    for count, (number, priority) in enumerate(((1, 2), (2, 2), (3, 2), (4, 1), (5, 1)), 1):
        answers.append(case.send(number, priority=priority))
        case.wait_for_pending(count)
    case.open_gate()
    assert [answer.result()[0] for answer in answers] == [200] * 6
    assert case.executions() == [[0], [4], [5], [1], [2], [3]]


@on("impatient")
def test_a_request_may_shorten_its_time_and_not_extend_it(case: Case) -> None:
    """CASE-37."""
    running = case.occupy()
    long, short = case.send(1, timeout=5_000_000), case.send(2, timeout=200_000)
    for answer, bound in ((short, 0.2), (long, 1.0)):
        status, document, seconds = answer.result()
        assert (status, document["error"]) == (503, "Request timeout expired")
        assert bound <= seconds < 5.0
    assert short.result()[2] < long.result()[2]
    case.open_gate()
    assert running.result()[0] == 200


@on("patient")
def test_the_pending_gauge_counts_those_that_wait_and_comes_back_to_nothing(case: Case) -> None:
    """CASE-39 (core#286, server#6494)."""
    before = case.statistics()
    running = case.occupy()
    address = case.server.http_address
    assert address is not None
    gone = http.client.HTTPConnection(*address, timeout=LIMIT_S)
    body = {"inputs": [{"name": "IN", "datatype": "INT32", "shape": [1, 1], "data": [9]}]}
    gone.request("POST", "/v2/models/patient/infer", json.dumps(body))
    expiring, waiting = case.send(1, timeout=300_000), case.send(2)
    case.wait_for_pending(3)
    assert case.pending() == 3
    gone.close()
    case.wait_for_pending(2)
    assert expiring.result()[0] == 503
    case.open_gate()
    assert running.result()[0] == 200
    assert waiting.result()[0] == 200
    case.wait_for_pending(0)
    assert case.pending() == 0
    after = case.statistics()
    ended = after.success.count + after.fail.count - before.success.count - before.fail.count
    assert ended == 4
    assert after.failures["CANCELED"] - before.failures["CANCELED"] == 1
