"""The two servers under test as processes: start, wait until ready, what the whole process tree used, stop."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import peer

if TYPE_CHECKING:
    from types import TracebackType

READY_TIMEOUT_S = 120.0
READY_STEP_S = 0.01
STOP_TIMEOUT_S = 20.0
OK = 200
PRIORITY = -15
TICK_US = 1_000_000 / os.sysconf("SC_CLK_TCK")


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody has now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [bound.getsockname()[1] for bound in sockets]


def raise_priority(pid: int) -> None:
    """Let other work on the machine weigh less, where we may: for a process, and for its session's group."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, PRIORITY)
        # Where the kernel groups sessions, a nice value counts within its group only; the group has one of its own.
        Path(f"/proc/{pid}/autogroup").write_text(str(PRIORITY))


def stop_on_sigterm() -> None:
    """Let SIGTERM end this process as Ctrl-C does, so that a time limit on it leaves no server behind."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@dataclass
class Server:
    """One running server. Its process leads a session of its own, so that nothing of it can be left behind."""

    name: str
    command: list[str]
    environment: dict[str, str]
    port: int
    grpc_port: int
    operator_port: int
    log: Path
    process: subprocess.Popen[bytes] | None = None
    ready_s: float = 0.0
    exit_status: int | None = None

    def __enter__(self) -> Self:
        """Start, and wait until it is ready."""
        started = time.perf_counter()
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                self.command,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            raise_priority(self.process.pid)
            self._wait_until_ready(started)
            self.raise_priority()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop; the log stays where something went wrong."""
        self.stop()
        if kind is None:
            self.log.unlink(missing_ok=True)

    def get(self, path: str, *, port: int | None = None) -> tuple[int, bytes]:
        """Status and body of a GET."""
        connection = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=10)
        with contextlib.closing(connection):
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()

    def post(self, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        """Status and body of a POST."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        with contextlib.closing(connection):
            connection.request("POST", path, body, headers)
            response = connection.getresponse()
            return response.status, response.read()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the server's main process."""
        self._running.send_signal(number)

    def raise_priority(self) -> None:
        """For every process of the tree; again after requests that may have started one."""
        for pid in self.tree():
            raise_priority(pid)

    def cpu_us(self) -> float:
        """CPU time in microseconds that all processes of the tree have used, those that ended included."""
        return sum(self.cpu_us_by_process().values())

    def cpu_us_by_process(self) -> dict[int, float]:
        """The same by process; a child that ended is in its parent's."""
        used: dict[int, float] = {}
        for pid in self.tree():
            with contextlib.suppress(OSError):
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                used[pid] = sum(int(field) for field in fields[11:15]) * TICK_US
        return used

    def pss_mib(self) -> float:
        """Memory of all processes of the tree, shared pages counted by share, in MiB."""
        total = 0
        for pid in self.tree():
            with contextlib.suppress(OSError):
                rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
                total += next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
        return total / 1024

    def stop(self) -> None:
        """Ask it to end, then make it; whatever of its tree is left after that is killed."""
        if self.process is None:
            return
        tree = self.tree()
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            print(f"# {self.name} did not stop within {STOP_TIMEOUT_S:.0f} s of SIGINT: killed", file=sys.stderr)
            self.process.kill()
            self.process.wait()
        for pid in tree[1:]:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        self.exit_status = self.process.returncode
        self.process = None

    def _wait_until_ready(self, started: float) -> None:
        process = self._running
        while time.perf_counter() - started < READY_TIMEOUT_S:
            if process.poll() is not None:
                raise RuntimeError(f"{self.name} ended with {process.returncode}: {self._last_words()}")
            with contextlib.suppress(OSError):
                if self.get("/v2/health/ready")[0] == OK:
                    self.ready_s = time.perf_counter() - started
                    return
            time.sleep(READY_STEP_S)
        raise RuntimeError(f"{self.name} is not ready after {READY_TIMEOUT_S:.0f} s: {self._last_words()}")

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        if self.process is None:
            raise RuntimeError(f"{self.name} is not running")
        return self.process

    def _last_words(self) -> str:
        return self.log.read_text(errors="replace")[-1500:]

    def tree(self) -> list[int]:
        """The main process and everything below it, by id."""
        children: dict[int, list[int]] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                    children.setdefault(parent, []).append(int(entry.name))
        tree = [self._running.pid]
        for pid in tree:
            tree.extend(children.get(pid, ()))
        return tree


def triton(repository: Path) -> Server:
    """The real Triton on a model repository."""
    ports = free_ports(3)
    return Server(
        name="triton",
        command=peer.triton_command(repository, *ports),
        environment=peer.triton_environment(),
        port=ports[0],
        grpc_port=ports[1],
        operator_port=ports[2],
        log=_log("triton"),
    )


def infer(repository: Path, *more: str) -> Server:
    """Our server on a model repository, started as a user starts it."""
    http_port, grpc_port, metrics_port = free_ports(3)
    return Server(
        name="infer",
        command=[
            str(Path(sys.executable).parent / "infer"),
            "serve",
            f"--model-repository={repository}",
            "--http-address=127.0.0.1",
            f"--http-port={http_port}",
            "--grpc-address=127.0.0.1",
            f"--grpc-port={grpc_port}",
            "--metrics-address=127.0.0.1",
            f"--metrics-port={metrics_port}",
            *more,
        ],
        environment=dict(os.environ),
        port=http_port,
        grpc_port=grpc_port,
        operator_port=metrics_port,
        log=_log("infer"),
    )


def _log(name: str) -> Path:
    return Path(tempfile.gettempdir()) / f"infer-bench-{name}-{os.getpid()}.log"
