"""Models that load, unload and ask for others of their server, and models with a word on their own readiness."""

from __future__ import annotations

import json
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http

import infer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    Serve = Any

LIMIT_S = 60
CONFIG = """
backend: "python"
input [{ name: "IN" data_type: TYPE_STRING dims: [1] }]
output [{ name: "OUT" data_type: TYPE_STRING dims: [1] }]
instance_group [{ kind: KIND_CPU count: 1 }]
"""
DOCUMENT: dict[str, Any] = {
    "backend": "python",
    "input": [{"name": "IN", "data_type": "TYPE_STRING", "dims": [1]}],
    "output": [{"name": "OUT", "data_type": "TYPE_STRING", "dims": [1]}],
    "instance_group": [{"kind": "KIND_CPU", "count": 1}],
}
HEADER = """
import asyncio, json, os, sys
import numpy as np
import triton_python_backend_utils as pb_utils

def out(text):
    return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([text], np.object_))])

def tried(what):
    try:
        return repr(what())
    except (pb_utils.TritonModelException, TypeError) as exc:
        return f"{type(exc).__name__}: {exc}"
"""
RUN = """
class TritonPythonModel:
    # Answers with what the Python expression in its input gives.
    def execute(self, requests):
        text = pb_utils.get_input_tensor_by_name(requests[0], "IN").as_numpy()[0].decode()
        return [out(tried(lambda: eval(text, globals())))]
"""
WORD = """
class TritonPythonModel:
    def execute(self, requests):
        return [out(WORD)]
"""
AT_START = """
class TritonPythonModel:
    # Tries something while it is brought up, and answers with what came of it.
    def initialize(self, args):
        self.said = tried(lambda: eval(WORD, globals()))
    def execute(self, requests):
        return [out(self.said)]
"""


def source(body: str, word: object = "", ready: str = "") -> str:
    return HEADER + textwrap.dedent(body).replace("WORD", repr(word)) + textwrap.indent(textwrap.dedent(ready), "    ")


def add(repository: Path, name: str, text: str, more: str = "", version: int = 1) -> None:
    folder = repository / name / str(version)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.py").write_text(text)
    (folder.parent / "config.pbtxt").write_text(CONFIG + more)


def ask(server: infer.Server, text: str = "", model: str = "run") -> str:
    return server.infer(model, {"IN": np.array([text.encode()], np.object_)})["OUT"][0].decode()


def serve(repository: Path) -> infer.Server:
    """A server in explicit mode that serves ``run``, and would serve ``target``."""
    add(repository, "run", source(RUN))
    add(repository, "target", source(WORD, "files"))
    return infer.Server(repository, model_control_mode="explicit", load_model=("run",))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[infer.Server]:
    """A server whose repository is ``tmp_path``."""
    with serve(tmp_path) as server:
        yield server


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[infer.Server]:
    """A server that no test changes."""
    with serve(tmp_path_factory.mktemp("shared")) as server:
        yield server


def test_a_model_loads_another_asks_whether_it_is_ready_calls_it_and_unloads_it(server: infer.Server) -> None:
    unknown = "TritonModelException: Failed to check model readiness: Request for unknown model: 'target'"
    assert ask(server, "pb_utils.is_model_ready('target')").startswith(unknown)
    assert ask(server, "pb_utils.load_model(model_name='target')") == "None"
    assert ask(server, "pb_utils.is_model_ready(model_name='target', model_version='1')") == "True"
    assert ask(server, "pb_utils.is_model_ready('target', '2')").startswith(unknown)
    call = (
        "pb_utils.InferenceRequest(model_name='target', requested_output_names=[], inputs=[pb_utils.Tensor('IN', "
        "np.array([b''], np.object_))]).exec().output_tensors()[0].as_numpy()[0]"
    )
    assert ask(server, call) == "b'files'"
    assert ask(server, "pb_utils.unload_model('target')") == "None"
    assert ask(server, "pb_utils.is_model_ready('target')").startswith(unknown)
    assert ask(server, "pb_utils.unload_model('target')") == "None", "what is not there is unloaded already"


