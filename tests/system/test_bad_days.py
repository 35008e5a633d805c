"""A server process on a bad day: workers and zygote are killed, clients vanish, SIGTERM comes under load.

Whatever happens, every request that was accepted is answered, the state is shown at once, and nothing is left behind.
"""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from infer.tests.conftest import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import ServerProcess, StartServer

pytestmark = pytest.mark.slow

CONFIG = """
backend: "python"
input [{ name: "SECONDS" data_type: TYPE_FP32 dims: [1] }]
output [{ name: "PID" data_type: TYPE_INT32 dims: [1] }]
instance_group [{ kind: KIND_CPU count: COUNT }]
"""
MODEL = '''
"""Takes as long as it is told to and says who did it."""

import os
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            time.sleep(float(pb_utils.get_input_tensor_by_name(request, "SECONDS").as_numpy()[0]))
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("PID", np.array([os.getpid()], np.int32))]))
        return responses
'''
LIMIT_S = 20
Answer = tuple[int, dict[str, Any]]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name, count in (("slow", 1), ("pair", 2)):
        (tmp_path / name / "1").mkdir(parents=True)
        (tmp_path / name / "config.pbtxt").write_text(CONFIG.replace("COUNT", str(count)))
        (tmp_path / name / "1" / "model.py").write_text(MODEL)
    return tmp_path


def ask(server: ServerProcess, path: str, body: dict[str, Any] | None = None) -> Answer:
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(server.http + path, data), timeout=LIMIT_S) as answer:
            text = answer.read()
            return answer.status, json.loads(text or b"{}")
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read() or b"{}")


def infer(server: ServerProcess, model: str, seconds: float) -> Answer:
    inputs = [{"name": "SECONDS", "datatype": "FP32", "shape": [1], "data": [seconds]}]
    return ask(server, f"/v2/models/{model}/infer", {"inputs": inputs})


def worker_of(server: ServerProcess, model: str) -> int:
    status, answer = infer(server, model, 0)
    assert status == 200, answer
    return answer["outputs"][0]["data"][0]


def pending(server: ServerProcess) -> int:
    """What the metrics port says is waiting."""
    with urllib.request.urlopen(server.operator + "/metrics", timeout=LIMIT_S) as answer:
        lines = answer.read().decode().splitlines()
    return sum(int(float(line.rsplit(" ", 1)[1])) for line in lines if line.startswith("nv_inference_pending"))


def index(server: ServerProcess) -> dict[str, dict[str, str]]:
    return {entry["name"]: entry for entry in ask(server, "/v2/repository/index", {})[1]}


def test_requests_of_a_killed_worker_are_answered_within_a_second_and_it_comes_back(
    start_server: StartServer, repository: Path
) -> None:
    server = start_server("--model-repository", str(repository))
    worker = worker_of(server, "slow")
    with ThreadPoolExecutor(3) as pool:
        answers = [pool.submit(infer, server, "slow", 15) for _ in range(3)]
        eventually("two requests wait behind the first", lambda: pending(server) == 2)
        killed = time.monotonic()
        os.kill(worker, signal.SIGKILL)
        results = [answer.result() for answer in answers]
    assert time.monotonic() - killed < 1
    assert {status for status, _ in results} <= {500, 503}
    assert any("signal 9" in answer["error"] or "SIGKILL" in answer["error"] for _, answer in results), results
    eventually("the worker is back", lambda: ask(server, "/v2/models/slow/ready")[0] == 200)
    assert worker_of(server, "slow") != worker
    assert ask(server, "/v2/health/ready")[0] == 200
    assert server.stop() == 0


def test_a_dead_worker_shows_in_ready_and_index_with_its_reason(start_server: StartServer, repository: Path) -> None:
    (repository / "slow" / "1" / "model.py").write_text(
        MODEL
        + """
    def initialize(self, args):
        import pathlib
        marker = pathlib.Path(args["model_repository"]) / "started"
        if marker.exists():
            raise RuntimeError("the licence server is down")
        marker.touch()
"""
    )
    server = start_server("--model-repository", str(repository))
    os.kill(worker_of(server, "slow"), signal.SIGKILL)
    eventually("the model is not ready", lambda: ask(server, "/v2/models/slow/ready")[0] == 400)
    eventually("the reason of the failed restart", lambda: "licence server" in index(server)["slow"].get("reason", ""))
    assert index(server)["slow"]["state"] == "UNAVAILABLE"
    assert ask(server, "/v2/health/ready")[0] == 400
    assert ask(server, "/v2/health/live")[0] == 200
    assert infer(server, "slow", 0)[0] == 503
    assert infer(server, "pair", 0)[0] == 200
    assert server.stop() == 0


