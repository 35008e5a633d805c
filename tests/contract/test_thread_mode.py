"""Python models with EXECUTION_MODE thread in a whole server: streams, calls, changes under load, and the end."""

from __future__ import annotations

import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pytest

import infer
from infer.backends.api.errors import Code
from infer.backends.python import threads
from infer.tests.conftest import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    Embed = Any

LIMIT_S = 20
CONFIG = """
backend: "python"
input [{{ name: "IN" data_type: TYPE_INT32 dims: [-1] }}]
output [{{ name: "OUT" data_type: TYPE_INT32 dims: [-1] }}]
instance_group [{{ kind: KIND_CPU count: {count} }}]
parameters {{ key: "EXECUTION_MODE" value {{ string_value: "thread" }} }}
{more}
"""
DECOUPLED = "model_transaction_policy { decoupled: true }"
HEADER = """
import os, time
import numpy as np
import triton_python_backend_utils as pb_utils
Response = pb_utils.InferenceResponse

def read(request):
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
        return [out(read(request) * 2) for request in requests]
"""
REPEAT = """
class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for value in read(request):
                if sender.is_cancelled():
                    break
                sender.send(out([value]))
            sender.send(flags=1)
"""
BLS = """
class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            doubled = pb_utils.get_output_tensor_by_name(call("double", read(request)), "OUT").as_numpy()
            many = [r.output_tensors()[0].as_numpy()[0] for r in call("repeat", doubled, decoupled=True)
                    if r.output_tensors()]
            answers.append(out(many))
        return answers
"""
WAIT = """
class TritonPythonModel:
    def initialize(self, args):
        self.folder = args["model_repository"]
    def execute(self, requests):
        open(self.folder + "/executing", "w").close()
        while not os.path.exists(self.folder + "/go"):
            time.sleep(0.002)
        return [out(read(request)) for request in requests]
"""
FAIL = """
class TritonPythonModel:
    def execute(self, requests):
        raise ValueError("not today")
"""


def write(repository: Path, name: str, source: str, more: str = "", count: int = 1) -> Path:
    """Write a model; its folder."""
    folder = repository / name
    (folder / "1").mkdir(parents=True, exist_ok=True)
    (folder / "config.pbtxt").write_text(CONFIG.format(count=count, more=more))
    (folder / "1" / "model.py").write_text(HEADER + textwrap.dedent(source))
    return folder


def ints(*values: int) -> dict[str, np.ndarray[Any, Any]]:
    return {"IN": np.array(values, dtype=np.int32)}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, embed: Embed) -> Iterator[infer.Server]:
    repository = tmp_path_factory.mktemp("threads")
    write(repository, "double", DOUBLE, count=4)
    write(repository, "repeat", REPEAT, DECOUPLED)
    write(repository, "bls", BLS)
    write(repository, "fail", FAIL)
    before = psutil.Process().children(recursive=True)
    with embed(repository, auto_complete_config=False) as server:
        assert psutil.Process().children(recursive=True) == before, "nothing here needs a process"
        yield server


def test_a_stream_comes_in_order_and_one_that_is_closed_early_is_ended(server: infer.Server) -> None:
    answers = server.stream("repeat", {"IN": np.arange(300, dtype=np.int32)})
    assert [result["OUT"].tolist() for result in answers] == [[n] for n in range(300)]
    stream = server.stream("repeat", {"IN": np.arange(100_000, dtype=np.int32)})
    assert next(stream)["OUT"].tolist() == [0]
    stream.close()
    assert [result["OUT"].tolist() for result in server.stream("repeat", ints(5))] == [[5]]


def test_a_model_calls_a_plain_and_a_decoupled_model_in_other_threads(server: infer.Server) -> None:
    for _ in range(3):
        result = server.infer("bls", {"IN": np.arange(60, dtype=np.int32)})
        assert result["OUT"].tolist() == [2 * n for n in range(60)]


def test_many_clients_of_four_instances_get_their_own_answers(server: infer.Server) -> None:
    def client(number: int) -> set[int]:
        sizes = (1, 10, 1000, 40_000, 600_000)
        return {
            value
            for size in sizes
            for value in set(server.infer("double", {"IN": np.full(size, number, np.int32)})["OUT"].tolist())
        }

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(client, range(24))) == [{2 * number} for number in range(24)]


def test_an_exception_is_told_with_its_line_and_counted(server: infer.Server) -> None:
    for _ in range(2):
        with pytest.raises(infer.InferError, match="ValueError: not today") as caught:
            server.infer("fail", ints(1))
        assert "fail/1/model.py(" in str(caught.value)
        assert "infer_" not in str(caught.value)
    assert server.statistics("fail")[0].failures["BACKEND"] >= 2


def test_the_stop_answers_a_request_that_its_model_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "LEAVE_S", 0.05)
    folder = write(tmp_path, "m", WAIT)
    server = infer.Server(tmp_path, auto_complete_config=False)
    server.start()
    with ThreadPoolExecutor(1) as pool:
        stuck = pool.submit(server.infer, "m", ints(1))
        eventually("it executes", (folder / "executing").exists)
        server.stop(timeout_s=0)
        with pytest.raises(infer.InferError) as caught:
            stuck.result(LIMIT_S)
    assert caught.value.code is Code.UNAVAILABLE
    (folder / "go").touch()
    eventually("its thread is over", lambda: all(each.name != "instance-m_0_0" for each in threading.enumerate()))


def test_an_execution_beyond_the_limit_fails_and_the_model_is_back_when_it_comes_back(tmp_path: Path) -> None:
    folder = write(tmp_path, "m", WAIT)
    with infer.Server(tmp_path, auto_complete_config=False, execute_timeout=0.2) as server:
        with pytest.raises(infer.InferError, match=r"did not come back within 0\.2 s"):
            server.infer("m", ints(1))
        assert not server.is_model_ready("m")
        (folder / "go").touch()
        eventually("it is ready", lambda: server.is_model_ready("m"))
        assert server.infer("m", ints(3))["OUT"].tolist() == [3]


@pytest.mark.parametrize("mode", ["fibre", "Thread", ""])
def test_a_mode_that_is_none_is_the_reason_of_a_failed_load(tmp_path: Path, mode: str) -> None:
    folder = write(tmp_path, "m", DOUBLE)
    config = folder / "config.pbtxt"
    config.write_text(config.read_text().replace('"thread"', f'"{mode}"'))
    words = f"EXECUTION_MODE '{mode}'; it may be 'process', which is the default, or 'thread'"
    with infer.Server(tmp_path, model_control_mode="explicit", auto_complete_config=False) as server:
        with pytest.raises(infer.InferError, match=words):
            server.load("m")
        assert words in server.index()[0].reason
