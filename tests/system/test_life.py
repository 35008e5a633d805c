"""The life of a server that is run from a terminal: started, attached to, left, looked at, stopped, and never lost."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from infer.app.registry import Record, Registry
from infer.tests.conftest import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.slow

COMMAND = str(Path(sys.executable).parent / "infer")
LIMIT_S = 60
PORTS = ["--http-address=127.0.0.1", "--http-port=0", "--grpc-port=0", "--metrics-port=0"]

ECHO = """
backend: "identity"
input [{ name: "INPUT0" data_type: TYPE_FP32 dims: [-1] }]
output [{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [-1] }]
"""

WAITS = """
import json, pathlib, time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        folder = pathlib.Path(__file__).parent
        (folder / "executing").touch()
        while not (folder / "go").exists():
            time.sleep(0.01)
        return [pb_utils.InferenceResponse([]) for _ in requests]
"""

NOISY = """
import threading, time

class TritonPythonModel:
    def initialize(self, args):
        threading.Thread(target=self.talk, daemon=True).start()

    def talk(self):
        while True:
            print("a line", flush=True)
            time.sleep(0.02)

    def execute(self, requests):
        return []
"""

SLOW = """
import threading

class TritonPythonModel:
    def initialize(self, args):
        threading.Event().wait()
"""

BODY = json.dumps({"inputs": [{"name": "INPUT0", "shape": [1], "datatype": "FP32", "data": [1.5]}]}).encode()


def is_gone(pid: int) -> bool:
    """Whether a process has ended; its parent may not have asked how yet."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


