"""Python models in a whole server: streams, calls between models, death and return, through the in-process API."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import infer

    Embed = Any

CONFIG = """
backend: "python"
input [ {{ name: "IN" data_type: TYPE_INT32 dims: [ -1 ] }} ]
output [ {{ name: "OUT" data_type: TYPE_INT32 dims: [ -1 ] }} ]
instance_group [ {{ kind: KIND_CPU count: {count} }} ]
{more}
"""
HEADER = """
import os, time, threading
import numpy as np
import triton_python_backend_utils as pb_utils
Response = pb_utils.InferenceResponse

def tensor(request):
    return pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()

def out(array):
    return Response([pb_utils.Tensor("OUT", np.asarray(array, np.int32))])

def call(name, array, **how):
    return pb_utils.InferenceRequest(
        model_name=name, inputs=[pb_utils.Tensor("IN", array)], requested_output_names=["OUT"]).exec(**how)
"""
DOUBLE = """
class TritonPythonModel:
    def execute(self, requests):
        return [out(tensor(request) * 2) for request in requests]
"""
REPEAT = """
class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for value in tensor(request):
                sender.send(out([value]))
            sender.send(flags=1)
"""
BLS = """
class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            doubled = pb_utils.get_output_tensor_by_name(call("double", tensor(request)), "OUT").as_numpy()
            many = [r.output_tensors()[0].as_numpy()[0] for r in call("repeat", doubled, decoupled=True)
                    if r.output_tensors()]
            answers.append(out(many))
        return answers
"""
FORK = """
import multiprocessing
def work(n):
    response = call("double", np.array([n], np.int32))
    return int(response.output_tensors()[0].as_numpy()[0])
class TritonPythonModel:
    def execute(self, requests):
        with multiprocessing.get_context("fork").Pool(2) as pool:
            return [out(pool.map(work, [int(n) for n in tensor(request)])) for request in requests]
"""
PATIENT = """
class TritonPythonModel:
    def execute(self, requests):
        while not requests[0].is_cancelled():
            time.sleep(0.001)
        print("seen the cancel", flush=True)
        error = pb_utils.TritonError("stopped", pb_utils.TritonError.CANCELLED)
        return [Response(error=error)]
"""


def ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, dtype=np.int32)


def test_a_server_that_is_killed_takes_zygote_workers_and_what_they_forked_with_it(tmp_path: Path) -> None:
    hang = """
    import subprocess
    class TritonPythonModel:
        def initialize(self, args):
            self.child = subprocess.Popen(["sleep", "1000"])
        def execute(self, requests):
            threading.Event().wait()
    """
    _write(tmp_path, "hang", hang, "")
    code = (
        "import infer, sys, psutil, numpy as np; server = infer.Server(sys.argv[1]); server.start(); "
        "answers = server.stream('hang', {'IN': np.zeros(1, np.int32)}); "
        "print(*[child.pid for child in psutil.Process().children(recursive=True)], flush=True); next(answers)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        family = [psutil.Process(int(pid)) for pid in process.stdout.readline().split()]
        assert len(family) == 3
        process.kill()
        process.wait()
        _, left = psutil.wait_procs(family, timeout=5)
        assert not left


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, embed: Embed) -> Iterator[infer.Server]:
    repository = tmp_path_factory.mktemp("repository")
    decoupled = "model_transaction_policy { decoupled: true }"
    for name, source, more in [
        ("double", DOUBLE, ""),
        ("repeat", REPEAT, decoupled),
        ("bls", BLS, ""),
        ("fork", FORK, ""),
        ("patient", PATIENT, ""),
    ]:
        _write(repository, name, source, more)
    with embed(repository) as server:
        yield server


def _write(repository: Path, name: str, source: str, more: str) -> None:
    folder = repository / name / "1"
    folder.mkdir(parents=True)
    (folder.parent / "config.pbtxt").write_text(CONFIG.format(count=1, more=more))
    (folder / "model.py").write_text(HEADER + textwrap.dedent(source))


def test_a_decoupled_model_streams_its_responses_in_order(server: infer.Server) -> None:
    got = [result["OUT"].tolist() for result in server.stream("repeat", {"IN": np.arange(50, dtype=np.int32)})]
    assert got == [[n] for n in range(50)]


def test_a_model_calls_a_plain_and_a_decoupled_model(server: infer.Server) -> None:
    result = server.infer("bls", {"IN": np.arange(40, dtype=np.int32)})
    assert result["OUT"].tolist() == [2 * n for n in range(40)]


def test_the_forked_children_of_a_model_call_another_model(server: infer.Server) -> None:
    assert server.infer("fork", {"IN": ints(1, 2, 3)}, timeout_s=60)["OUT"].tolist() == [2, 4, 6]


def test_a_request_that_is_given_up_is_cancelled_in_the_model(server: infer.Server) -> None:
    for _ in range(2):
        with pytest.raises(TimeoutError):
            server.infer("patient", {"IN": ints(1)}, timeout_s=0.2)


def test_many_threads_are_served_their_own_answers(server: infer.Server) -> None:
    wrong: list[int] = []

    def client(number: int) -> None:
        for size in (1, 10, 40_000):
            array = np.full(size, number, dtype=np.int32)
            if set(server.infer("double", {"IN": array})["OUT"].tolist()) != {2 * number}:
                wrong.append(number)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_killed_worker_shows_in_ready_and_serves_again(server: infer.Server) -> None:
    def worker() -> int:
        family = psutil.Process().children(recursive=True)
        return next((each.pid for each in family if each.name().startswith("infer:double")), 0)

    before = worker()
    os.kill(before, signal.SIGKILL)
    seen: list[bool] = []
    for _ in range(1000):
        seen.append(server.is_model_ready("double"))
        if seen[-1] and False in seen:
            break
        threading.Event().wait(0.005)
    assert False in seen
    assert server.infer("double", {"IN": ints(4)})["OUT"].tolist() == [8]
    assert worker() not in (0, before)
