"""What the dashboard costs: the time to its first frame, and the CPU of watching a server of 20 models.

::

    python benchmarks/dashboard.py                       both, against an empty Textual app started the same way
    python benchmarks/dashboard.py --runs 3 --seconds 5

Dashboard and empty app run under a terminal of 80x24 each, started in turn. The first frame is there when the first
word that an app shows arrives at the terminal. CPU is user and system time of the dashboard's process alone, once with
a server at rest and once with traffic to all of its models. Exit status 1 where a limit is not kept.
"""

from __future__ import annotations

import argparse
import fcntl
import http.client
import os
import pty
import select
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import servers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from servers import Server

MODELS = 20
ROWS, COLUMNS = 24, 80
FRAME_RATIO, CPU_SHARE = 2.0, 0.05
LIMIT_S = 30.0
WARM_UP_S = 3.0
PAUSE_S = 0.01

EMPTY = """
from textual.app import App
from textual.widgets import Static

class Empty(App):
    def compose(self):
        yield Static("waiting for nothing")

Empty().run()
"""

DASHBOARD = """
import sys
from infer.tui.app import run_dashboard
from infer.tui.client import Client
from infer.tui.source import ServerSource

run_dashboard(ServerSource(Client(sys.argv[1])), owned=False)
"""


class Terminal:
    """A program in a terminal of its own; what it writes is read all the time."""

    def __init__(self, script: str, *arguments: str) -> None:
        """The program is Python's, given as text."""
        self._began = time.perf_counter()
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        environment = {**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
        words = [sys.executable, "-c", script, *arguments]
        self.process = subprocess.Popen(
            words, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
        )
        os.close(theirs)
        self.written = 0

    def until(self, word: bytes) -> float:
        """Seconds from the start until a word has been written."""
        seen = b""
        while word not in seen:
            left = LIMIT_S - (time.perf_counter() - self._began)
            if left <= 0 or not select.select([self._ours], [], [], left)[0]:
                raise SystemExit(f"no '{word.decode()}' within {LIMIT_S:.0f} s; it wrote {seen[-500:]!r}")
            seen += os.read(self._ours, 65536)
        return time.perf_counter() - self._began

    def watch(self, seconds: float) -> float:
        """The share of a core that it takes over so many seconds."""
        process = psutil.Process(self.process.pid)
        before, began = process.cpu_times(), time.perf_counter()
        self.written = 0
        while (left := seconds - (time.perf_counter() - began)) > 0:
            if select.select([self._ours], [], [], left)[0]:
                self.written += len(os.read(self._ours, 65536))
        after = process.cpu_times()
        return (after.user + after.system - before.user - before.system) / (time.perf_counter() - began)

    def close(self) -> None:
        """End it."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        os.close(self._ours)


def first_frame(script: str, word: bytes, *arguments: str) -> float:
    """Seconds until a program shows its first word."""
    terminal = Terminal(script, *arguments)
    try:
        return terminal.until(word)
    finally:
        terminal.close()


def frames(url: str, runs: int) -> tuple[float, float]:
    """Medians of both: the empty app's first frame and the dashboard's."""
    empty: list[float] = []
    dashboard: list[float] = []
    for _ in range(runs):
        empty.append(first_frame(EMPTY, b"nothing"))
        dashboard.append(first_frame(DASHBOARD, b"Models", url))
    return statistics.median(empty), statistics.median(dashboard)


def share(url: str, seconds: float) -> tuple[float, float]:
    """The share of a core that the dashboard takes, and the bytes a second that it writes."""
    terminal = Terminal(DASHBOARD, url)
    try:
        terminal.until(b"20 models")
        terminal.watch(WARM_UP_S)
        taken = terminal.watch(seconds)
        return taken, terminal.written / seconds
    finally:
        terminal.close()


def traffic(port: int, stop: threading.Event) -> None:
    """One client that calls one model after the other, some hundred times a second."""
    body = b'{"inputs":[{"name":"INPUT1","shape":[1,1],"datatype":"FP32","data":[1]}]}'
    connection = http.client.HTTPConnection("127.0.0.1", port)
    number = 0
    while not stop.wait(PAUSE_S):
        connection.request("POST", f"/v2/models/m{number % MODELS:02}/infer", body)
        connection.getresponse().read()
        number += 1 + number % 3
    connection.close()


def repository(folder: Path) -> Path:
    """As many copies of the sample that sends its inputs back."""
    sample = Path(__file__).resolve().parents[1] / "model_repository" / "identity"
    for number in range(MODELS):
        shutil.copytree(sample, folder / f"m{number:02}")
    return folder


def _measure(server: Server, runs: int, seconds: float) -> Iterator[bool]:
    operator = f"http://127.0.0.1:{server.operator_port}"
    empty, dashboard = frames(operator, runs)
    figures = f"empty app {empty * 1000:.0f} ms   dashboard {dashboard * 1000:.0f} ms   {dashboard / empty:.2f} x"
    print(f"first frame  {figures}")
    yield dashboard <= FRAME_RATIO * empty
    taken, written = share(operator, seconds)
    print(f"at rest      {taken * 100:.1f} % of a core, {written:.0f} bytes/s to the terminal")
    yield taken < CPU_SHARE
    stop = threading.Event()
    client = threading.Thread(target=traffic, args=(server.port, stop), name="traffic")
    client.start()
    taken, written = share(operator, seconds)
    stop.set()
    client.join()
    print(f"with traffic {taken * 100:.1f} % of a core, {written:.0f} bytes/s to the terminal")
    yield taken < CPU_SHARE


def main() -> int:
    """Measure; 1 where a limit is not kept."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=5, help="starts of each app")
    parser.add_argument("--seconds", type=float, default=10, help="how long CPU is counted")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, servers.infer(repository(Path(folder))) as server:
        return int(not all([*_measure(server, arguments.runs, arguments.seconds)]))


if __name__ == "__main__":
    sys.exit(main())
