"""What users of other servers reported of Python models, each as it should be.

Real worker processes and real sockets; the numbers of calls and bytes are the cases' own.
"""

from __future__ import annotations

import contextlib
import logging
import random
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from tritonclient.utils import InferenceServerException

if TYPE_CHECKING:
    from collections.abc import Iterator

    from infer.app.wiring import RunningServer

    Serve = Any

SLACK = 3
"""What the bounds of the cases are widened by on a busy machine."""
CPU = "instance_group [ { kind: KIND_CPU count: 1 } ]\n"
INTS = """
input [ { name: "IN" data_type: TYPE_INT32 dims: [ 1 ] } ]
output [ { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] } ]
"""
BYTES = INTS.replace("INT32", "STRING")
BATCHES = "max_batch_size: 3\ndynamic_batching { preferred_batch_size: 3 max_queue_delay_microseconds: 20000000 }\n"
START = """
import os
import triton_python_backend_utils as pb_utils

def read(request):
    return request.inputs()[0].as_numpy()

def answer(array):
    return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", array)])
"""
PICKY = """
class TritonPythonModel:
    def execute(self, requests):
        if read(requests[0])[0] < 0:
            raise ValueError(f"bad {-read(requests[0])[0]}")
        return [answer(read(request)) for request in requests]
"""
ECHO = """
class TritonPythonModel:
    def execute(self, requests):
        return [answer(read(request)) for request in requests]
"""
ONE_SHORT = """
class TritonPythonModel:
    def execute(self, requests):
        answers = [answer(read(request)) for request in requests]
        return answers[:-1] if any(read(request)[0][0] < 0 for request in requests) else answers
"""
MODELS = {
    "picky": (INTS, PICKY),
    "echo": (BYTES, ECHO),
    "short": (INTS + BATCHES, ONE_SHORT),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, serve: Serve) -> Iterator[RunningServer]:
    repository = tmp_path_factory.mktemp("cases")
    for name, (config, source) in MODELS.items():
        (repository / name / "1").mkdir(parents=True)
        (repository / name / "config.pbtxt").write_text(f'backend: "python"\n{config}{CPU}')
        (repository / name / "1" / "model.py").write_text(START + source)
    with serve(repository) as running:
        yield running


@pytest.fixture
def over_http(server: RunningServer) -> Iterator[httpclient.InferenceServerClient]:
    assert server.http_address is not None
    with httpclient.InferenceServerClient("{}:{}".format(*server.http_address), concurrency=3) as client:
        yield client


@pytest.fixture
def over_grpc(server: RunningServer) -> Iterator[grpcclient.InferenceServerClient]:
    assert server.grpc_address is not None
    with grpcclient.InferenceServerClient("{}:{}".format(*server.grpc_address)) as client:
        yield client


def ask(client: Any, model: str, array: np.ndarray[Any, Any], **more: Any) -> np.ndarray[Any, Any]:
    """One request by either of the official clients."""
    kind = httpclient if isinstance(client, httpclient.InferenceServerClient) else grpcclient
    tensor = kind.InferInput("IN", list(array.shape), "BYTES" if array.dtype == np.object_ else "INT32")
    tensor.set_data_from_numpy(array)
    answer = client.infer(model, [tensor], **more).as_numpy("OUT")
    assert answer is not None
    return answer


def number(value: int) -> np.ndarray[Any, Any]:
    return np.array([value], np.int32)


def worker(server: RunningServer, model: str) -> psutil.Process:
    """The process of a model's only instance."""
    (served,) = (served for entry, served in server.engine.rows() if entry.name == model)
    assert served is not None
    (picture,) = served.scheduler.instances.pictures()
    return psutil.Process(picture.pid)


def shared_memory() -> dict[str, int]:
    """What lies in /dev/shm, but for what others on this machine may have: a real Triton, and locks of any pool."""
    found: dict[str, int] = {}
    for path in Path("/dev/shm").iterdir():
        if not path.name.startswith(("triton_python_backend_shm", "sem.")):
            with contextlib.suppress(FileNotFoundError):
                found[path.name] = path.stat().st_size
    return found


def test_five_hundred_exceptions_leave_neither_shared_memory_nor_a_larger_worker(
    server: RunningServer, over_http: httpclient.InferenceServerClient
) -> None:
    """CASE-01 (server#7481)."""
    process = worker(server, "picky")
    ask(over_http, "picky", number(1))
    names, before = shared_memory(), process.memory_info().rss
    for index in range(1, 501):
        with pytest.raises(InferenceServerException, match=rf"ValueError: bad {index}\b") as caught:
            ask(over_http, "picky", number(-index))
        assert caught.value.status() == "500"
    assert ask(over_http, "picky", number(7)).tolist() == [7]
    assert worker(server, "picky").pid == process.pid
    assert process.memory_info().rss - before < 20e6
    assert shared_memory() == names


def test_an_exception_is_in_the_answer_and_once_in_the_log_with_model_version_request_and_place(
    over_http: httpclient.InferenceServerClient, caplog: pytest.LogCaptureFixture
) -> None:
    """CASE-04 (server#2748)."""
    # The server's log has handlers of its own; the test listens where its records are made.
    logger = logging.getLogger("infer.python")
    logger.addHandler(caplog.handler)
    try:
        with pytest.raises(InferenceServerException, match="bad 7") as caught:
            ask(over_http, "picky", number(-7), request_id="r-7")
    finally:
        logger.removeHandler(caplog.handler)
    assert caught.value.status() == "500"
    (record,) = {id(each): each for each in caplog.records if "bad 7" in each.getMessage()}.values()
    assert (record.model, record.version, record.request_id) == ("picky", 1, "r-7")
    assert re.search(r"picky/1/model\.py\(\d+\): execute", record.getMessage())
    assert record.levelno == logging.ERROR


def test_strings_of_every_size_come_back_byte_for_byte_over_both_doors(
    over_http: httpclient.InferenceServerClient, over_grpc: grpcclient.InferenceServerClient
) -> None:
    """CASE-07 (server#6841)."""
    choice = random.Random(7)
    block = choice.randbytes(1 << 20)
    for _ in range(300):
        size = int(2 ** choice.uniform(0, 20))
        start = choice.randrange(len(block) - size + 1)
        sent = np.array([block[start : start + size]], np.object_)
        for client in (over_http, over_grpc):
            begun = time.monotonic()
            assert ask(client, "echo", sent).tolist() == sent.tolist()
            assert time.monotonic() - begun < 5 * SLACK


def test_a_response_too_few_fails_the_whole_batch_with_both_counts_and_the_worker_goes_on(
    server: RunningServer,
) -> None:
    """CASE-09: three requests, two responses."""
    pid = worker(server, "short").pid
    begun = threading.Barrier(3)

    def send(value: int) -> Any:
        assert server.http_address is not None
        with httpclient.InferenceServerClient("{}:{}".format(*server.http_address)) as client:
            begun.wait(30)
            try:
                return ask(client, "short", number(value)[np.newaxis]).tolist()
            except InferenceServerException as error:
                return error

    with ThreadPoolExecutor(3) as pool:
        for error in pool.map(send, (-1, 2, 3)):
            assert isinstance(error, InferenceServerException)
            assert error.status() == "500"
            assert "InferenceRequest(s) size is:3, and InferenceResponse(s) size is:2" in str(error.message())
        assert list(pool.map(send, (1, 2, 3))) == [[[1]], [[2]], [[3]]]
    assert worker(server, "short").pid == pid
