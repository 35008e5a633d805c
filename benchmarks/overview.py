"""What a dashboard costs the server that it watches: 100 Python models under full load, the overview asked for at 1 Hz.

    python benchmarks/overview.py [SECONDS]

Two figures. The first is exact: CPU time of the server's process for one overview, when every model has served a
request since the last one and when none has. The second is what a user would see: requests/s and the server's CPU time
a request under full load, with and without a client that polls, in turns. To reach: polling costs less than 3 % of a
core.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import load
import payloads
import servers
from many_models import fill

if TYPE_CHECKING:
    from collections.abc import Iterator

    from servers import Server

COUNT = 100
CLIENTS = 16
ROUNDS = 3
OVERVIEWS = 30
TARGET_PERCENT = 3.0
SCRIPT = Path(__file__).with_name("spread.lua")


def cpu_ns(pid: int) -> int:
    """CPU time that the threads of a process have had, in ns; one that ended is not in it."""
    used = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            used += int((task / "schedstat").read_text().split()[0])
    return used


def overview(server: Server) -> int:
    """Ask for one as a dashboard does; its size in bytes."""
    status, body = server.get("/v2/operator/overview", port=server.operator_port)
    if status != servers.OK:
        raise RuntimeError(f"the overview was refused: {body[:200]!r}")
    return len(body)


def cost_of_one(server: Server, *, busy: bool) -> float:
    """Milliseconds of CPU for one overview, the median; ``busy``: every model has served a request since the last."""
    assert server.process is not None  # noqa: S101  it runs
    pid, spent = server.process.pid, list[float]()
    for _ in range(OVERVIEWS):
        if busy:
            for number in range(COUNT):
                load.check(server, _payload(number))
        before = cpu_ns(pid)
        overview(server)
        spent.append((cpu_ns(pid) - before) / 1e6)
    return statistics.median(spent)


def burst(server: Server, seconds: float) -> tuple[float, float]:
    """Full load on all models: requests/s, and CPU time of the server's own process in µs a request."""
    assert server.process is not None  # noqa: S101  it runs
    payload = payloads.simple()
    with load.wrk_command(server, payload, CLIENTS, seconds) as command:
        spread = [f"--script={SCRIPT}" if word.startswith("--script=") else word for word in command]
        before = cpu_ns(server.process.pid)
        output = subprocess.run(spread, check=True, capture_output=True, text=True, timeout=seconds + 60).stdout
        used = cpu_ns(server.process.pid) - before
    result = json.loads(output.strip().splitlines()[-1])
    if result["bad_status"] or result["socket_errors"]:
        raise RuntimeError(f"{result['bad_status']} bad answers, {result['socket_errors']} broken sockets")
    return result["requests"] * 1e6 / result["duration_us"], used / 1000 / result["requests"]


@contextlib.contextmanager
def polling(server: Server) -> Iterator[None]:
    """A dashboard watches for as long as this lasts."""
    stop = threading.Event()

    def poll() -> None:
        while not stop.wait(1.0):
            overview(server)

    thread = threading.Thread(target=poll, name="dashboard")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def main() -> int:
    """Measure and print; 1 where the target is missed."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    servers.stop_on_sigterm()
    alone, watched = list[tuple[float, float]](), list[tuple[float, float]]()
    with tempfile.TemporaryDirectory(prefix="infer-bench-") as folder:
        fill(Path(folder), COUNT)
        with servers.infer(Path(folder), "--log-info=false") as server:
            burst(server, 2)
            size = overview(server)
            busy, idle = cost_of_one(server, busy=True), cost_of_one(server, busy=False)
            for _ in range(ROUNDS):
                alone.append(burst(server, seconds))
                with polling(server):
                    watched.append(burst(server, seconds))
    print(f"one overview of {COUNT} models, {size / 1024:.0f} KiB, CPU: {busy:.2f} ms busy, {idle:.2f} ms idle")
    print(f"polling at 1 Hz: {busy / 10:.2f} % of a core (to reach: < {TARGET_PERCENT:g} %)")
    for name, rounds in (("alone", alone), ("watched", watched)):
        rate, cpu = (statistics.median(values) for values in zip(*rounds, strict=True))
        print(f"{name:8} {rate:8.0f} requests/s {cpu:8.1f} µs CPU a request")
    return 0 if busy / 10 < TARGET_PERCENT else 1


def _payload(number: int) -> payloads.Payload:
    whole = payloads.simple()
    return payloads.Payload(f"/v2/models/simple_{number:03d}/infer", whole.body, whole.headers)


if __name__ == "__main__":
    sys.exit(main())
