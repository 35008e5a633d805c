"""What a server writes to its log: lines that a person and a program can read, with the request's id in them."""

from __future__ import annotations

import json
import signal
import threading
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import ServerProcess, StartServer

CONFIG = """
backend: "python"
input [{ name: "IN" data_type: TYPE_INT32 dims: [1] }]
output [{ name: "OUT" data_type: TYPE_INT32 dims: [1] }]
instance_group [{ kind: KIND_CPU count: 1 }]
"""
MODEL = """
import sys

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        print("hello from", args["model_instance_name"])
        sys.stderr.write("a warning\\n")
        pb_utils.Logger.log_info("initialised")

    def execute(self, requests):
        raise ValueError("no such thing")
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "models" / "raises"
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(CONFIG)
    (folder / "1" / "model.py").write_text(MODEL)
    return folder.parent


def infer(server: ServerProcess, request_id: str, size: int = 1) -> tuple[int, str]:
    inputs = [{"name": "IN", "datatype": "INT32", "shape": [size], "data": list(range(size))}]
    body = json.dumps({"id": request_id, "inputs": inputs}).encode()
    with pytest.raises(urllib.error.HTTPError) as failure:
        urllib.request.urlopen(f"{server.http}/v2/models/raises/infer", body, timeout=20)
    with failure.value as answer:
        return answer.code, json.loads(answer.read())["error"]


def json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_json_log_has_one_object_a_line_with_model_instance_and_request(
    start_server: StartServer, repository: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log.json"
    server = start_server(
        "--model-repository", str(repository), "--log-format=json", f"--log-file={log}", "--log-verbose=1"
    )
    status, error = infer(server, "request-7")
    assert status == 500
    assert "ValueError: no such thing" in error
    assert infer(server, "request-8", size=2)[0] == 400
    assert server.stop() == 0
    lines = json_lines(log)
    assert all({"time", "level", "message", "file", "line", "pid"} <= line.keys() for line in lines)
    (raised,) = [line for line in lines if line["level"] == "ERROR"]
    assert (raised["request_id"], raised["model"], raised["instance"]) == ("request-7", "raises", "raises_0_0")
    assert "model.py" in raised["message"]
    failed = [line for line in lines if line["level"] == "VERBOSE" and line.get("request_id") == "request-7"]
    assert [line["message"].split(":")[0] for line in failed] == [
        "request to model 'raises' version 1 failed (BACKEND)"
    ]
    refused = [line for line in lines if line.get("request_id") == "request-8"]
    assert "unexpected shape" in refused[0]["message"]


def test_what_a_model_prints_and_logs_is_told_with_its_name(start_server: StartServer, repository: Path) -> None:
    server = start_server("--model-repository", str(repository))
    assert "raises_0_0: hello from raises_0_0" in server.log
    assert "raises_0_0: a warning" in server.log
    (line,) = [line for line in server.lines if '"initialised"' in line]
    assert line.startswith("I")
    assert "model.py:11]" in line
    assert server.stop() == 0


def test_a_text_log_names_the_request_in_front_of_the_message(start_server: StartServer, repository: Path) -> None:
    server = start_server("--model-repository", str(repository), "--log-format=ISO8601")
    infer(server, "42")
    assert server.stop(signal.SIGINT) == 0
    (line,) = [line for line in server.lines if "no such thing" in line]
    stamp, level, _ = line.split(" ", 2)
    assert (len(stamp), stamp[-1], level) == (20, "Z", "E")
    assert '"[request id: 42] Failed to process the request(s) for model' in line


def test_a_server_that_is_told_to_stop_while_a_model_loads_stops_at_once(
    start_server: StartServer, repository: Path
) -> None:
    source = MODEL.replace('print("hello', 'import threading; threading.Event().wait(); print("hello')
    (repository / "raises" / "1" / "model.py").write_text(source)
    (repository / "quick" / "1").mkdir(parents=True)
    (repository / "quick" / "config.pbtxt").write_text(CONFIG)
    (repository / "quick" / "1" / "model.py").write_text(MODEL)
    server = start_server("--model-repository", str(repository), wait=False)
    while not any("successfully loaded 'quick'" in line for line in server.lines):
        assert server.process.poll() is None, server.log
        threading.Event().wait(0.01)
    assert server.stop() == 0
    assert any("while starting" in line for line in server.lines)
