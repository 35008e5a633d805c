"""Python models whose instance groups change while clients call them: the instances that stay notice nothing."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient

import infer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Serve = Any

LIMIT_S = 60
BATCHERS = ["", "max_batch_size: 4\ndynamic_batching {}\n"]
MODEL = """
import os, pathlib, threading
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    # Answers with its name's last number and how often it was called; its folder says what began and ended.
    def initialize(self, args):
        self.name, self.count = args["model_instance_name"], 0
        self.folder = pathlib.Path(args["model_repository"]).parent
        if (self.folder / ("refuse." + self.name)).exists():
            raise ValueError("no licence for " + self.name)
        self.note("begins")
    def note(self, what):
        with (self.folder / "log").open("a") as file:
            file.write(f"{self.name} {what}\\n")
    def execute(self, requests):
        answers = []
        for request in requests:
            self.count += 1
            given = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            out = np.array([int(self.name[-1]), self.count, os.getpid()], np.int32).reshape(given.shape[:-1] + (3,))
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", out)]))
        return answers
    def finalize(self):
        self.note("ends")
"""


def document(count: int, thread: bool = False, **more: Any) -> dict[str, Any]:
    parameters = {"EXECUTION_MODE": {"string_value": "thread"}} if thread else {}
    return {
        "backend": "python",
        "input": [{"name": "IN", "data_type": "TYPE_INT32", "dims": [3]}],
        "output": [{"name": "OUT", "data_type": "TYPE_INT32", "dims": [3]}],
        "instance_group": [{"kind": "KIND_CPU", "count": count}],
        "parameters": parameters,
        **more,
    }


def write(repository: Path, count: int, more: str = "") -> None:
    folder = repository / "m" / "1"
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "model.py").exists():
        (folder / "model.py").write_text(MODEL)
    (folder.parent / "config.pbtxt").write_text(
        'backend: "python"\n'
        "input [{ name: 'IN' data_type: TYPE_INT32 dims: [3] }]\n"
        "output [{ name: 'OUT' data_type: TYPE_INT32 dims: [3] }]\n"
        f"instance_group [{{ kind: KIND_CPU count: {count} }}]\n" + more
    )


def events(repository: Path) -> list[str]:
    return sorted((repository / "log").read_text().splitlines())


def until(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(LIMIT_S * 100):
        if condition():
            return
        pause.wait(0.01)
    pytest.fail("it did not come to that")


def call(server: infer.Server, shape: tuple[int, ...]) -> list[int]:
    return server.infer("m", {"IN": np.zeros(shape, np.int32)})["OUT"].reshape(-1).tolist()


def processes() -> set[int]:
    return {each.pid for each in psutil.Process().children(recursive=True)}


@pytest.mark.parametrize("batcher", BATCHERS, ids=["default", "dynamic"])
def test_instances_come_and_go_under_load_and_the_first_keeps_its_process_and_its_state(
    tmp_path: Path, batcher: str
) -> None:
    write(tmp_path, 1, batcher)
    shape = (1, 3) if batcher else (3,)
    stop = threading.Event()
    with infer.Server(tmp_path) as server:
        first = call(server, shape)
        before = processes()
        seen: list[list[int]] = []

        def client(_: int) -> int:
            answered = 0
            while not stop.is_set():
                seen.append(call(server, shape))
                answered += 1
            return answered

        def has_answered(instance: int) -> bool:
            return any(answer[0] == instance for answer in tuple(seen))

        with ThreadPoolExecutor(6) as pool:
            clients = [pool.submit(client, number) for number in range(6)]
            try:
                write(tmp_path, 3, batcher)
                server.load("m")
                until(lambda: has_answered(1) and has_answered(2))
                assert events(tmp_path) == ["m_0_0 begins", "m_0_1 begins", "m_0_2 begins"]
                write(tmp_path, 2, batcher)
                server.load("m")
                until(lambda: "m_0_2 ends" in events(tmp_path))
                write(tmp_path, 1, batcher)
                server.load("m")
                until(lambda: "m_0_1 ends" in events(tmp_path))
            finally:
                stop.set()
            answered = sum(each.result(LIMIT_S) for each in clients)
        until(lambda: processes() <= before)
        last = call(server, shape)
        assert (last[0], last[2]) == (first[0], first[2]), "the same process"
        assert sum(1 for answer in seen if answer[0] == 0) + 2 == last[1], "it has counted all along"
        assert events(tmp_path).count("m_0_0 begins") == 1
        assert server.statistics("m")[0].success.count == answered + 2


@pytest.mark.parametrize("thread", [False, True], ids=["process", "thread"])
def test_an_instance_that_does_not_start_is_the_reason_and_the_others_serve_on(tmp_path: Path, thread: bool) -> None:
    write(tmp_path, 1)
    (tmp_path / "refuse.m_0_2").touch()
    with infer.Server(tmp_path, model_control_mode="explicit") as server:
        server.load("m", config=document(1, thread))
        assert call(server, (3,))[:2] == [0, 1]
        before = processes()
        with pytest.raises(infer.InferError, match="no licence for m_0_2"):
            server.load("m", config=document(3, thread))
        assert call(server, (3,))[:2] == [0, 2]
        assert server.is_model_ready("m")
        until(lambda: processes() <= before)
        (tmp_path / "refuse.m_0_2").unlink()
        server.load("m", config=document(3, thread))
        server.load("m", config=document(1, thread))
        until(lambda: {"m_0_1 ends", "m_0_2 ends"} <= set(events(tmp_path)))
        assert call(server, (3,))[:2] == [0, 3]
        assert events(tmp_path).count("m_0_0 begins") == 1


def test_both_doors_change_the_groups_with_a_configuration(tmp_path: Path, serve: Serve) -> None:
    write(tmp_path, 1)
    with serve(tmp_path, model_control_mode="explicit", load_model=("m",)) as running:
        http = httpclient.InferenceServerClient(":".join(map(str, running.http_address)))
        grpc = grpcclient.InferenceServerClient(":".join(map(str, running.grpc_address)))
        try:
            http.load_model("m", config=json.dumps(document(2)))
            assert http.get_model_config("m")["instance_group"][0]["count"] == 2
            grpc.load_model("m", config=json.dumps(document(3)))
            assert grpc.get_model_config("m").config.instance_group[0].count == 3
            assert events(tmp_path) == ["m_0_0 begins", "m_0_1 begins", "m_0_2 begins"]
            grpc.load_model("m", config=json.dumps(document(1)))
            until(lambda: {"m_0_1 ends", "m_0_2 ends"} <= set(events(tmp_path)))
            assert "m_0_0 ends" not in events(tmp_path)
        finally:
            http.close()
            grpc.close()
