"""`infer.Server` keeps its promises whoever leaves first: the caller, the model, the worker, or the server."""

from __future__ import annotations

import os
import signal
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pytest

import infer
from infer.backends.api.errors import Code
from infer.tests.conftest import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    Embed = Any

LIMIT_S = 20
CONFIG = """
backend: "python"
input [{ name: "IN" data_type: TYPE_INT32 dims: [-1] }]
output [{ name: "OUT" data_type: TYPE_INT32 dims: [-1] }]
instance_group [{ kind: KIND_CPU count: 1 }]
"""
DECOUPLED = "model_transaction_policy { decoupled: true }\n"
IN_TWO_THREADS = """
instance_group [{ kind: KIND_CPU count: 1 }]
parameters { key: "EXECUTION_MODE" value { string_value: "thread" } }
"""
"""Adds a group to that of CONFIG, so that there are two instances."""
IN_BOTH_MODES = pytest.mark.parametrize("mode", ["", IN_TWO_THREADS], ids=["in a process", "in two threads"])
ALL_VERSIONS = "version_policy { all {} }\n"
HEADER = """
import os, pathlib, threading
import numpy as np
import triton_python_backend_utils as pb_utils
Response = pb_utils.InferenceResponse

def read(request):
    return pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()

def out(array):
    return Response([pb_utils.Tensor("OUT", np.asarray(array, np.int32))])

def note(folder, what):
    (pathlib.Path(folder) / what).touch()
"""
PLUS_VERSION = """
class TritonPythonModel:
    def initialize(self, args):
        self.version = int(args["model_version"])
    def execute(self, requests):
        return [out(read(request) + self.version) for request in requests]
"""
COUNT = """
class TritonPythonModel:
    # Counts up to the input, without end for a negative one; ends with an error for more than 100.
    def initialize(self, args):
        self.folder = args["model_repository"]
    def execute(self, requests):
        for request in requests:
            sender, top, value = request.get_response_sender(), int(read(request)[0]), 0
            while value != min(top, 100) and not sender.is_cancelled():
                sender.send(out([value]))
                value += 1
            if sender.is_cancelled():
                note(self.folder, "cancelled")
            if top > 100:
                sender.send(Response(error=pb_utils.TritonError("that is too far")))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
WAIT = """
class TritonPythonModel:
    # Answers when a file says so; cancelled requests do not wait for it.
    def initialize(self, args):
        self.folder = args["model_repository"]
    def execute(self, requests):
        note(self.folder, "executing")
        go = pathlib.Path(self.folder) / "go"
        while not go.exists() and not requests[0].is_cancelled():
            threading.Event().wait(0.002)
        if requests[0].is_cancelled():
            note(self.folder, "cancelled")
        return [out(read(request)) for request in requests]
"""
STUCK = """
class TritonPythonModel:
    def initialize(self, args):
        self.folder = args["model_repository"]
    def execute(self, requests):
        note(self.folder, "executing")
        threading.Event().wait()
"""
STUCK_LOAD = """
class TritonPythonModel:
    def initialize(self, args):
        note(args["model_repository"], "initializing")
        threading.Event().wait()
"""
CALL = """
class TritonPythonModel:
    # Calls the model and version that the input names: 0 none there is, 1 one that fails, 2 a wrong input.
    def execute(self, requests):
        answers = []
        for request in requests:
            name, tensor = [("nobody", "IN"), ("fail", "IN"), ("plus", "WRONG")][int(read(request)[0])]
            call = pb_utils.InferenceRequest(
                model_name=name, requested_output_names=["OUT"],
                inputs=[pb_utils.Tensor(tensor, np.zeros(1, np.int32))])
            response = call.exec()
            answers.append(Response(error=pb_utils.TritonError("called: " + response.error().message())))
        return answers
"""
CALL_VERSION = """
class TritonPythonModel:
    def execute(self, requests):
        return [
            pb_utils.InferenceRequest(
                model_name="plus", model_version=int(read(request)[0]), requested_output_names=["OUT"],
                inputs=[pb_utils.Tensor("IN", np.zeros(1, np.int32))]).exec()
            for request in requests
        ]
"""
FAIL = """
class TritonPythonModel:
    def execute(self, requests):
        raise ValueError("not today")
"""
PID = """
class TritonPythonModel:
    def execute(self, requests):
        return [out([os.getpid()]) for request in requests]
