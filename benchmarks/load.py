"""Load generators: wrk with a prepared body (the default), and the official perf_analyzer; one result type."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import peer
import servers

if TYPE_CHECKING:
    from collections.abc import Generator

    from payloads import Payload
    from servers import Server

_SCRIPT = Path(__file__).with_name("post.lua")


class LoadGeneratorMissing(Exception):
    """A load generator is not installed; the message says how to get it."""


@dataclass(frozen=True)
class Load:
    """What one burst of load measured. ``cpu_us`` is the server's whole process tree, per request."""

    rate: float
    p50_us: float
    p99_us: float
    cpu_us: float


def check(server: Server, payload: Payload) -> bytes:
    """The body of one answer. Raises RuntimeError unless the server serves the payload with status 200."""
    status, body = server.post(payload.path, payload.body, payload.headers)
    if status != servers.OK:
        raise RuntimeError(f"{server.name} answered {payload.path} with {status}: {body[:300]!r}")
    server.raise_priority()
    return body


def wrk_burst(server: Server, payload: Payload, clients: int, seconds: float) -> Load:
    """Load with ``clients`` connections from one wrk thread, each sending its next request after its answer."""
    with wrk_command(server, payload, clients, seconds) as command:
        before = server.cpu_us()
        output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=seconds + 60).stdout
        used = server.cpu_us() - before
    result = json.loads(output.strip().splitlines()[-1])
    if result["bad_status"] or result["socket_errors"]:
        raise RuntimeError(
            f"{server.name}: {result['bad_status']} bad answers, {result['socket_errors']} broken sockets"
        )
    requests = max(1, result["requests"])
    return Load(
        rate=requests * 1e6 / result["duration_us"],
        p50_us=result["p50_us"],
        p99_us=result["p99_us"],
        cpu_us=used / requests,
    )


@contextlib.contextmanager
def wrk_command(server: Server, payload: Payload, clients: int, seconds: float) -> Generator[list[str]]:
    """The command line of a burst, valid while the context lasts (it holds the file with the body)."""
    if shutil.which("wrk") is None:
        raise LoadGeneratorMissing("wrk is not installed (apt-get install wrk)")
    with tempfile.NamedTemporaryFile(suffix=".body") as body:
        body.write(payload.body)
        body.flush()
        headers = [f"{name}={value}" for name, value in payload.headers.items()]
        size = ["--threads=1", f"--connections={clients}", f"--duration={max(1, round(seconds))}s", "--timeout=30s"]
        url = f"http://127.0.0.1:{server.port}{payload.path}"
        yield ["wrk", *size, "--latency", f"--script={_SCRIPT}", url, "--", body.name, *headers]


def perf_analyzer_burst(server: Server, payload: Payload, clients: int, seconds: float) -> Load:
    """Load with the official generator, which makes the tensors itself: only the model's name is taken."""
    model = payload.path.split("/")[3]
    command = [*peer.perf_analyzer_command(), "-m", model, "-u", f"127.0.0.1:{server.port}", "-i", "http", "-b", "1"]
    command += ["--concurrency-range", str(clients), "-p", str(int(seconds * 1000)), "-r", "3", "-s", "999"]
    before, counted = server.cpu_us(), _served(server, model)
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=seconds * 10 + 60).stdout
    used, requests = server.cpu_us() - before, _served(server, model) - counted
    return Load(
        rate=_number(output, "Throughput:"),
        p50_us=_number(output, "p50 latency:"),
        p99_us=_number(output, "p99 latency:"),
        cpu_us=used / max(1, requests),
    )


def _served(server: Server, model: str) -> int:
    stats = json.loads(server.get(f"/v2/models/{model}/stats")[1])
    return stats["model_stats"][0]["inference_stats"]["success"]["count"]


def _number(output: str, label: str) -> float:
    line = next(line for line in output.splitlines() if label in line)
    return float(line.split(label)[1].split()[0])
