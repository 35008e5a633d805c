"""The operator's door of a whole server: what a dashboard reads and changes, over TCP and over the control socket."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from infer.app.settings import ServerSettings
from infer.app.wiring import RunningServer, build
from infer.server.observe import logs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEY = "the-key"
LOAD_SIMPLE = "/v2/repository/models/simple/load"
SILENT = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        print("printed")
        pb_utils.Logger.log_warn("logged")
        self.family = pb_utils.MetricFamily("spoken_words", "What it kept to itself", pb_utils.MetricFamily.GAUGE)
        self.metric = self.family.Metric({"model": args["model_name"]})
        self.metric.set(2.5)

    def execute(self, requests):
        return [pb_utils.InferenceResponse([]) for request in requests]
"""
SILENT_CONFIG = """
backend: "python"
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
"""


class SocketConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=30)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


@dataclass
class Client:
    server: RunningServer
    over_socket: bool = False
    key: str = ""

    def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, Any]:
        socket_path, address = self.server.settings.control_socket, self.server.operator_address
        assert socket_path is not None
        assert address is not None
        made = SocketConnection(socket_path) if self.over_socket else http.client.HTTPConnection(*address, timeout=30)
        with contextlib.closing(made) as connection:
            connection.request(method, path, body, {"Authorization": f"Bearer {self.key}"} if self.key else {})
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if text else None

    def get(self, path: str) -> Any:
        status, document = self.ask("GET", path)
        assert status == 200, document
        return document

    def row(self, name: str) -> Any:
        (row,) = [row for row in self.get("/v2/operator/overview")["models"] if row["name"] == name]
        return row

    def wait_for_row(self, name: str, **expected: Any) -> Any:
        """Ask until the row says so."""
        deadline = threading.Event()
        timer = threading.Timer(20, deadline.set)
        timer.start()
        try:
            while not deadline.is_set():
                row = self.row(name)
                if all(row[key] == value for key, value in expected.items()):
                    return row
            pytest.fail(f"'{name}' never became {expected}: {row}")
        finally:
            timer.cancel()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("operator")
    shutil.copytree(root / "model_repository" / "simple", folder / "models" / "simple")
    silent = folder / "models" / "silent" / "1"
    silent.mkdir(parents=True)
    (silent / "model.py").write_text(SILENT)
    (silent.parent / "config.pbtxt").write_text(SILENT_CONFIG)
    (folder / "models" / "broken").mkdir()
    settings = ServerSettings(
        model_repository=(folder / "models",),
        model_control_mode="explicit",
        load_model=("simple", "silent"),
        http_address="127.0.0.1",
        http_port=0,
        grpc_address="127.0.0.1",
        grpc_port=0,
        metrics_port=0,
        control_key=KEY,
        control_socket=folder / "control.sock",
        allow_remote_control=False,
        log_file=str(folder / "server.log"),
    )
    service = logs.configure(logs.LogSettings(log_file=folder / "server.log"))
    running = build(settings, service.ring)
    try:
        assert running.start() == {}
        yield running
    finally:
        running.drain(5)
        running.stop()
        service.stop()
    assert not (folder / "control.sock").exists()


@pytest.fixture
def client(server: RunningServer) -> Client:
    """Over TCP with the key."""
    return Client(server, key=KEY)


def infer(server: RunningServer, model: str, document: Any) -> int:
    address = server.http_address
    assert address is not None
    with contextlib.closing(http.client.HTTPConnection(*address, timeout=30)) as connection:
        connection.request("POST", f"/v2/models/{model}/infer", json.dumps(document))
        answer = connection.getresponse()
        answer.read()
        return answer.status


def simple_request() -> dict[str, Any]:
    data = list(range(16))
    names = ("INPUT0", "INPUT1")
    return {"inputs": [{"name": name, "datatype": "INT32", "shape": [1, 16], "data": data} for name in names]}


def test_requests_show_in_the_row_of_their_model(server: RunningServer, client: Client) -> None:
    before = client.row("simple")
    for _ in range(3):
        assert infer(server, "simple", simple_request()) == 200
    after = client.wait_for_row("simple", in_flight=0, success=before["success"] + 3)
    assert (after["state"], after["backend"], after["version"]) == ("READY", "python", "1")
    assert sum(count for _, count in after["latency"]) == after["success"]
    assert sum(count for _, count in after["batches"]) == after["execution_count"]
    assert after["durations"]["request"]["count"] == after["success"]
    assert after["last_inference_ms"] > 0
    slowest = max(bound for bound, _ in after["latency"])
    assert slowest * 1000 * after["success"] >= after["durations"]["request"]["ns"]