def test_a_model_loads_another_with_a_configuration_and_with_files_of_its_own(
    server: infer.Server, tmp_path: Path
) -> None:
    add(tmp_path, "target", source(WORD, "second"), version=2)
    config = json.dumps({**DOCUMENT, "version_policy": {"specific": {"versions": [1]}}})
    assert ask(server, "pb_utils.load_model('target')") == "None"
    assert ask(server, model="target") == "second"
    assert ask(server, f"pb_utils.load_model('target', {config!r})") == "None"
    assert ask(server, model="target") == "files"
    wrong = ask(server, "pb_utils.load_model('target', '{{')")
    assert wrong.startswith("TritonModelException: Failed to load model: ")
    assert "Invalid config override" in wrong
    assert ask(server, model="target") == "files", "what served still does"
    files = {"file:1/model.py": source(WORD, "given").encode()}
    assert "'config' must be specified" in ask(server, f"pb_utils.load_model('new', '', {files!r})")
    assert ask(server, f"pb_utils.load_model('new', {json.dumps(DOCUMENT)!r}, {files!r})") == "None"
    assert ask(server, model="new") == "given"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("load_model('nobody')", "TritonModelException: Failed to load model: failed to load 'nobody'"),
        ("load_model('../target')", "TritonModelException: Failed to load model: "),
        ("load_model('')", "TritonModelException: Failed to load model: "),
        ("load_model(None)", "TypeError: load_model(): incompatible argument 'model_name'"),
        ("load_model('target', None)", "TypeError: load_model(): incompatible argument 'config'"),
        ("load_model('target', '', [])", "TritonModelException: Failed to load model: files must be a dict"),
        ("load_model('target', '{}', {'1/m': b''})", "TritonModelException: Failed to load model: the key of a file"),
        ("load_model('target', '{}', {1: b''})", "TritonModelException: Failed to load model: the key of a file"),
        ("load_model('target', '{}', {'file:1/m': 1})", "TritonModelException: Failed to load model: the content of"),
        ("load_model('target', '{}', {'file:../m': b''})", "TritonModelException: Failed to load model: "),
        ("unload_model(None)", "TypeError: unload_model(): incompatible argument 'model_name'"),
        ("unload_model('target', 1)", "TypeError: unload_model(): incompatible argument 'unload_dependents'"),
        ("is_model_ready(None)", "TypeError: is_model_ready(): incompatible argument 'model_name'"),
        ("is_model_ready('run', 1)", "TypeError: is_model_ready(): incompatible argument 'model_version'"),
        ("is_model_ready('run', 'x')", "TritonModelException: Failed to check model readiness: model version 'x'"),
        ("is_model_ready('run', '-1')", "TritonModelException: Failed to check model readiness: model version '-1'"),
    ],
)
def test_a_mistake_is_named_in_the_model_that_makes_it(shared: infer.Server, call: str, words: str) -> None:
    assert ask(shared, f"pb_utils.{call}").startswith(words)
    assert ask(shared, "pb_utils.is_model_ready('run')") == "True"


def test_in_another_control_mode_a_model_loads_nothing_and_still_asks(tmp_path: Path) -> None:
    add(tmp_path, "run", source(RUN))
    with infer.Server(tmp_path) as server:
        refused = "explicit model load / unload is not allowed if polling is enabled"
        assert ask(server, "pb_utils.load_model('run')") == f"TritonModelException: Failed to load model: {refused}"
        assert ask(server, "pb_utils.unload_model('run')").endswith(f"Failed to unload model: {refused}")
        assert ask(server, "pb_utils.is_model_ready('run', '1')") == "True"