def test_the_second_worker_of_a_pair_goes_on_alone(start_server: StartServer, repository: Path) -> None:
    server = start_server("--model-repository", str(repository))
    with ThreadPoolExecutor(2) as pool:
        both = {answer["outputs"][0]["data"][0] for _, answer in pool.map(lambda _: infer(server, "pair", 0.3), "ab")}
        assert len(both) == 2
        os.kill(both.pop(), signal.SIGKILL)
    eventually("the death shows", lambda: "signal 9" in index(server)["pair"].get("reason", ""))
    assert index(server)["pair"]["state"] == "READY"
    assert infer(server, "pair", 0)[0] == 200
    eventually("both are back", lambda: ask(server, "/v2/models/pair/ready")[0] == 200)
    assert server.stop() == 0


def test_a_killed_zygote_is_replaced(start_server: StartServer, repository: Path) -> None:
    server = start_server("--model-repository", str(repository))
    worker = psutil.Process(worker_of(server, "slow"))
    zygote = worker.parent()
    assert zygote is not None
    assert zygote.pid != server.process.pid
    zygote.kill()
    eventually("the old worker is gone", lambda: not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE)
    eventually("both models answer again", lambda: {infer(server, m, 0)[0] for m in ("slow", "pair")} == {200})
    assert server.stop() == 0


def test_every_request_is_answered_when_sigterm_comes_under_load(start_server: StartServer, repository: Path) -> None:
    server = start_server("--model-repository", str(repository))
    with ThreadPoolExecutor(6) as pool:
        answers = [pool.submit(infer, server, "slow", 0.1) for _ in range(6)]
        eventually("five wait behind the first", lambda: pending(server) >= 4)
        server.process.send_signal(signal.SIGTERM)
        assert {answer.result()[0] for answer in answers} == {200}
    assert server.join() == 0


def test_what_the_drain_time_is_too_short_for_is_answered_with_an_error(
    start_server: StartServer, repository: Path
) -> None:
    server = start_server("--model-repository", str(repository), "--exit-timeout-secs=0")
    family = server.processes()
    with ThreadPoolExecutor(2) as pool:
        answers = [pool.submit(infer, server, "slow", 15) for _ in range(2)]
        eventually("one waits behind the other", lambda: pending(server) == 1)
        server.process.send_signal(signal.SIGTERM)
        assert {answer.result()[0] for answer in answers} == {503}
    assert server.join() == 1
    assert psutil.wait_procs(family, timeout=5)[1] == []


def test_a_client_that_hangs_up_takes_its_waiting_request_along(start_server: StartServer, repository: Path) -> None:
    import http.client

    server = start_server("--model-repository", str(repository))
    host = server.http.removeprefix("http://")
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(infer, server, "slow", 1)
        body = json.dumps({"inputs": [{"name": "SECONDS", "datatype": "FP32", "shape": [1], "data": [15]}]})
        eventually("the first executes", lambda: executing(server))
        connection = http.client.HTTPConnection(host, timeout=LIMIT_S)
        connection.request("POST", "/v2/models/slow/infer", body)
        eventually("the second waits", lambda: pending(server) == 1)
        connection.close()
        eventually("the second is gone", lambda: pending(server) == 0)
        assert first.result()[0] == 200
    assert infer(server, "slow", 0)[0] == 200
    failures = [line for line in metrics(server) if 'model="slow"' in line and 'reason="CANCELED"' in line]
    assert failures[0].endswith(" 1") or failures[0].endswith(" 1.0")
    assert server.stop() == 0


def metrics(server: ServerProcess) -> list[str]:
    with urllib.request.urlopen(server.operator + "/metrics", timeout=LIMIT_S) as answer:
        return answer.read().decode().splitlines()


def executing(server: ServerProcess) -> bool:
    """Whether the only worker of `slow` holds a request: a second one would wait."""
    return pending(server) == 0 and bool(worker_cpu_or_sleep(server))


def worker_cpu_or_sleep(server: ServerProcess) -> list[psutil.Process]:
    return server.processes()[1:]


def test_an_execution_beyond_the_time_out_is_ended_and_the_worker_replaced(
    start_server: StartServer, repository: Path
) -> None:
    server = start_server("--model-repository", str(repository), "--execute-timeout=0.5")
    worker = worker_of(server, "slow")
    status, answer = infer(server, "slow", 15)
    assert status == 503
    assert "--execute-timeout" in answer["error"]
    eventually("a new worker answers", lambda: infer(server, "slow", 0)[0] == 200)
    assert worker_of(server, "slow") != worker
    assert server.stop() == 0


def test_a_worker_that_is_stopped_holds_up_nobody_else(start_server: StartServer, repository: Path) -> None:
    server = start_server("--model-repository", str(repository), "--exit-timeout-secs=1")
    os.kill(worker_of(server, "slow"), signal.SIGSTOP)
    with ThreadPoolExecutor(1) as pool:
        stuck = pool.submit(infer, server, "slow", 0)
        for _ in range(20):
            assert infer(server, "pair", 0)[0] == 200
        assert not stuck.done()
        server.process.send_signal(signal.SIGTERM)
        assert stuck.result()[0] == 503
    assert server.join() == 1