def test_a_worker_is_shown_with_its_process(client: Client) -> None:
    (instance,) = client.row("simple")["instances"]
    assert (instance["name"], instance["kind"], instance["device"]) == ("simple_0_0", "KIND_CPU", -1)
    assert instance["state"] == "idle"
    assert instance["memory_bytes"] > 1 << 20
    os.kill(instance["pid"], 0)
    assert instance["pid"] != os.getpid()


def test_a_worker_that_is_killed_is_counted_when_it_is_back(client: Client) -> None:
    (before,) = client.row("silent")["instances"]
    os.kill(before["pid"], signal.SIGKILL)
    while (after := client.row("silent")["instances"][0])["restarts"] == before["restarts"]:
        assert after["state"] in ("idle", "restarting")
    assert after["restarts"] == before["restarts"] + 1
    row = client.wait_for_row("silent", state="READY", reason="")
    assert row["instances"][0]["pid"] not in (before["pid"], None)


def test_a_model_that_is_not_loaded_has_a_row_of_zeros(client: Client) -> None:
    row = client.row("broken")
    assert (row["version"], row["state"], row["instances"], row["success"]) == ("", "", [], 0)


@pytest.mark.parametrize("over_socket", [True, False], ids=["socket", "key"])
def test_who_may_change_things_does(server: RunningServer, *, over_socket: bool) -> None:
    client = Client(server, over_socket, "" if over_socket else KEY)
    assert client.get("/v2/operator/overview")["server"]["changes"] == ""
    assert client.ask("POST", "/v2/repository/models/simple/unload")[0] == 200
    client.wait_for_row("simple", state="UNAVAILABLE", reason="unloaded", instances=[])
    assert client.ask("POST", LOAD_SIMPLE)[0] == 200
    assert client.row("simple")["state"] == "READY"


def test_another_user_of_the_machine_may_not(server: RunningServer) -> None:
    client = Client(server)
    assert client.ask("POST", LOAD_SIMPLE)[0] == 401
    assert client.get("/v2/operator/overview")["server"]["changes"] != ""
    client.key = "guess"
    assert client.ask("POST", LOAD_SIMPLE)[0] == 403


@pytest.mark.parametrize("verb", ["load", "unload"])
def test_clients_doors_take_no_changes_where_that_was_asked_for(server: RunningServer, verb: str) -> None:
    address = server.http_address
    assert address is not None
    with contextlib.closing(http.client.HTTPConnection(*address, timeout=30)) as connection:
        connection.request("POST", f"/v2/repository/models/simple/{verb}", b"{}")
        answer = connection.getresponse()
        assert answer.status == 503
        assert "--allow-remote-control=false" in json.loads(answer.read())["error"]


def messages(client: Client, wanted: str, **query: Any) -> dict[str, dict[str, Any]]:
    """The records by message, when the one that is waited for has been written."""
    text = "&".join(f"{name}={value}" for name, value in {"after": 0, "limit": 1000, **query}.items())
    deadline = threading.Event()
    timer = threading.Timer(20, deadline.set)
    timer.start()
    try:
        while not deadline.is_set():
            found = {record["message"]: record for record in client.get(f"/v2/operator/log?{text}")["records"]}
            if any(wanted in message for message in found):
                return found
        pytest.fail(f"no record '{wanted}' in {list(found)}")
    finally:
        timer.cancel()


def test_what_a_model_prints_and_logs_is_found_by_its_name(client: Client) -> None:
    found = messages(client, "successfully loaded", model="silent")
    printed, logged = found["silent_0_0: printed"], found["logged"]
    assert (printed["level"], printed["version"], printed["instance"]) == ("INFO", "1", "silent_0_0")
    assert (logged["level"], logged["version"], logged["instance"]) == ("WARNING", "1", "silent_0_0")
    assert logged["file"] == "model.py:8"
    assert "successfully loaded 'silent' version 1" in found


def test_a_load_that_fails_is_found_by_the_models_name(client: Client) -> None:
    assert client.ask("POST", "/v2/repository/models/broken/load")[0] == 500
    (record,) = messages(client, "failed to load 'broken'", model="broken", level="ERROR").values()
    assert (record["level"], record["model"]) == ("ERROR", "broken")
    assert record["seq"] <= client.get("/v2/operator/overview")["log_last"]
    assert client.row("broken")["reason"] != ""


def test_the_metrics_of_a_model_are_on_the_endpoint_beside_the_servers_own(server: RunningServer) -> None:
    assert server.operator_address is not None
    with contextlib.closing(http.client.HTTPConnection(*server.operator_address, timeout=30)) as connection:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    assert (
        '# HELP spoken_words What it kept to itself\n# TYPE spoken_words gauge\nspoken_words{model="silent"} 2.5\n'
    ) in text
    assert 'nv_inference_count{model="silent"' in text
