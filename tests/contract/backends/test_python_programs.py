"""Python-based backends and the life of Python models in a whole server: names, failures, readiness."""

from __future__ import annotations

import json
import os
import signal
import textwrap
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pytest

import infer
from infer.backends.api.errors import InferError
from infer.tests.conftest import eventually

if TYPE_CHECKING:
    from pathlib import Path

LIMIT_S = 20
TENSORS = """
input [ { name: "IN" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "OUT" data_type: TYPE_STRING dims: [ -1 ] } ]
"""
ENGINE = """
import json
import os
import sys

import numpy as np
import triton_python_backend_utils as pb_utils
from helpers.words import WORD


class TritonPythonModel:
    @classmethod
    def auto_complete_config(cls, auto_complete_model_config):
        with open(os.path.join(pb_utils.get_model_dir(), "model.json")) as file:
            cls.data = json.load(file)
        auto_complete_model_config.set_max_batch_size(cls.data.get("batch", 0))
        auto_complete_model_config.add_input({"name": "IN", "data_type": "TYPE_FP32", "dims": [1], "optional": False})
        auto_complete_model_config.add_output({"name": "OUT", "data_type": "TYPE_STRING", "dims": [-1]})
        auto_complete_model_config.set_model_transaction_policy(dict(decoupled=False))
        return auto_complete_model_config

    def initialize(self, args):
        with open(os.path.join(pb_utils.get_model_dir(), "model.json")) as file:
            self.data = json.load(file)
        import model
        runtime = json.loads(args["model_config"])["runtime"]
        path = [os.path.basename(each) for each in sys.path[-2:]]
        self.facts = [self.data["name"], WORD, __name__, str(model is sys.modules[__name__]), runtime, *path,
                      os.path.basename(pb_utils.get_model_dir())]

    def execute(self, requests):
        out = pb_utils.Tensor("OUT", np.array(self.facts, dtype=np.object_))
        return [pb_utils.InferenceResponse([out]) for _ in requests]
"""
IN = {"IN": np.zeros(1, np.float32)}


class Folders:
    """A repository and a backend directory."""

    def __init__(self, root: Path) -> None:
        self.repository = root / "models"
        self.backends = root / "backends"
        self.repository.mkdir()
        self.backends.mkdir()

    def program(self, name: str, filename: str = "model.py") -> None:
        """Write a Python-based backend."""
        folder = self.backends / name
        (folder / "helpers").mkdir(parents=True, exist_ok=True)
        (folder / "helpers" / "words.py").write_text(f"WORD = 'a word of {name}'\n")
        (folder / filename).write_text(ENGINE)

    def model(self, name: str, config: str, *versions: int, source: str = "") -> None:
        """Write a model: with data for a program, or with its own source."""
        for version in versions or (1,):
            folder = self.repository / name / str(version)
            folder.mkdir(parents=True)
            (folder / "model.json").write_text(json.dumps({"name": f"{name} {version}"}))
            if source:
                (folder / "model.py").write_text(textwrap.dedent(source))
        (self.repository / name / "config.pbtxt").write_text(config)

    def server(self, **settings: Any) -> infer.Server:
        """A server of both."""
        return infer.Server(self.repository, backend_directory=self.backends, exit_on_error=False, **settings)


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path)


def facts(server: infer.Server, model: str, version: int | None = None) -> list[str]:
    return [each.decode() for each in server.infer(model, IN, model_version=version)["OUT"]]


def reasons(server: infer.Server) -> dict[str, str]:
    return {entry.name: entry.reason for entry in server.index()}


# -- backends that are a model.py -----------------------------------------------------------------------------------


def test_one_program_serves_every_model_of_its_backend_each_version_with_its_own_data(folders: Folders) -> None:
    folders.program("wordy")
    folders.model("one", 'backend: "wordy"\nversion_policy: { all {} }\n', 1, 2)
    folders.model("other", 'backend: "wordy"\nruntime: "model.py"\n')
    with folders.server() as server:
        assert reasons(server) == {"one": "", "other": ""}
        expected = ["a word of wordy", "model", "True", "model.py", "wordy", "worker"]
        assert facts(server, "one", 1) == ["one 1", *expected, "1"]
        assert facts(server, "one", 2) == ["one 2", *expected, "2"]
        assert facts(server, "other") == ["other 1", *expected, "1"]


def test_a_runtime_names_another_program_of_the_same_backend(folders: Folders) -> None:
    folders.program("wordy", "second.py")
    folders.model("m", f'backend: "wordy"\nruntime: "second.py"\n{TENSORS}')
    with folders.server() as server:
        assert "No module named 'model'" in reasons(server)["m"]
        (folders.backends / "wordy" / "second.py").write_text(ENGINE.replace("import model", "import second as model"))
        server.load("m")
        assert facts(server, "m")[2:5] == ["second", "True", "second.py"]


def test_a_runtime_that_is_not_there_and_an_unknown_backend_are_invalid_with_the_way_out(folders: Folders) -> None:
    folders.program("wordy")
    folders.model("library", f'backend: "wordy"\nruntime: "libtriton_wordy.so"\n{TENSORS}')
    folders.model("unknown", f'backend: "nobody"\n{TENSORS}')
    folders.model("escapes", f'backend: "../backends/wordy"\n{TENSORS}')
    with folders.server() as server:
        found = reasons(server)
        assert found["library"].startswith("Invalid argument: unable to find backend library for backend 'wordy'")
        assert "try specifying runtime on the model configuration" in found["library"]
        assert found["unknown"].startswith("Invalid argument: unable to find backend library for backend 'nobody'")
        assert f"there is no '{folders.backends / 'nobody' / 'model.py'}' either" in found["unknown"]
        assert found["escapes"].startswith("Invalid argument: unable to find backend library")


