"""Real models loaded and unloaded while clients call them: what changed is swapped in, and nothing else is noticed."""

from __future__ import annotations

import tempfile
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pytest

import infer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LIMIT_S = 60
CONFIG = """
backend: "python"
input [{ name: "INPUT0" data_type: TYPE_INT32 dims: [-1] }]
output [{ name: "OUTPUT0" data_type: TYPE_INT32 dims: [-1] }]
instance_group [{ kind: KIND_CPU count: 1 }]
"""
DOCUMENT: dict[str, Any] = {
    "backend": "python",
    "input": [{"name": "INPUT0", "data_type": "TYPE_INT32", "dims": [-1]}],
    "output": [{"name": "OUTPUT0", "data_type": "TYPE_INT32", "dims": [-1]}],
    "instance_group": [{"kind": "KIND_CPU", "count": 1}],
}
ALL_VERSIONS = "version_policy { all {} }\n"
ECHO = CONFIG.replace("python", "identity")
HEADER = """
import pathlib, threading
import numpy as np
import triton_python_backend_utils as pb_utils

def out(value):
    return pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", np.array([value], np.int32))])
"""
CONSTANT = """
class TritonPythonModel:
    def execute(self, requests):
        return [out(CONSTANT) for request in requests]
"""
COUNTER = """
class TritonPythonModel:
    # Counts its calls; its folder says how often it was initialised.
    def initialize(self, args):
        self.count = 0
        log = pathlib.Path(args["model_repository"]).parent / ("initialised." + args["model_version"])
        with log.open("a") as file:
            file.write("x")
    def execute(self, requests):
        self.count += 1
        return [out(self.count) for request in requests]
"""
SLOW_START = """
class TritonPythonModel:
    def initialize(self, args):
        pathlib.Path(STARTED).touch()
        threading.Event().wait()
"""


def source(body: str, **names: object) -> str:
    text = HEADER + textwrap.dedent(body)
    for name, value in names.items():
        text = text.replace(name, repr(value))
    return text


def add(repository: Path, name: str, text: str, more: str = "", version: int = 1) -> None:
    folder = repository / name / str(version)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.py").write_text(text)
    (folder.parent / "config.pbtxt").write_text(CONFIG + more)


def call(server: infer.Server, name: str = "m", version: int | None = None) -> int:
    return int(server.infer(name, {"INPUT0": np.zeros(1, np.int32)}, model_version=version)["OUTPUT0"][0])


