"""How long the loop is held while one client sends 10 MB tensors and another 1 MB of JSON.

Two measures, in one run:

- from outside, on both servers: the latency of GET /v2/health/live at a steady rate. It holds the kernel's share too:
  two cores carry server, workers, both load generators and the probe;
- from inside, on ours: our server runs in a process of this benchmark, with a coroutine on its loop that asks to be
  woken every 2 ms and notes by how much it was late (``lag_server.py``). This is the number the project promises.

The load generators run at a lower priority, so that the server is not measured by what they take from it.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import load
import payloads
import servers
from report import Row, Target

if TYPE_CHECKING:
    from collections.abc import Generator

    from payloads import Payload
    from servers import Server
    from throughput import Plan

MODELS = Path(__file__).with_name("models")
PROBE_INTERVAL_S = 0.005
TENSOR_FLOATS = 2_500_000
JSON_BYTES = 1_000_000
LAG_FILE = "INFER_BENCH_LAG_FILE"


def measure(plan: Plan) -> list[Row]:
    """Both servers from outside, ours from inside too."""
    seconds = max(5, round(plan.seconds * 2))
    outside: dict[str, list[float]] = {}
    if plan.with_peer:
        with servers.triton(MODELS) as server:
            outside["triton"] = _loaded(server, seconds)
    inside: dict[str, float] = {}
    if plan.with_infer:
        with lag_server() as server:
            outside["infer"] = _loaded(server, seconds)
        inside = json.loads(Path(server.environment[LAG_FILE]).read_text())
        Path(server.environment[LAG_FILE]).unlink()
    case = "10 MB tensors + 1 MB JSON"
    rows = [
        Row("loop lag", case, f"live {name} ms", _at(outside, "infer", share), _at(outside, "triton", share))
        for name, share in (("p50", 0.5), ("p99", 0.99))
    ]
    target = Target(5.0, at_most=True, of_value=True)
    rows.append(Row("loop lag", case, "inside p50 ms", inside.get("p50_ms"), None))
    rows.append(Row("loop lag", case, "inside p99 ms", inside.get("p99_ms"), None, target))
    rows.append(Row("loop lag", case, "inside max ms", inside.get("max_ms"), None))
    return rows


def lag_server() -> Server:
    """Our server with the inside probe on its loop: `infer serve` run by ``lag_server.py``."""
    server = servers.infer(MODELS)
    server.command = [sys.executable, str(Path(__file__).with_name("lag_server.py")), *server.command[1:]]
    server.environment = {**server.environment, LAG_FILE: str(server.log.with_suffix(".lag"))}
    return server


def _loaded(server: Server, seconds: int) -> list[float]:
    tensors, text = payloads.floats(TENSOR_FLOATS), payloads.json_floats(JSON_BYTES)
    for payload in (tensors, text):
        load.check(server, payload)
    with _background(server, tensors, seconds), _background(server, text, seconds):
        if LAG_FILE in server.environment:
            server.signal(signal.SIGUSR1)
        return _probe(server, seconds - 1)


@contextlib.contextmanager
def _background(server: Server, payload: Payload, seconds: int) -> Generator[None]:
    with load.wrk_command(server, payload, 1, seconds) as command:
        process = subprocess.Popen(["nice", "-n", "10", *command], stdout=subprocess.PIPE, text=True)
        try:
            yield
            output, _ = process.communicate(timeout=60)
        finally:
            process.kill()
            process.wait()
    result = json.loads(output.strip().splitlines()[-1])
    if result["bad_status"] or result["socket_errors"] or not result["requests"]:
        raise RuntimeError(f"{server.name}: load of {len(payload.body)} bytes went wrong: {result}")
    rate = result["requests"] * 1e6 / result["duration_us"]
    print(f"# {server.name}: {len(payload.body) / 1e6:.1f} MB each, {rate:.1f} requests/s", file=sys.stderr)


def _probe(server: Server, seconds: float) -> list[float]:
    """Latencies in milliseconds of a GET that the loop answers itself, one every PROBE_INTERVAL_S.

    While an answer is late no further probe can be sent; those that would have been are counted with the wait that
    they would have had, or one long stall would weigh as much as one quick answer.
    """
    latencies: list[float] = []
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    with contextlib.closing(connection):
        due = time.perf_counter()
        end = due + seconds
        while due < end:
            time.sleep(max(0.0, due - time.perf_counter()))
            sent = time.perf_counter()
            connection.request("GET", "/v2/health/live")
            connection.getresponse().read()
            answered = time.perf_counter()
            waited = answered - sent
            while waited > 0:
                latencies.append(waited * 1000)
                waited -= PROBE_INTERVAL_S
            due = max(due + PROBE_INTERVAL_S, answered)
    return sorted(latencies)


def _at(outside: dict[str, list[float]], name: str, share: float) -> float | None:
    values = outside.get(name)
    return values[min(len(values) - 1, int(len(values) * share))] if values else None