def test_a_load_that_is_made_inside_a_load_comes_to_an_end(server: infer.Server, tmp_path: Path) -> None:
    for number in range(6):
        add(tmp_path, f"chain{number}", source(AT_START, f"pb_utils.load_model('chain{number + 1}')"))
    add(tmp_path, "chain6", source(WORD, "the last"))
    with ThreadPoolExecutor(1) as pool:
        pool.submit(server.load, "chain0").result(LIMIT_S)
    assert [ask(server, model=f"chain{number}") for number in range(7)] == ["None"] * 6 + ["the last"]


def test_a_model_that_loads_or_unloads_itself_while_it_is_loaded_is_told_so_and_comes_up(
    server: infer.Server, tmp_path: Path
) -> None:
    words = "'{0}' is being loaded, and this would wait for that load to end: '{0}' → '{0}'"
    for name, call in (("a", "load_model('a')"), ("b", "unload_model('b')")):
        add(tmp_path, name, source(AT_START, f"pb_utils.{call}"))
        with ThreadPoolExecutor(1) as pool:
            pool.submit(server.load, name).result(LIMIT_S)
        assert ask(server, model=name).endswith(words.format(name))


def test_models_that_load_each_other_are_told_the_way_and_come_up(server: infer.Server, tmp_path: Path) -> None:
    add(tmp_path, "a", source(AT_START, "pb_utils.load_model('b')"))
    add(tmp_path, "b", source(AT_START, "pb_utils.load_model('a')"))
    with ThreadPoolExecutor(1) as pool:
        pool.submit(server.load, "a").result(LIMIT_S)
    assert ask(server, model="a") == "None"
    assert ask(server, model="b").endswith("'b' → 'a' → 'b'")


def test_a_model_that_loads_or_unloads_itself_while_it_executes_answers_first(
    server: infer.Server, tmp_path: Path
) -> None:
    (tmp_path / "run" / "1" / "model.py").write_text(source(RUN) + "# changed\n")
    assert ask(server, "pb_utils.load_model('run')") == "None"
    assert ask(server, "pb_utils.is_model_ready('run')") == "True"
    assert ask(server, "pb_utils.unload_model('run')") == "None"
    assert not server.is_model_ready("run")


def test_a_coroutine_of_a_model_and_a_fork_of_it_load_models_too(server: infer.Server) -> None:
    code = "asyncio.run(asyncio.to_thread(pb_utils.load_model, 'target'))"
    assert ask(server, code) == "None"
    fork = "__import__('multiprocessing').get_context('fork').Pool(1).apply(pb_utils.is_model_ready, ('target',))"
    assert ask(server, fork) == "True"


def test_auto_complete_config_and_finalize_load_nothing(server: infer.Server, tmp_path: Path) -> None:
    late = """
class TritonPythonModel:
    def execute(self, requests):
        return [out("")]
    def finalize(self):
        with open(WORD, "w") as file:
            file.write(tried(lambda: pb_utils.load_model("target")))
"""
    add(tmp_path, "late", source(late, str(tmp_path / "said")))
    server.load("late")
    server.unload("late")
    sentence = "load_model() is not available in finalize: call it in initialize or execute"
    assert (tmp_path / "said").read_text() == f"TritonModelException: {sentence}"
    early = """
class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        pb_utils.is_model_ready("target")
        return config
    def execute(self, requests):
        return [out("")]
"""
    add(tmp_path, "early", source(early))
    with pytest.raises(infer.InferError, match=r"is_model_ready\(\) is not available in auto_complete_config"):
        server.load("early")


