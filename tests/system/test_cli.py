"""The command line, as a person and a script meet it: real processes, a real server."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from tests.conftest import RunInfer, ServerProcess, StartServer

NUMBERS = list(range(16))

ECHO = """
backend: "identity"
input [{ name: "INPUT0" data_type: TYPE_FP32 dims: [-1] }]
output [{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [-1] }]
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """One model that works and one that does not."""
    for name, config in (("echo", ECHO), ("broken", 'backend: "nobody"\n')):
        (tmp_path / name / "1").mkdir(parents=True)
        (tmp_path / name / "config.pbtxt").write_text(config)
    return tmp_path


@pytest.fixture(scope="module")
def samples(start_module_server: StartServer) -> ServerProcess:
    """A server on the sample models, for tests that leave it running."""
    return start_module_server(verb="up")


@pytest.fixture
def command() -> list[str]:
    """The command under test, for tests that need its process."""
    return [str(Path(sys.executable).parent / "infer")]


def test_help_and_version_answer(run_infer: RunInfer) -> None:
    assert "Usage: infer" in run_infer("--help").stdout
    assert run_infer("version", "-o", "name").stdout.strip()
    assert json.loads(run_infer("version", "-o", "json").stdout)["infer"]


def test_serve_help_lists_every_group_and_ends_with_one_as_tritons_does(run_infer: RunInfer) -> None:
    done = run_infer("serve", "--help")
    assert (done.returncode, done.stdout) == (1, "")
    assert "--grpc-infer-thread-count" in done.stderr
    assert "Model Repository:" in done.stderr


@pytest.mark.parametrize(
    ("words", "phrase"),
    [
        (["--no-such-flag"], 'Bad option: "--no-such-flag"'),
        (["--http-port=x"], 'Bad option: "--http-port"'),
        (["stray"], "Unexpected argument"),
        (["--", "stray"], "Unexpected argument"),
        ([], "--model-repository DIR"),
    ],
)
def test_a_bad_command_line_is_usage_then_the_reason_and_status_one(
    run_infer: RunInfer, words: list[str], phrase: str
) -> None:
    done = run_infer("serve", *words)
    assert done.returncode == 1
    assert done.stderr.startswith("Usage: infer serve")
    assert phrase in done.stderr[-200:]


@pytest.mark.parametrize("words", [["nonsense"], ["model", "nonsense"], ["model", "list", "--nonsense"]])
def test_a_usage_error_of_another_command_is_two(run_infer: RunInfer, words: list[str]) -> None:
    assert run_infer(*words).returncode == 2


def test_nobody_there_is_six_and_three_lines(run_infer: RunInfer) -> None:
    done = run_infer("model", "list", "--url", "http://127.0.0.1:9")
    assert (done.returncode, done.stdout) == (6, "")
    assert [line.split(":")[0].strip() for line in done.stderr.splitlines()] == ["error", "why", "fix"]


def test_up_shows_what_it_serves_and_a_command_that_works(samples: ServerProcess) -> None:
    assert ["simple", "1", "READY"] in [line.split() for line in samples.lines]
    assert samples.lines[-1] == samples.example
    done = subprocess.run(["bash", "-c", samples.example], capture_output=True, text=True, timeout=30, check=True)
    assert json.loads(done.stdout)["model_name"] == "simple"


def test_models_are_shown_from_the_command_line(samples: ServerProcess, run_infer: RunInfer) -> None:
    url = ["--url", samples.operator]
    assert "simple" in run_infer("model", "list", "-o", "name", *url).stdout.split()
    assert run_infer("model", "ready", "simple", *url).returncode == 0
    assert run_infer("model", "ready", "nobody", *url).returncode == 3
    assert "INPUT0   input      INT32     [-1, 16]" in run_infer("model", "metadata", "simple", *url).stdout
    assert run_infer("model", "metadata", "nobody", *url).returncode == 3
    assert json.loads(run_infer("model", "config", "simple", *url).stdout)["max_batch_size"] == 8
    statistics = json.loads(run_infer("model", "stats", "simple", "-o", "json", *url).stdout)
    assert statistics["model_stats"][0]["name"] == "simple"
    assert run_infer("model", "stats", *url).stdout.startswith("MODEL")
    assert run_infer("model", "stats", "nobody", *url).returncode == 3