class Home:
    """The folders of a user who is nobody else, and the commands that this user runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.registry = Registry(folder / "run")
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("INFER_")},
            "INFER_RUN_DIR": str(self.registry.folder),
            "INFER_STATE_DIR": str(folder / "state"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "TERM": "xterm-256color",
        }
        self.models = folder / "models"
        self.add("echo", ECHO)

    def add(self, name: str, config: str, code: str = "") -> Path:
        """Put a model into the repository; its version's folder."""
        version = self.models / name / "1"
        version.mkdir(parents=True)
        (self.models / name / "config.pbtxt").write_text(config)
        if code:
            (version / "model.py").write_text(code)
        return version

    @property
    def serving(self) -> list[str]:
        """The flags of a server on the repository."""
        return [*PORTS, f"--model-repository={self.models}"]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command, run to its end without a terminal."""
        return subprocess.run(
            [COMMAND, *words], env=self.environment, capture_output=True, text=True, timeout=LIMIT_S, check=False,
            stdin=subprocess.DEVNULL, cwd=self.folder,
        )  # fmt: skip

    def start(self, *words: str) -> subprocess.Popen[str]:
        """A command without a terminal, while it runs."""
        return subprocess.Popen(
            [COMMAND, *words], env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, cwd=self.folder,
        )  # fmt: skip

    def server(self, name: str = "default") -> Record:
        """The record of a server that serves."""
        found: Record = eventually(f"'{name}' serves", lambda: self._served(name))
        return found

    def _served(self, name: str) -> Record | None:
        record = self.registry.find(name)
        return record if record is not None and record.start_page else None

    def close(self) -> None:
        """End every server that is left."""
        for record in self.registry.live():
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(record.pid)
                family = [process, *process.children(recursive=True)]
                process.kill()
                psutil.wait_procs(family, timeout=LIMIT_S)


class Terminal:
    """A pseudo terminal with a command in a session of its own, which it controls."""

    def __init__(self, home: Home, *words: str) -> None:
        self._master, inner = pty.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self.process = subprocess.Popen(
            [COMMAND, *words], env=home.environment, stdin=inner, stdout=inner, stderr=inner, cwd=home.folder,
            start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509  one system call
        )  # fmt: skip
        os.close(inner)
        self.text = ""
        self._reader = threading.Thread(target=self._read, name="terminal-reader")
        self._reader.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # the other end is closed
            while data := os.read(self._master, 65536):
                self.text += data.decode("utf-8", "replace")

    def wait_for(self, text: str) -> None:
        eventually(f"{text!r} in {self.text!r}", lambda: text in self.text)

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def signal_group(self, number: signal.Signals) -> None:
        """Signal the group in front, as the terminal's driver does."""
        os.killpg(self.process.pid, number)

    def close(self) -> None:
        """Close the window. Idempotent."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(LIMIT_S)
        self._reader.join(LIMIT_S)
        if self._master >= 0:
            os.close(self._master)
            self._master = -1


@pytest.fixture
def home() -> Iterator[Home]:
    # Not tmp_path: the path of a socket may have 107 bytes.
    with tempfile.TemporaryDirectory(prefix="infer-") as folder:
        home = Home(Path(folder))
        yield home
        home.close()


@pytest.fixture(scope="module")
def living() -> Iterator[Home]:
    """One with a server that talks all the time, for tests that leave it running and as it was."""
    with tempfile.TemporaryDirectory(prefix="infer-") as folder:
        living = Home(Path(folder))
        living.add("noisy", 'backend: "python"\n', NOISY)
        assert living.run("up", *living.serving, "--detach").returncode == 0
        yield living
        living.close()


@pytest.fixture
def terminal() -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def open_terminal(home: Home, *words: str) -> Terminal:
        opened.append(Terminal(home, *words))
        return opened[-1]

    yield open_terminal
    for each in opened:
        each.close()


def answer(record: Record, path: str, body: bytes | None = None) -> int:
    """The status of a request to the HTTP door."""
    try:
        with urllib.request.urlopen(f"http://{record.http}{path}", body, timeout=LIMIT_S) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def serves(record: Record) -> bool:
    return answer(record, "/v2/models/echo/infer", BODY) == 200


def test_a_server_is_started_seen_found_again_and_stopped(home: Home) -> None:
    started = home.run("up", *home.serving, "--detach")
    assert started.returncode == 0, started.stderr
    assert ["echo", "1", "READY"] in [line.split() for line in started.stdout.splitlines()]
    assert "infer down" in started.stderr
    record = home.server()
    assert serves(record)
    assert psutil.Process(record.pid).ppid() != os.getpid(), "it has no parent that waits for it"
    assert os.getsid(record.pid) == record.pid

    again = home.run("up", "--detach")
    assert (again.returncode, again.stderr) == (0, "")
    assert f"running already, as process {record.pid}" in again.stdout
    other = home.run("up", "--detach", "--id=x")
    assert other.returncode == 5
    assert "--id is triton there, not x" in other.stderr
    second = home.run("up", *home.serving, "--detach", "--name", "blue")
    assert second.returncode == 0, second.stderr

    seen = json.loads(home.run("status", "-o", "json").stdout)
    assert [(row["name"], row["state"]) for row in seen] == [("default", "ready"), ("blue", "ready")]
    assert seen[0]["models"] == {"ready": 1, "total": 1, "not_ready": []}
    assert seen[0]["memory_bytes"] > 1 << 20
    assert home.run("down", "--name", "blue").returncode == 0
    shown = home.run("status")
    assert shown.returncode == 0
    assert f"http       {record.http}" in shown.stdout

    stopped = home.run("down")
    assert (stopped.returncode, stopped.stdout) == (0, "'default' is stopped.\n")
    assert is_gone(record.pid)
    assert list(home.registry.folder.iterdir()) == []
    assert home.run("down").returncode == 0
    assert home.run("status").returncode == 3
    assert "stopped" in home.run("logs", "-n", "1", "-o", "name").stdout


def test_its_operator_changes_it_without_a_key_and_its_clients_do_not(living: Home) -> None:
    record = living.server()
    assert living.run("model", "unload", "echo").returncode == 0
    # The key of a server of one's own is found for its port.
    assert living.run("model", "load", "echo", "--url", f"http://{record.operator}").returncode == 0
    assert answer(record, "/v2/repository/models/echo/unload", b"{}") >= 400
    assert serves(record)


def test_a_server_that_cannot_start_says_why_and_ends_with_one(home: Home) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = home.run("up", *home.serving, f"--http-port={port}", "--detach")
    assert done.returncode == 1
    assert f"127.0.0.1:{port} " in done.stderr
    assert "already in use" in done.stderr
    assert [line.split(":")[0].strip() for line in done.stderr.splitlines()[-3:]] == ["error", "why", "fix"]
    assert "Traceback" not in done.stderr
    assert home.registry.live() == []


def test_a_server_that_was_killed_is_gone_at_once_and_its_name_is_free(home: Home) -> None:
    assert home.run("up", *home.serving, "--detach").returncode == 0
    record = home.server()
    family = psutil.Process(record.pid).children(recursive=True)
    os.kill(record.pid, signal.SIGKILL)
    eventually("it is gone", lambda: not home.registry.holds("default"))
    assert not psutil.wait_procs(family, timeout=LIMIT_S)[1]
    assert home.run("status").returncode == 3
    assert home.run("up", *home.serving, "--detach").returncode == 0
    assert home.server().pid != record.pid


def test_down_tells_what_is_under_way_and_gives_up_waiting_but_not_stopping(home: Home) -> None:
    folder = home.add("waits", 'backend: "python"\noutput [{ name: "O" data_type: TYPE_FP32 dims: [1] }]\n', WAITS)
    assert home.run("up", *home.serving, "--detach").returncode == 0
    record = home.server()
    statuses: list[int] = []
    caller = threading.Thread(
        target=lambda: statuses.append(answer(record, "/v2/models/waits/infer", b'{"inputs": []}'))
    )
    caller.start()
    eventually("it executes", (folder / "executing").exists)
    late = home.run("down", "--timeout", "1.5")
    assert late.returncode == 4, late.stderr
    assert "1 request under way" in late.stderr
    assert "still there after 1.5 s" in late.stderr
    draining = home.run("status")
    assert (draining.returncode, "draining" in draining.stdout) == (4, True)
    (folder / "go").touch()
    caller.join()
    eventually("it is gone", lambda: not home.registry.holds("default"))
    assert statuses == [200]


def test_force_kills_a_server_that_takes_too_long_and_its_workers(home: Home) -> None:
    folder = home.add("waits", 'backend: "python"\noutput [{ name: "O" data_type: TYPE_FP32 dims: [1] }]\n', WAITS)
    assert home.run("up", *home.serving, "--detach").returncode == 0
    record = home.server()

    def call() -> None:
        with contextlib.suppress(OSError):  # the server is killed
            answer(record, "/v2/models/waits/infer", b'{"inputs": []}')

    caller = threading.Thread(target=call)
    caller.start()
    eventually("it executes", (folder / "executing").exists)
    family = psutil.Process(record.pid).children(recursive=True)
    assert family
    assert home.run("down", "--timeout", "0", "--force").returncode == 0
    caller.join()
    assert not psutil.wait_procs(family, timeout=LIMIT_S)[1]


def test_logs_are_followed_and_an_interrupt_ends_that_quietly(living: Home) -> None:
    following = living.start("logs", "-f", "-n", "0", "--model", "noisy", "-o", "json")
    assert following.stdout is not None
    lines = [json.loads(following.stdout.readline()) for _ in range(3)]
    assert {line["model"] for line in lines} == {"noisy"}
    assert [line["seq"] for line in lines] == sorted({line["seq"] for line in lines})
    following.send_signal(signal.SIGINT)
    _, said = following.communicate(timeout=LIMIT_S)
    assert (following.returncode, said) == (130, "")


@pytest.mark.parametrize("words", ["logs -f", "logs -n 5 -o json"])
def test_logs_into_a_pipe_that_closes_leave_no_trace(living: Home, words: str) -> None:
    done = subprocess.run(
        ["bash", "-c", f"{COMMAND} {words} | head -n 1"], env=living.environment, capture_output=True, text=True,
        timeout=LIMIT_S, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""


def test_a_server_in_the_foreground_has_its_name_and_serve_has_one_of_its_own(home: Home) -> None:
    first = home.start("up", *home.serving)
    record = home.server()
    assert record.pid == first.pid
    second = home.run("up", *home.serving)
    assert second.returncode == 1
    assert f"it is process {first.pid}; stop it: infer down" in second.stderr
    plain = home.start("serve", *home.serving)
    assert home.server(f"serve-{plain.pid}").pid == plain.pid
    assert home.run("model", "list", "-o", "name").stdout.split() == ["echo"]
    for process, name in ((first, "default"), (plain, f"serve-{plain.pid}")):
        assert home.run("down", "--name", name).returncode == 0
        assert process.wait(LIMIT_S) == 0
        process.communicate()


def test_a_server_whose_folder_cannot_be_used_serves_and_is_reached_by_its_address(home: Home) -> None:
    home.registry.folder.mkdir(mode=0o755)
    home.registry.folder.chmod(0o755)
    server = home.start("serve", *home.serving)
    assert server.stdout is not None
    address = next(line.split()[1] for line in server.stdout if line.startswith("metrics")).removesuffix("/metrics")
    assert home.run("model", "list", "-o", "name", "--url", address).stdout == "echo\n"
    refused = home.run("status")
    assert (refused.returncode, "chmod 700" in refused.stderr) == (5, True)
    server.terminate()
    _, said = server.communicate(timeout=LIMIT_S)
    home.registry.folder.chmod(0o700)
    assert said.count("only its address finds this server") == 1


def test_whatever_happens_to_the_dashboard_and_its_terminal_the_server_goes_on_serving(
    home: Home, terminal: Callable[..., Terminal]
) -> None:
    window = terminal(home, "up", *home.serving)
    record = home.server()
    window.wait_for("Models")
    for number in (signal.SIGTSTP, signal.SIGSTOP):
        window.signal_group(number)
        assert serves(record)
        assert psutil.Process(record.pid).status() != psutil.STATUS_STOPPED
        window.signal_group(signal.SIGCONT)
    for number in (signal.SIGHUP, signal.SIGKILL):
        window.signal_group(number)
        window.process.wait(LIMIT_S)
        window.close()
        assert serves(record)
        window = terminal(home, "up")
        window.wait_for(f"running already, as process {record.pid}: attached to it.")
        window.wait_for("Models")
    window.type("\x03")
    window.signal_group(signal.SIGINT)
    assert serves(record)
    assert home.registry.live() == [record]
    os.killpg(record.pid, signal.SIGHUP)
    assert serves(record), "it does not hear a hang-up that is sent to itself"


def test_an_interrupt_while_it_starts_leaves_nothing_running(home: Home, terminal: Callable[..., Terminal]) -> None:
    home.add("slow", 'backend: "python"\n', SLOW)
    window = terminal(home, "up", *home.serving, "--detach")
    window.wait_for("1 of 2 models are ready")
    record = home.registry.find("default")
    assert record is not None
    family = [psutil.Process(record.pid), *psutil.Process(record.pid).children(recursive=True)]
    window.type("\x03")
    assert window.process.wait(LIMIT_S) == 130
    assert not psutil.wait_procs(family, timeout=LIMIT_S)[1]
    assert "Traceback" not in window.text
