"""`infer.Server` is the whole server inside a program."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest

import infer

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = """
backend: "identity"
input [{ name: "INPUT0" data_type: TYPE_STRING dims: [-1] }]
output [{ name: "OUTPUT0" data_type: TYPE_STRING dims: [-1] }]
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "echo" / "1").mkdir(parents=True)
    (tmp_path / "echo" / "config.pbtxt").write_text(CONFIG)
    return tmp_path


def test_it_serves_numpy_arrays_and_ends_all_its_threads(repository: Path) -> None:
    before = set(threading.enumerate())
    text = np.array([b"one", b"", b"\xff\0"], dtype=object)
    with infer.Server(repository) as server:
        assert server.ready
        result = server.infer("echo", {"INPUT0": text}, request_id="7")
        assert result["OUTPUT0"].tolist() == text.tolist()
        assert server.statistics("echo")[0].success.count == 1
    assert set(threading.enumerate()) == before


def test_errors_are_raised_with_their_code(repository: Path) -> None:
    with infer.Server([repository]) as server:
        with pytest.raises(infer.InferError, match="'nope' is not found"):
            server.infer("nope", {})
        with pytest.raises(infer.InferError, match="data-type is 'FP32', but model 'echo' expects 'BYTES'"):
            server.infer("echo", {"INPUT0": np.zeros(1, np.float32)})


def test_a_stream_of_a_model_that_is_not_decoupled_has_one_response(repository: Path) -> None:
    with infer.Server(repository) as server:
        text = np.array([b"x"], dtype=object)
        assert [result["OUTPUT0"].tolist() for result in server.stream("echo", {"INPUT0": text})] == [[b"x"]]


def test_models_are_loaded_and_unloaded_by_name(repository: Path) -> None:
    with infer.Server(str(repository), model_control_mode="explicit") as server:
        assert server.index()[0].state == ""
        server.load("echo")
        assert server.is_model_ready("echo")
        server.unload("echo")
        assert not server.is_model_ready("echo")


def test_a_load_takes_a_configuration_as_text_or_fields_and_files_as_bytes_or_paths(repository: Path) -> None:
    tensors = {"data_type": "TYPE_STRING", "dims": [1]}
    fields: dict[str, object] = {
        "backend": "identity",
        "input": [{"name": "INPUT0", **tensors}],
        "output": [{"name": "OUTPUT0", **tensors}],
    }
    (repository / "local").write_text("x")
    with infer.Server(repository) as server:
        server.load("echo", config=fields)
        with pytest.raises(infer.InferError, match="unexpected shape"):
            server.infer("echo", {"INPUT0": np.array([b"a", b"b"], dtype=object)})
        server.load("echo", config=json.dumps(fields), files={"7/a": b"", "file:8/b": repository / "local"})
        assert [entry.version for entry in server.index() if entry.state == "READY"] == ["8"]
        with pytest.raises(FileNotFoundError):
            server.load("echo", config=fields, files={"1/a": repository / "gone"})
        with pytest.raises(infer.InferError, match="Invalid config override: unknown field"):
            server.load("echo", config={"backend": "identity", "colour": "red"})
        assert server.is_model_ready("echo", 8)


def test_a_failed_start_raises_the_reason_and_leaves_nothing(repository: Path) -> None:
    before = set(threading.enumerate())
    (repository / "echo" / "config.pbtxt").write_text("nonsense")
    with pytest.raises(infer.InferError, match=r"failed to load all models: .*config.pbtxt:1"):
        infer.Server(repository).start()
    with infer.Server(repository, exit_on_error=False) as server:
        assert not server.ready
    assert set(threading.enumerate()) == before


def test_a_server_that_does_not_run_says_what_to_do() -> None:
    with pytest.raises(RuntimeError, match="use it as a context manager, or call start"):
        infer.Server("anywhere").index()


SQUARE = """
backend: "square"
model_transaction_policy { decoupled: true }
input [{ name: "IN" data_type: TYPE_INT32 dims: [1] }]
output [{ name: "OUT" data_type: TYPE_INT32 dims: [1] }]
"""


def test_a_stream_that_is_not_read_keeps_its_model_waiting_and_comes_whole_when_it_is(tmp_path: Path) -> None:
    (tmp_path / "square" / "1").mkdir(parents=True)
    (tmp_path / "square" / "config.pbtxt").write_text(SQUARE)
    with infer.Server(tmp_path) as server:
        results = server.stream("square", {"IN": np.array([2000], np.int32)})
        next(results)
        # Another request, answered in turn: by then the first one has had the loop for itself.
        assert len(list(server.stream("square", {"IN": np.array([1], np.int32)}))) == 1
        assert results._inbox._queue.qsize() < 200
        assert sum(1 for _ in results) == 1999