@pytest.fixture
def private_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the folders are made of models whose files come with their load; nothing is left there."""
    folder = tmp_path_factory.mktemp("private")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


def test_a_constant_that_changes_under_calls_is_swapped_in_once_and_no_call_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    add(tmp_path, "m", source(CONSTANT, CONSTANT=1))
    stop = threading.Event()
    with infer.Server(tmp_path) as server:

        def client(_: int) -> list[int]:
            seen: list[int] = []
            while not stop.is_set():
                seen.append(call(server))
            return seen

        with ThreadPoolExecutor(3) as pool:
            clients = [pool.submit(client, number) for number in range(3)]
            try:
                for value in (2, 3, 4):
                    # The same size, and within a second of the last one.
                    add(tmp_path, "m", source(CONSTANT, CONSTANT=value))
                    server.load("m")
                    assert call(server) == value
            finally:
                stop.set()
            answers = [each.result(LIMIT_S) for each in clients]
    for seen in answers:
        assert seen == sorted(seen), "an answer of the old one came after one of the new one"
        assert set(seen) <= {1, 2, 3, 4}
    assert not (tmp_path / "m" / "1" / "__pycache__").exists()


def test_a_version_that_is_added_leaves_the_other_one_and_its_state_alone(tmp_path: Path) -> None:
    add(tmp_path, "m", source(COUNTER), ALL_VERSIONS)
    with infer.Server(tmp_path) as server:
        assert [call(server), call(server)] == [1, 2]
        add(tmp_path, "m", source(COUNTER), ALL_VERSIONS, version=2)
        server.load("m")
        assert server.is_model_ready("m", 2)
        assert call(server, version=1) == 3
        assert call(server) == 1, "the highest version answers"
        server.load("m")
        assert call(server, version=1) == 4
    assert (tmp_path / "initialised.1").read_text() == "x"
    assert (tmp_path / "initialised.2").read_text() == "x"


def test_loads_and_unloads_from_many_threads_harm_no_other_model(tmp_path: Path) -> None:
    add(tmp_path, "m", source(CONSTANT, CONSTANT=1))
    (tmp_path / "echo" / "1").mkdir(parents=True)
    (tmp_path / "echo" / "config.pbtxt").write_text(ECHO)
    stop = threading.Event()
    before = psutil.Process().children()
    with infer.Server(tmp_path, model_control_mode="explicit", load_model=("*",)) as server:

        def change(number: int) -> None:
            for turn in range(4):
                if (number + turn) % 2:
                    server.unload("m")
                else:
                    server.load("m")

        def client(name: str) -> tuple[int, set[str]]:
            answered, errors = 0, set[str]()
            while not stop.is_set():
                try:
                    assert call(server, name) == (1 if name == "m" else 0)
                    answered += 1
                except infer.InferError as error:
                    errors.add(str(error))
            return answered, errors

        with ThreadPoolExecutor(12) as pool:
            clients = {name: [pool.submit(client, name) for _ in range(4)] for name in ("m", "echo")}
            changes = [pool.submit(change, number) for number in range(4)]
            try:
                for each in changes:
                    each.result(LIMIT_S)
            finally:
                stop.set()
            results = {name: [each.result(LIMIT_S) for each in found] for name, found in clients.items()}
        server.load("m")
        assert call(server) == 1
    assert all(answered and not errors for answered, errors in results["echo"])
    refused = set().union(*(errors for _, errors in results["m"]))
    assert all("Request for unknown model: 'm'" in error or "stopped accepting" in error for error in refused), refused
    assert psutil.Process().children() == before


def test_a_program_gives_a_configuration_and_files(tmp_path: Path, private_folders: Path) -> None:
    add(tmp_path, "m", source(CONSTANT, CONSTANT=1))
    local = tmp_path / "new.py"
    local.write_text(source(CONSTANT, CONSTANT=2))
    with infer.Server(tmp_path) as server:
        server.load("m", config=DOCUMENT | {"parameters": {"who": {"string_value": "me"}}})
        assert call(server) == 1
        server.load("m", config=DOCUMENT, files={"1/model.py": local})
        assert call(server) == 2
        files = {"file:5/model.py": source(CONSTANT, CONSTANT=5).encode()}
        server.load("new", config='{"backend": "python"}', files=files | {})
        assert [entry.version for entry in server.index() if entry.name == "new"] == ["5"]
        server.load("m")
        assert call(server) == 1
        with pytest.raises(infer.InferError, match="'config' must be specified for model file override"):
            server.load("m", files=files)
        with pytest.raises(OSError, match="No such file"):
            server.load("m", config=DOCUMENT, files={"1/model.py": tmp_path / "gone.py"})
        server.unload("new")
        server.unload("m")
        # What served before a load that swapped is closed behind it, so only the end says that all of it is gone.
    assert list(private_folders.iterdir()) == []


def test_the_stop_comes_while_files_load_and_leaves_no_folder_and_no_process(
    tmp_path: Path, private_folders: Path
) -> None:
    before = psutil.Process().children()
    started = tmp_path / "started"
    (tmp_path / "models").mkdir()
    server = infer.Server(tmp_path / "models", model_control_mode="explicit")
    server.start()
    files = {"1/model.py": source(SLOW_START, STARTED=str(started)).encode()}
    with ThreadPoolExecutor(1) as pool:
        loading = pool.submit(server.load, "m", config=DOCUMENT, files=files)
        pause = threading.Event()
        for _ in range(2000):
            if started.exists():
                break
            pause.wait(0.01)
        server.stop(timeout_s=0)
        with pytest.raises(infer.InferError, match="the server was stopped meanwhile"):
            loading.result(LIMIT_S)
    assert psutil.Process().children() == before


def test_files_whose_model_does_not_start_leave_no_folder(tmp_path: Path, private_folders: Path) -> None:
    with infer.Server(tmp_path, model_control_mode="explicit") as server:
        for text in ("import a_module_that_nobody_has", "def broken(:"):
            with pytest.raises(infer.InferError, match="load failed for model 'm'"):
                server.load("m", config=DOCUMENT, files={"1/model.py": text.encode()})
            assert list(private_folders.iterdir()) == []
