"""What the tests share: the command line as a process, and a whole server as a process."""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import hypothesis
import psutil
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ROOT = Path(__file__).resolve().parents[1]
COMMAND = str(Path(sys.executable).parent / "infer")
START_LIMIT_S = 60
STOP_LIMIT_S = 30
CONTROL_KEY = "the-key-of-the-tests"
"""The key of every server that the tests start as a process; the commands that they run have it too."""
COUNTS = "counts"
"""The name of a property whose value is told below the results: ``record_property(COUNTS, "…")``."""

# A machine that does something else besides makes an example slow, not wrong.
hypothesis.settings.register_profile("untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("untimed")


# What runs in the background or under nohup ignores Ctrl-C or a hang-up, and what the tests start would inherit that.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)


def pytest_collection_finish() -> None:
    """Leave modules and collected tests, which outlive every test, out of the garbage collector's rounds.

    PERF: hundreds of tests ask for a full round, and each would look at a million objects that are never garbage.
    """
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell what tests have counted; here and not while they run, as they may run in a process without a terminal."""
    for report in (each for reports in terminalreporter.stats.values() for each in reports):
        for name, text in getattr(report, "user_properties", ()):
            if name == COUNTS and report.when == "call":
                terminalreporter.write_line(text)


def eventually(what: str, true: Callable[[], Any]) -> Any:
    """Wait for something that another process or thread does; what ``true`` gives then."""
    end = time.monotonic() + START_LIMIT_S
    while not (found := true()):
        assert time.monotonic() < end, f"not within {START_LIMIT_S} s: {what}"
        threading.Event().wait(0.01)
    return found


def _left_open() -> list[str]:
    """Sockets, memory and process descriptors that this process holds, by what they are."""
    found: list[str] = []
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            target = str(link.readlink())
            if target.startswith(("socket:", "/memfd:infer", "anon_inode:[pidfd]")):
                found.append(target.split(":[", maxsplit=1)[0])
    return sorted(found)


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    """When the last test is over, no process and no socket, memfd or pidfd that it did not begin with is left."""
    before = _left_open()
    yield
    gc.collect()
    assert psutil.Process().children(recursive=True) == []
    assert _left_open() == before


@pytest.fixture(scope="session", autouse=True)
def folders_of_nobody() -> Iterator[None]:
    """Servers and commands of the tests register, look and log in folders of their own, not in their user's."""
    names = ("INFER_RUN_DIR", "INFER_STATE_DIR")
    before = {name: os.environ.get(name) for name in names}
    # Not tmp_path: the path of a socket may have 107 bytes.
    with tempfile.TemporaryDirectory(prefix="infer-") as folder:
        os.environ.update({"INFER_RUN_DIR": f"{folder}/run", "INFER_STATE_DIR": f"{folder}/state"})
        yield
        os.environ.update({name: value for name, value in before.items() if value is not None})
        for name in names:
            if before[name] is None:
                del os.environ[name]


class ServerProcess:
    """A server started with the command line. Its log is read to the end all the time, so it never blocks."""

    def __init__(self, arguments: Sequence[str], environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [COMMAND, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
            start_new_session=True,
        )
        self.lines: list[str] = []
        self._example = threading.Event()
        self._reader = threading.Thread(target=self._read, name="server-log-reader")
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if line.startswith("curl "):
                self._example.set()
        self._example.set()

    @property
    def log(self) -> str:
        """Everything that it has written so far."""
        return "\n".join(self.lines)

    def wait_until_serving(self) -> None:
        """Wait for the start page; fails with the log where the server ends instead."""
        assert self._example.wait(START_LIMIT_S), f"no start page after {START_LIMIT_S} s:\n{self.log}"
        assert self.process.poll() is None or self.example, f"it ended with {self.process.wait()}:\n{self.log}"
        assert self.example, f"it ended:\n{self.log}"

    @property
    def example(self) -> str:
        """The command of the start page."""
        return next((line for line in self.lines if line.startswith("curl ")), "")

    def _address(self, door: str) -> str:
        found = re.search(rf"^{door} +(http://\S+?)/", self.log, re.MULTILINE)
        assert found is not None, self.log
        return found[1]

    @property
    def http(self) -> str:
        """The HTTP door's URL, without a path."""
        return self._address("inference")

    @property
    def operator(self) -> str:
        """The operator's door's URL, without a path."""
        return self._address("metrics")

    @property
    def control_key(self) -> str:
        """What a client that may load and unload shows at the operator's door."""
        return CONTROL_KEY

    def processes(self) -> list[psutil.Process]:
        """The server and everything below it."""
        server = psutil.Process(self.process.pid)
        return [server, *server.children(recursive=True)]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and wait for the end: its exit status. No process of it is left."""
        family = self.processes() if self.process.poll() is None else []
        if self.process.poll() is None:
            self.process.send_signal(number)
        status = self.join()
        _, left = psutil.wait_procs(family, timeout=5)
        assert not left, f"processes left behind: {left}\n{self.log}"
        return status

    def join(self) -> int:
        """Wait for the end: its exit status, everything that it wrote read."""
        status = self.process.wait(STOP_LIMIT_S)
        self._reader.join(STOP_LIMIT_S)
        return status

    def kill(self) -> None:
        """End it and everything below it, whatever state it is in."""
        if self.process.poll() is None:
            for process in self.processes():
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
        self.process.wait(STOP_LIMIT_S)
        self._reader.join(STOP_LIMIT_S)
        assert self.process.stdout is not None
        self.process.stdout.close()


class StartServer(Protocol):
    """Starts `infer serve` (or another verb) with these arguments, on free ports of the loopback."""

    def __call__(self, *arguments: str, verb: str = "serve", wait: bool = True) -> ServerProcess: ...


def _servers() -> Iterator[StartServer]:
    started: list[ServerProcess] = []
    folders: list[tempfile.TemporaryDirectory[str]] = []

    def start(*arguments: str, verb: str = "serve", wait: bool = True) -> ServerProcess:
        ports = ["--http-address=127.0.0.1", "--http-port=0", "--metrics-port=0"]
        ports += ["--grpc-address=127.0.0.1", "--grpc-port=0"]
        # Each in a folder of its own, so that several of one name can run.
        folders.append(tempfile.TemporaryDirectory(prefix="infer-"))
        environment = os.environ | {"INFER_CONTROL_KEY": CONTROL_KEY, "INFER_RUN_DIR": f"{folders[-1].name}/run"}
        server = ServerProcess([verb, *ports, *arguments], environment)
        started.append(server)
        if wait:
            server.wait_until_serving()
        return server

    yield start
    for server in started:
        server.kill()
    for folder in folders:
        folder.cleanup()


@pytest.fixture
def start_server() -> Iterator[StartServer]:
    """Servers that end with the test. Log and start page are in ``.log``, addresses in ``.http`` and ``.operator``."""
    yield from _servers()


@pytest.fixture(scope="module")
def start_module_server() -> Iterator[StartServer]:
    """Servers that several tests of a module share."""
    yield from _servers()


class RunInfer(Protocol):
    """Runs `infer` with these words; the finished process with its text."""

    def __call__(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]: ...


@pytest.fixture
def run_infer() -> RunInfer:
    """The command line, run to its end."""

    def run(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"INFER_CONTROL_KEY": CONTROL_KEY}
        return subprocess.run(
            [COMMAND, *words], input=stdin, capture_output=True, text=True, timeout=60, check=False, env=environment
        )

    return run


@pytest.fixture(scope="session")
def aoti_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An AOTInductor package, the one that the tests of all processes share because a compiler makes it.

    ``forward(pair, factor)`` takes ``pair["a"]``, ``pair["b"]`` and the keyword ``factor``, FP32 [rows, 2] all, and
    returns ``{"total": (a + b) * factor, "rest": [a - b]}``.
    """
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    path = folder / "aoti.pt2"
    with (folder / "aoti.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            _compile(path)
    return path


def _compile(path: Path) -> None:
    import torch

    class Nested(torch.nn.Module):
        def forward(self, pair: dict[str, torch.Tensor], *, factor: torch.Tensor) -> dict[str, Any]:
            return {"total": (pair["a"] + pair["b"]) * factor, "rest": [pair["a"] - pair["b"]]}

    free = {0: torch.export.Dim.AUTO}
    args, kwargs = ({"a": torch.zeros(2, 2), "b": torch.ones(2, 2)},), {"factor": torch.ones(2, 2)}
    shapes = {"pair": {"a": free, "b": free}, "factor": free}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the compiler's own code
        program = torch.export.export(Nested(), args, kwargs, dynamic_shapes=shapes)
        with torch._inductor.config.patch(compile_threads=1):  # no pool of processes that outlives the test
            torch._inductor.aoti_compile_and_package(program, package_path=str(path))


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the repository."""
    return ROOT