def test_a_model_is_called_from_literals_a_file_and_standard_input(
    samples: ServerProcess, run_infer: RunInfer, tmp_path: Path
) -> None:
    url = ["--url", samples.http]
    np.save(tmp_path / "ones.npy", np.ones((1, 16), np.int32))
    done = run_infer(
        "call", "simple", "-i", f"INPUT0={NUMBERS}", "-i", f"INPUT1=@{tmp_path / 'ones.npy'}", "--curl", *url
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "OUTPUT0  INT32 [1, 16]"
    repeated = subprocess.run(["bash", "-c", done.stderr], capture_output=True, text=True, timeout=30, check=True)
    sums = [number + 1 for number in NUMBERS]
    assert json.loads(repeated.stdout)["outputs"][0]["data"] == sums
    done = run_infer("call", "simple", "-o", "json", *url, stdin=json.dumps({"INPUT0": NUMBERS, "INPUT1": [1] * 16}))
    assert json.loads(done.stdout)["outputs"][0]["data"] == sums
    failed = run_infer("call", "simple", "-i", f"INPUT0={NUMBERS}", *url)
    assert failed.returncode == 1
    assert "INPUT1" in failed.stderr or "2 inputs" in failed.stderr
    assert run_infer("call", "nobody", "-i", "X=1", *url).returncode == 3


def test_models_are_loaded_and_unloaded_from_the_command_line_in_every_control_mode(
    start_server: StartServer, repository: Path, run_infer: RunInfer
) -> None:
    server = start_server("--model-repository", str(repository), "--exit-on-error=false")
    url = ["--url", server.operator]
    assert run_infer("model", "unload", "echo", *url).stdout == "echo  version 1 UNAVAILABLE: unloaded\n"
    assert run_infer("model", "load", "echo", *url).stdout == "echo  version 1 READY\n"
    failed = run_infer("model", "load", "broken", *url)
    assert failed.returncode == 1
    assert "nobody" in failed.stderr
    assert run_infer("model", "load", "nowhere", *url).returncode == 3
    config, file = str(repository / "echo" / "config.pbtxt"), f"4/any.bin={repository / 'echo' / 'config.pbtxt'}"
    done = run_infer("model", "load", "new", "--config", config, "--file", file, *url)
    assert (done.returncode, done.stdout) == (0, "new  version 4 READY\n")
    assert server.stop() == 0


def test_a_broken_model_ends_the_server_with_one_and_its_reason(start_server: StartServer, repository: Path) -> None:
    server = start_server("--model-repository", str(repository), wait=False)
    assert server.join() == 1
    assert "broken" in server.log
    assert "nobody" in server.log


def test_a_broken_model_is_shown_and_the_others_serve_where_that_is_asked_for(
    start_server: StartServer, repository: Path, run_infer: RunInfer
) -> None:
    server = start_server("--model-repository", str(repository), "--exit-on-error=false")
    url = ["--url", server.operator]
    done = run_infer("model", "ready", "broken", *url)
    assert done.returncode == 4
    assert "nobody" in done.stderr
    assert run_infer("model", "ready", "echo", *url).returncode == 0
    assert server.stop() == 0


def test_a_server_says_once_which_flags_it_does_not_act_on(start_server: StartServer, repository: Path) -> None:
    server = start_server(
        f"--model-repository={repository}", "--exit-on-error=false", "--rate-limit=off", "--cache-directory=x"
    )
    assert server.log.count("not acted on yet") == 1
    assert "--rate-limit, --cache-directory" in server.log


def test_json_logs_are_an_object_a_line(start_server: StartServer, repository: Path) -> None:
    server = start_server(f"--model-repository={repository}", "--log-format=json", wait=False)
    server.join()
    assert server.lines
    assert all("message" in json.loads(line) for line in server.lines)


@pytest.mark.parametrize("flag", ["--http-port", "--grpc-port"])
def test_a_taken_port_ends_the_server_with_one_and_its_number(
    start_server: StartServer, repository: Path, flag: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = start_server(f"--model-repository={repository}", f"{flag}={port}", wait=False)
        assert server.join() == 1
    assert f"127.0.0.1:{port} " in server.log
    assert "already in use" in server.log
    assert flag in server.log


def test_a_repository_that_is_none_ends_the_server_with_one(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server(f"--model-repository={tmp_path / 'nowhere'}", wait=False)
    assert server.join() == 1
    assert "nowhere" in server.log
    assert "Traceback" not in server.log


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_a_signal_ends_the_server_with_zero_and_nothing_is_left_behind(
    start_server: StartServer, number: signal.Signals, root: Path, tmp_path: Path
) -> None:
    shutil.copytree(root / "model_repository" / "simple", tmp_path / "simple")
    server = start_server("--model-repository", str(tmp_path), verb="up")
    assert len(server.processes()) > 1, "the sample in Python has a worker process"
    assert server.stop(number) == 0
    assert server.lines[-1].endswith('"stopped"')
    assert not [path for path in Path("/dev/shm").iterdir() if "infer" in path.name]


SLOW = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            count = 0
            while not sender.is_cancelled():
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", np.array([count], np.float32))]))
                count += 1
            open(r"{}", "w").close()
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
SLOW_CONFIG = """
backend: "python"
model_transaction_policy { decoupled: true }
input [{ name: "INPUT0" data_type: TYPE_FP32 dims: [1] }]
output [{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [1] }]
"""


def test_ctrl_c_ends_a_stream_with_130_and_cancels_the_call(
    start_server: StartServer, tmp_path: Path, command: list[str]
) -> None:
    model = tmp_path / "repository" / "endless" / "1"
    model.mkdir(parents=True)
    (model / "model.py").write_text(SLOW.format(tmp_path / "cancelled"))
    (model.parent / "config.pbtxt").write_text(SLOW_CONFIG)
    server = start_server(f"--model-repository={tmp_path / 'repository'}", "--model-control-mode=none")
    grpc = next(line.split()[1] for line in server.lines if line.startswith("grpc "))
    words = ["call", "endless", "-i", "INPUT0=[1]", "--stream", "-o", "json", "--url", server.http, "--grpc-url", grpc]
    with subprocess.Popen([*command, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["outputs"][0]["data"] == [0.0]
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=30)
    assert (process.returncode, error) == (130, "")
    assert server.stop() == 0
    assert (tmp_path / "cancelled").exists()


def test_a_reader_that_goes_away_early_is_no_failure(samples: ServerProcess, command: list[str]) -> None:
    words = [*command, "model", "config", "simple", "--url", samples.operator]
    line = f"set -o pipefail; {' '.join(words)} | head -c 1"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "{", "")


@pytest.mark.parametrize("buffering", ["", "1"], ids=["at the end", "while it prints"])
def test_an_output_that_nobody_reads_is_no_failure(samples: ServerProcess, command: list[str], buffering: str) -> None:
    read, write = os.pipe()
    os.close(read)
    words = [*command, "model", "config", "simple", "--url", samples.operator]
    environment = {**os.environ, "PYTHONUNBUFFERED": buffering}
    with os.fdopen(write, "wb") as nobody:
        done = subprocess.run(words, stdout=nobody, stderr=subprocess.PIPE, timeout=30, check=False, env=environment)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(("words", "offered"), [("infer model load si", "simple"), ("infer ca", "call")])
def test_a_shell_is_offered_commands_and_live_model_names(
    samples: ServerProcess, command: list[str], words: str, offered: str
) -> None:
    environment = os.environ | {
        "INFER_URL": samples.operator,
        "_INFER_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False, env=environment)
    assert (done.stdout.split(), done.stderr) == ([offered], "")


def test_several_changes_of_which_some_fail_are_seven(samples: ServerProcess, run_infer: RunInfer) -> None:
    done = run_infer("model", "load", "simple", "nowhere", "--url", samples.operator)
    assert done.returncode == 7
    assert ["simple", "ok", "version", "1", "READY"] in [line.split() for line in done.stdout.splitlines()]
    assert "load failed for 1 of 2 models" in done.stderr


def test_a_change_over_the_network_without_the_key_is_five(samples: ServerProcess, command: list[str]) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "INFER_CONTROL_KEY"}
    words = [*command, "model", "load", "simple", "--url", samples.operator]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False, env=environment)
    assert done.returncode == 5
    assert "infer config view --origin" in done.stderr