"""


def add(repository: Path, name: str, source: str, more: str = "", versions: tuple[int, ...] = (1,)) -> Path:
    """Write a model; its folder."""
    folder = repository / name
    for version in versions:
        (folder / str(version)).mkdir(parents=True, exist_ok=True)
        (folder / str(version) / "model.py").write_text(HEADER + textwrap.dedent(source))
    (folder / "config.pbtxt").write_text(CONFIG + more)
    return folder


def ints(*values: int) -> dict[str, np.ndarray[Any, Any]]:
    return {"IN": np.array(values, dtype=np.int32)}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("embedded")
    add(folder, "plus", PLUS_VERSION, ALL_VERSIONS, versions=(1, 2, 5))
    add(folder, "count", COUNT, DECOUPLED)
    add(folder, "wait", WAIT)
    add(folder, "fail", FAIL)
    add(folder, "call", CALL)
    add(folder, "call_version", CALL_VERSION)
    add(folder, "pid", PID)
    return folder


@pytest.fixture(scope="module")
def server(repository: Path, embed: Embed) -> Iterator[infer.Server]:
    with embed(repository) as server:
        yield server


@pytest.fixture
def marks(repository: Path) -> Iterator[Path]:
    """Where `wait` and `count` leave their marks; empty before and after a test."""

    def clear() -> None:
        for name in ("wait", "count"):
            for mark in ("executing", "cancelled", "go"):
                (repository / name / mark).unlink(missing_ok=True)

    clear()
    yield repository
    clear()


# Versions


def test_each_version_serves_by_its_number_and_the_highest_without_one(server: infer.Server) -> None:
    answers = {version: server.infer("plus", ints(10), model_version=version)["OUT"][0] for version in (None, 1, 2, 5)}
    assert answers == {None: 15, 1: 11, 2: 12, 5: 15}
    with pytest.raises(infer.InferError, match="'plus' version 3 is not found"):
        server.infer("plus", ints(10), model_version=3)
    assert server.is_model_ready("plus", 2)
    assert not server.is_model_ready("plus", 3)
    assert [picture.version for picture in server.statistics("plus")] == ["1", "2", "5"]
    assert [picture.version for picture in server.statistics("plus", "2")] == ["2"]


def test_a_model_calls_the_version_that_it_names(server: infer.Server) -> None:
    assert server.infer("call_version", ints(2))["OUT"].tolist() == [2]
    assert server.infer("call_version", ints(-1))["OUT"].tolist() == [5]
    with pytest.raises(infer.InferError, match="'plus' version 4 is not found"):
        server.infer("call_version", ints(4))


# Calls between models that fail


@pytest.mark.parametrize(
    ("which", "words"),
    [(0, "'nobody' is not found"), (1, "not today"), (2, "unexpected inference input 'WRONG' for model 'plus'")],
    ids=["an unknown model", "a model that fails", "a wrong input"],
)
def test_what_a_called_model_is_refused_with_reaches_the_caller(server: infer.Server, which: int, words: str) -> None:
    with pytest.raises(infer.InferError) as caught:
        server.infer("call", ints(which))
    assert "called: " in str(caught.value)
    assert words in str(caught.value)


def test_an_exception_in_a_model_is_told_with_its_line_and_the_model_goes_on(server: infer.Server) -> None:
    for _ in range(2):
        with pytest.raises(infer.InferError, match="ValueError: not today") as caught:
            server.infer("fail", ints(1))
        assert "model.py" in str(caught.value)
    assert server.statistics("fail")[0].failures["BACKEND"] >= 2


# Streams


def test_a_stream_of_no_responses_is_empty_and_one_of_many_is_whole(server: infer.Server) -> None:
    assert list(server.stream("count", ints(0))) == []
    assert [result["OUT"].tolist() for result in server.stream("count", ints(99))] == [[n] for n in range(99)]


def test_an_error_in_the_middle_of_a_stream_is_raised_behind_the_good_responses(server: infer.Server) -> None:
    got: list[int] = []
    with pytest.raises(infer.InferError, match="that is too far"):  # noqa: PT012  the responses before it count
        for result in server.stream("count", ints(1000)):
            got.append(int(result["OUT"][0]))  # noqa: PERF401  what came before the error is kept
    assert got == list(range(100))
    assert list(server.stream("count", ints(0))) == []


@pytest.mark.parametrize("taken", [1, 300])
def test_a_stream_that_is_closed_early_is_cancelled_in_the_model(server: infer.Server, marks: Path, taken: int) -> None:
    stream = server.stream("count", ints(-1))
    for value in range(taken):
        assert next(stream)["OUT"].tolist() == [value]
    stream.close()
    stream.close()
    assert list(stream) == []
    eventually("the model sees it", (marks / "count" / "cancelled").exists)
    assert len(list(server.stream("count", ints(3)))) == 3


def test_a_stream_that_is_closed_before_its_first_response_was_asked_for_is_ended_too(server: infer.Server) -> None:
    """Whether the model has begun by then or never hears of it, the endless count does not go on."""

    def answered() -> int:
        picture = server.statistics("count")[0]
        return picture.success.count + picture.fail.count

    list(server.stream("count", ints(0)))
    before = answered()
    stream = server.stream("count", ints(-1))
    stream.close()
    assert list(stream) == []
    eventually("it has its final response", lambda: answered() == before + 1)
    assert len(list(server.stream("count", ints(3)))) == 3


def test_a_stream_that_is_dropped_is_cancelled_in_the_model(server: infer.Server, marks: Path) -> None:
    for result in server.stream("count", ints(-1)):
        assert result["OUT"].tolist() == [0]
        break
    eventually("the model sees it", (marks / "count" / "cancelled").exists)


def test_infer_takes_the_first_response_of_a_decoupled_model(server: infer.Server) -> None:
    assert server.infer("count", ints(50))["OUT"].tolist() == [0]
    assert server.infer("count", ints(0)).outputs == {}


def test_streams_of_several_threads_do_not_mix(server: infer.Server) -> None:
    def consume(top: int) -> list[int]:
        return [int(result["OUT"][0]) for result in server.stream("count", ints(top))]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(consume, range(50, 90))) == [list(range(top)) for top in range(50, 90)]


# Time


def test_a_request_that_takes_too_long_is_given_up_cancelled_and_counted(server: infer.Server, marks: Path) -> None:
    before = server.statistics("wait")[0].failures["CANCELED"] + server.statistics("wait")[0].success.count
    with pytest.raises(TimeoutError):
        server.infer("wait", ints(1), timeout_s=0.1)
    eventually("the model sees it", (marks / "wait" / "cancelled").exists)
    eventually(
        "it is counted",
        lambda: (
            sum((server.statistics("wait")[0].failures["CANCELED"], server.statistics("wait")[0].success.count))
            == before + 1
        ),
    )
    (marks / "wait" / "go").touch()
    assert server.infer("wait", ints(7), timeout_s=LIMIT_S)["OUT"].tolist() == [7]


def test_a_request_that_still_waits_when_its_time_is_over_is_never_executed(server: infer.Server, marks: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(server.infer, "wait", ints(1))
        eventually("the first executes", (marks / "wait" / "executing").exists)
        executed = server.statistics("wait")[0].execution_count
        for _ in range(3):
            with pytest.raises(TimeoutError):
                server.infer("wait", ints(2), timeout_s=0)
        (marks / "wait" / "go").touch()
        assert first.result(LIMIT_S)["OUT"].tolist() == [1]
    assert server.infer("wait", ints(3))["OUT"].tolist() == [3]
    picture = server.statistics("wait")[0]
    assert picture.pending == 0
    assert picture.execution_count <= executed + 3, "of the three, at most one that was handed over early"


# Changes under load


@IN_BOTH_MODES
def test_a_model_is_loaded_anew_under_load_and_no_request_fails(tmp_path: Path, mode: str) -> None:
    add(tmp_path, "m", PLUS_VERSION, mode)
    stop = threading.Event()
    with infer.Server(tmp_path) as server:

        def client(_: int) -> set[int]:
            seen: set[int] = set()
            while not stop.is_set():
                seen.add(int(server.infer("m", ints(0))["OUT"][0]))
            return seen

        with ThreadPoolExecutor(3) as pool:
            clients = [pool.submit(client, number) for number in range(3)]
            try:
                for value in (10, 20, 30):
                    add(tmp_path, "m", PLUS_VERSION.replace("read(request)", f"{value} + read(request)"), mode)
                    server.load("m")
                    assert server.infer("m", ints(0))["OUT"].tolist() == [value + 1]
            finally:
                stop.set()
            seen = set().union(*(each.result(LIMIT_S) for each in clients))
    assert seen <= {1, 11, 21, 31}


@IN_BOTH_MODES
def test_a_model_is_unloaded_under_load_and_every_request_is_answered_or_refused(tmp_path: Path, mode: str) -> None:
    add(tmp_path, "m", PLUS_VERSION, mode)
    with infer.Server(tmp_path) as server:

        def client(_: int) -> tuple[int, str]:
            answered = 0
            while True:
                try:
                    server.infer("m", ints(0))
                except infer.InferError as error:
                    return answered, str(error)
                answered += 1

        with ThreadPoolExecutor(4) as pool:
            clients = [pool.submit(client, number) for number in range(4)]
            eventually("it is under load", lambda: server.statistics()[0].success.count > 50)
            server.unload("m")
            results = [each.result(LIMIT_S) for each in clients]
        assert {error for _, error in results} == {"Request for unknown model: 'm' has no available versions"}
        assert sum(answered for answered, _ in results) > 50
        assert [entry.reason for entry in server.index()] == ["unloaded"]


def test_a_failed_reload_leaves_the_old_worker_serving(tmp_path: Path) -> None:
    add(tmp_path, "m", PID)
    with infer.Server(tmp_path) as server:
        before = server.infer("m", ints(0))["OUT"][0]
        add(tmp_path, "m", "import a_module_that_nobody_has")
        with pytest.raises(infer.InferError, match="a_module_that_nobody_has"):
            server.load("m")
        assert server.infer("m", ints(0))["OUT"][0] == before
        assert server.ready


# The end


def test_threads_that_infer_while_the_server_stops_are_all_let_go(tmp_path: Path) -> None:
    add(tmp_path, "m", PLUS_VERSION)
    server = infer.Server(tmp_path)
    server.start()

    def client(_: int) -> str:
        while True:
            try:
                server.infer("m", ints(0))
            except (infer.InferError, RuntimeError) as error:
                return str(error)

    with ThreadPoolExecutor(6) as pool:
        clients = [pool.submit(client, number) for number in range(6)]
        eventually("it is under load", lambda: server.statistics()[0].success.count > 50)
        server.stop()
        errors = {each.result(LIMIT_S) for each in clients}
    assert all("is not running" in error or "stop" in error or "exiting" in error for error in errors), errors


@pytest.mark.parametrize("unloaded", [False, True], ids=["it serves", "it is being unloaded"])
def test_the_stop_answers_a_request_that_its_model_never_will(tmp_path: Path, *, unloaded: bool) -> None:
    add(tmp_path, "m", STUCK)
    before = psutil.Process().children()
    server = infer.Server(tmp_path)
    server.start()
    with ThreadPoolExecutor(2) as pool:
        stuck = pool.submit(server.infer, "m", ints(1))
        eventually("it executes", (tmp_path / "m" / "executing").exists)
        if unloaded:
            unloading = pool.submit(server.unload, "m")
            eventually("it is on its way out", lambda: server.index()[0].state == "UNLOADING")
        server.stop(timeout_s=0)
        with pytest.raises(infer.InferError) as caught:
            stuck.result(LIMIT_S)
        assert caught.value.code is Code.UNAVAILABLE
        if unloaded:
            unloading.result(LIMIT_S)
    assert psutil.Process().children() == before


def test_the_stop_ends_a_load_and_says_so_to_who_waits_for_it(tmp_path: Path) -> None:
    add(tmp_path, "m", STUCK_LOAD)
    before = psutil.Process().children()
    server = infer.Server(tmp_path, model_control_mode="explicit")
    server.start()
    with ThreadPoolExecutor(1) as pool:
        loading = pool.submit(server.load, "m")
        eventually("it loads", (tmp_path / "m" / "initializing").exists)
        server.stop(timeout_s=0)
        with pytest.raises(infer.InferError, match="load failed for model 'm': the server was stopped meanwhile"):
            loading.result(LIMIT_S)
    assert psutil.Process().children() == before


def test_a_stream_that_is_open_at_the_end_is_ended_with_an_error(tmp_path: Path) -> None:
    add(tmp_path, "count", COUNT, DECOUPLED)
    server = infer.Server(tmp_path)
    server.start()
    stream = server.stream("count", ints(-1))
    next(stream)
    server.stop(timeout_s=0)
    with pytest.raises(infer.InferError) as caught:
        list(stream)
    assert caught.value.code is Code.UNAVAILABLE
    stream.close()


def test_a_server_is_started_again_after_its_end(tmp_path: Path) -> None:
    add(tmp_path, "m", PLUS_VERSION)
    server = infer.Server(tmp_path)
    for _ in range(2):
        with server:
            assert server.infer("m", ints(1))["OUT"].tolist() == [2]
        assert not server.ready
        server.stop()
        with pytest.raises(RuntimeError, match="is not running"):
            server.infer("m", ints(1))


# Workers that die


def test_a_stream_whose_worker_dies_is_ended_with_an_error_and_the_model_comes_back(server: infer.Server) -> None:
    worker = next(each for each in psutil.Process().children(recursive=True) if each.name().startswith("infer:count"))
    stream = server.stream("count", ints(-1))
    next(stream)
    os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(infer.InferError, match=r"signal 9|SIGKILL"):
        list(stream)
    eventually("the model is back", lambda: server.is_model_ready("count"))
    assert len(list(server.stream("count", ints(2)))) == 2


def test_a_worker_that_dies_takes_only_its_own_models_requests(server: infer.Server, marks: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(server.infer, "wait", ints(5))
        eventually("it executes", (marks / "wait" / "executing").exists)
        os.kill(int(server.infer("pid", ints(0))["OUT"][0]), signal.SIGKILL)
        eventually("the other is back", lambda: server.is_model_ready("pid") and _answers(server))
        (marks / "wait" / "go").touch()
        assert waiting.result(LIMIT_S)["OUT"].tolist() == [5]


def _answers(server: infer.Server) -> bool:
    try:
        return bool(server.infer("pid", ints(0))["OUT"][0])
    except infer.InferError:
        return False