def test_a_server_that_stops_does_not_wait_for_a_model_that_waits_for_a_load(tmp_path: Path) -> None:
    for_ever = """
class TritonPythonModel:
    def initialize(self, args):
        open(WORD, "w").close()
        __import__("threading").Event().wait()
"""
    started = tmp_path / "started"
    add(tmp_path, "run", source(RUN))
    add(tmp_path, "stuck", source(for_ever, str(started)))
    settings = {"model_control_mode": "explicit", "load_model": ("run",), "exit_timeout_secs": 0}
    errors: list[BaseException] = []

    def client(server: infer.Server) -> None:
        try:
            ask(server, "pb_utils.load_model('stuck')")
        except infer.InferError as exc:
            errors.append(exc)

    with infer.Server(tmp_path, **settings) as server:
        thread = threading.Thread(target=client, args=(server,))
        thread.start()
        wait = threading.Event()
        while not started.exists():
            wait.wait(0.01)
    thread.join(LIMIT_S)
    assert not thread.is_alive()
    assert errors


# -- is_ready -----------------------------------------------------------------------------------------------------

NOT_READY = "\ndef is_ready(self):\n    return False\n"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Models that say yes and no when they are asked whether they are ready, and one that calls others."""
    add(tmp_path, "run", source(RUN))
    add(tmp_path, "no", source(WORD, "answers", NOT_READY))
    add(tmp_path, "yes", source(WORD, "answers", NOT_READY.replace("False", "True")))
    return tmp_path


@pytest.mark.parametrize("strict", [True, False])
def test_every_door_asks_the_model_and_the_server_is_as_ready_as_all_of_them_where_it_is_strict(
    repository: Path, serve: Serve, strict: bool
) -> None:
    with serve(repository, strict_readiness=strict) as server:
        assert server.http_address is not None
        assert server.grpc_address is not None
        http, grpc = (":".join(map(str, each)) for each in (server.http_address, server.grpc_address))
        with tritonclient.http.InferenceServerClient(http) as client:
            answers = [[client.is_model_ready(name) for name in ("yes", "no", "nobody")], client.is_server_ready()]
            value = tritonclient.http.InferInput("IN", [1], "BYTES")
            value.set_data_from_numpy(np.array([b""], np.object_))
            assert client.infer("no", [value]).as_numpy("OUT")[0] == b"answers", "who is not ready still answers"
        assert answers == [[True, False, False], not strict]
        with tritonclient.grpc.InferenceServerClient(grpc) as client:
            answers = [[client.is_model_ready(name) for name in ("yes", "no", "nobody")], client.is_server_ready()]
        assert answers == [[True, False, False], not strict]


def test_a_model_that_says_it_is_not_ready_is_called_by_no_other_and_the_error_says_so(repository: Path) -> None:
    call = (
        "pb_utils.InferenceRequest(model_name={!r}, requested_output_names=[], inputs=[pb_utils.Tensor('IN', "
        "np.array([b''], np.object_))]).exec()"
    )
    with infer.Server(repository) as server:
        assert ask(server, "pb_utils.is_model_ready('yes')") == "True"
        assert ask(server, "pb_utils.is_model_ready('no')") == "False"
        assert ask(server, call.format("yes") + ".output_tensors()[0].as_numpy()[0]") == "b'answers'"
        assert "Model 'no' version 1 is not ready" in ask(server, call.format("no") + ".error().message()")
        same = ask(server, f"{call.format('no')}.error().code() == pb_utils.TritonError.UNAVAILABLE")
        assert same == "True"
        assert not server.is_model_ready("no")
        assert server.is_model_ready("yes")
        assert ask(server, model="no") == "answers"


def test_all_instances_of_a_model_must_say_yes(tmp_path: Path) -> None:
    word = NOT_READY.replace("return False", "return self.name.endswith('_0')")
    first = "\ndef initialize(self, args):\n    self.name = args['model_instance_name']\n"
    for count in (1, 2):
        more = f"instance_group [{{ kind: KIND_CPU count: {count} }}]"
        add(tmp_path, f"of{count}", source(WORD, "", first + word))
        config = tmp_path / f"of{count}" / "config.pbtxt"
        config.write_text("\n".join(line for line in CONFIG.splitlines() if "instance_group" not in line) + "\n" + more)
    with infer.Server(tmp_path) as server:
        assert server.is_model_ready("of1")
        assert not server.is_model_ready("of2")