def test_a_backend_of_ours_is_not_replaced_by_a_folder_of_its_name(folders: Folders) -> None:
    folders.program("identity")
    config = 'input [{ name: "INPUT0" data_type: TYPE_FP32 dims: [1] }] '
    config += 'output [{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [1] }]'
    folders.model("m", f'backend: "identity"\n{config}')
    with folders.server() as server:
        assert server.infer("m", {"INPUT0": np.ones(1, np.float32)})["OUTPUT0"].tolist() == [1.0]


def test_an_environment_beside_the_program_is_picked_up(folders: Folders) -> None:
    folders.program("wordy")
    (folders.backends / "wordy" / "pb_exec_env_model.py.tar.gz").write_bytes(b"no archive")
    folders.model("m", 'backend: "wordy"\n')
    with folders.server() as server:
        archive = folders.backends / "wordy" / "pb_exec_env_model.py.tar.gz"
        assert f"execution environment '{archive}' cannot be unpacked" in reasons(server)["m"]


# -- options --------------------------------------------------------------------------------------------------------


def test_an_option_out_of_its_range_fails_the_load_as_an_invalid_argument(folders: Folders) -> None:
    folders.model("m", f'backend: "python"\n{TENSORS}', source="class TritonPythonModel:\n    pass\n")
    with folders.server(backend_config={"python": {"shm-default-byte-size": "1000"}}) as server:
        reason = reasons(server)["m"]
        assert reason.startswith("Invalid argument: --backend-config=python,shm-default-byte-size=1000 is not")
        with pytest.raises(InferError, match="at least 1048576"):
            server.load("m")


# -- instances ------------------------------------------------------------------------------------------------------


def test_every_instance_knows_its_name_kind_and_device_and_all_of_them_serve(folders: Folders) -> None:  # CASE-10
    source = """
        import threading
        import numpy as np
        import triton_python_backend_utils as pb_utils
        class TritonPythonModel:
            def initialize(self, args):
                keys = ("model_instance_name", "model_instance_kind", "model_instance_device_id")
                self.facts = [args[key] for key in keys]
            def execute(self, requests):
                threading.Event().wait(0.01)
                out = pb_utils.Tensor("OUT", np.array(self.facts, dtype=np.object_))
                return [pb_utils.InferenceResponse([out]) for _ in requests]
    """
    groups = "instance_group [ { kind: KIND_CPU count: 1 }, { kind: KIND_MODEL count: 2 } ]"
    folders.model("m", f'backend: "python"\n{TENSORS}{groups}', source=source)
    with folders.server() as server, ThreadPoolExecutor(60) as clients:
        answers = set(clients.map(lambda _: tuple(facts(server, "m")), range(60)))
    assert answers == {("m_0_0", "CPU", "0"), ("m_1_0", "MODEL", "0"), ("m_1_1", "MODEL", "0")}


def test_globals_of_instances_are_apart_and_finalize_runs_once_in_each(folders: Folders, tmp_path: Path) -> None:
    source = f"""
        import os
        import numpy as np
        import triton_python_backend_utils as pb_utils
        COUNT = []
        class TritonPythonModel:
            def initialize(self, args):
                COUNT.append(args["model_instance_name"])
            def finalize(self):
                with open({str(tmp_path / "finalised")!r}, "a") as file:
                    file.write(",".join(COUNT) + " ")
    """
    group = "instance_group [ { kind: KIND_CPU count: 3 } ]"
    folders.model("m", f'backend: "python"\n{TENSORS}{group}', source=source)
    with folders.server():
        pass
    assert sorted((tmp_path / "finalised").read_text().split()) == ["m_0_0", "m_0_1", "m_0_2"]


# -- failures -------------------------------------------------------------------------------------------------------


def test_a_missing_import_is_in_the_index_with_module_file_and_line_and_others_serve(  # CASE-06
    folders: Folders,
) -> None:
    folders.model("good", 'backend: "wordy"\n')
    folders.program("wordy")
    folders.model("bad", f'backend: "python"\n{TENSORS}', source="import os\nimport no_such_module\n")
    with folders.server() as server:
        reason = reasons(server)["bad"]
        assert "ModuleNotFoundError: No module named 'no_such_module'" in reason
        assert f"{folders.repository / 'bad' / '1' / 'model.py'}(2): <module>" in reason
        assert facts(server, "good")[0] == "good 1"
    strict = infer.Server(folders.repository, backend_directory=folders.backends)
    with pytest.raises(InferError, match="no_such_module"):
        strict.start()


def test_a_missing_file_is_named_with_its_full_path_with_and_without_auto_completion(folders: Folders) -> None:
    folders.model("m", f'backend: "python"\n{TENSORS}')
    expected = f"Python model file not found in '{folders.repository / 'm' / '1' / 'model.py'}'"
    for auto_complete in (True, False):
        with folders.server(auto_complete_config=auto_complete) as server:
            assert expected in reasons(server)["m"]


def test_a_worker_that_is_not_started_again_makes_model_and_server_not_ready_with_a_reason(  # CASE-03
    folders: Folders,
) -> None:
    folders.program("wordy")
    folders.model("m", 'backend: "wordy"\n')
    with folders.server(backend_config={"python": {"restart-attempts": "0"}}) as server:
        assert server.ready
        (worker,) = [each for each in psutil.Process().children(recursive=True) if each.name().startswith("infer:m_0")]
        os.kill(worker.pid, signal.SIGKILL)
        eventually("the model is not ready", lambda: not server.is_model_ready("m"))
        assert not server.ready
        eventually("the index says why", lambda: "killed by signal 9" in reasons(server)["m"])
        with pytest.raises(InferError, match="is not at ready state"):
            server.infer("m", IN)
