"""Load generators: wrk or h2load with a prepared body, and the official perf_analyzer; one result type.

What a generator sends is a ``Traffic``: to which door, how an answer is tried beforehand, how a burst of it is made.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import grpc_messages
import http2_call
import peer
import servers
from report import quantile

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from payloads import GrpcPayload, Payload
    from servers import Server

_SCRIPT = Path(__file__).with_name("post.lua")

_COUNTED_WITHIN_S = 1.0
"""Triton counts a request a moment after it has answered it."""


class LoadGeneratorMissing(Exception):
    """A load generator is not installed; the message says how to get it."""


@dataclass(frozen=True)
class Load:
    """What one burst of load measured. ``cpu_us`` is the server's whole process tree, per request.

    ``batch`` is the mean number of rows that an execution had, ``busy`` the share of the time that one was under way.
    """

    rate: float
    p50_us: float
    p99_us: float
    cpu_us: float
    batch: float = 0.0
    busy: float = 0.0


@dataclass(frozen=True)
class Counts:
    """A model's own counters at one moment."""

    requests: int
    failures: int
    rows: int
    executions: int
    executing_ns: int


@dataclass(frozen=True)
class Traffic:
    """One kind of request by one generator. ``check`` gives the body of one answer or raises RuntimeError."""

    check: Callable[[Server], bytes]
    burst: Callable[[Server, int, float], Load]


def http_traffic(payload: Payload, *, official: bool = False) -> Traffic:
    """Over HTTP, by wrk or by perf_analyzer."""

    def burst(server: Server, clients: int, seconds: float) -> Load:
        if official:
            return perf_analyzer_burst(server, payload, clients, seconds)
        return wrk_burst(server, payload, clients, seconds)

    return Traffic(lambda server: check(server, payload), burst)


def grpc_traffic(payload: GrpcPayload, *, official: bool = False) -> Traffic:
    """Over gRPC, by h2load or by perf_analyzer."""

    def burst(server: Server, clients: int, seconds: float) -> Load:
        if official:
            return perf_analyzer_burst(server, payload, clients, seconds)
        return h2load_burst(server, payload, clients, seconds)

    return Traffic(lambda server: grpc_check(server, payload), burst)


def counts(server: Server, model: str) -> Counts:
    """What the server says that it has done for the model."""
    found = json.loads(server.get(f"/v2/models/{model}/stats")[1])["model_stats"][0]
    spans = [batch["compute_infer"] for batch in found.get("batch_stats", ())]
    return Counts(
        requests=found["inference_stats"]["success"]["count"],
        failures=found["inference_stats"]["fail"]["count"],
        rows=found["inference_count"],
        executions=found["execution_count"],
        executing_ns=sum(span["ns"] for span in spans),
    )


class _Meter:
    """What the server did and used while a burst went on."""

    def __init__(self, server: Server, model: str) -> None:
        self._server = server
        self._model = model
        self._before = counts(server, model)
        self._cpu_us = server.cpu_us()
        self._started = time.perf_counter()

    def load(self, rate: float, p50_us: float, p99_us: float, answered: int = 0) -> Load:
        """The burst's result. Raises RuntimeError where fewer requests succeeded than the client saw ``answered``."""
        elapsed, used = time.perf_counter() - self._started, self._server.cpu_us() - self._cpu_us
        now, before = counts(self._server, self._model), self._before
        end = time.perf_counter() + _COUNTED_WITHIN_S
        while now.requests - before.requests < answered and time.perf_counter() < end:
            now = counts(self._server, self._model)
        requests = now.requests - before.requests
        if requests < max(1, answered):
            failed = now.failures - before.failures
            raise RuntimeError(f"{self._server.name}: {answered} answers, {requests} of them good, {failed} failures")
        rows, executions = now.rows - before.rows, now.executions - before.executions
        busy = (now.executing_ns - before.executing_ns) / 1e9 / elapsed
        return Load(rate, p50_us, p99_us, used / requests, rows / max(1, executions), busy)


def check(server: Server, payload: Payload) -> bytes:
    """The body of one answer. Raises RuntimeError unless the server serves the payload with status 200."""
    status, body = server.post(payload.path, payload.body, payload.headers)
    if status != servers.OK:
        raise RuntimeError(f"{server.name} answered {payload.path} with {status}: {body[:300]!r}")
    server.raise_priority()
    return body


def grpc_check(server: Server, payload: GrpcPayload) -> bytes:
    """The message of one answer over gRPC. Raises RuntimeError unless there is one with an output."""
    try:
        messages = http2_call.call(server.grpc_port, grpc_messages.UNARY, payload.message).messages
    except (OSError, http2_call.CallFailed) as error:
        raise RuntimeError(f"{server.name} does not serve gRPC on port {server.grpc_port}: {error}") from error
    if len(messages) != 1 or not grpc_messages.infer_answer(messages[0]).outputs:
        raise RuntimeError(f"{server.name} refused a request to {payload.model} over gRPC")
    server.raise_priority()
    return messages[0]


def wrk_burst(server: Server, payload: Payload, clients: int, seconds: float) -> Load:
    """Load with ``clients`` connections from one wrk thread, each sending its next request after its answer."""
    meter = _Meter(server, payload.model)
    with wrk_command(server, payload, clients, seconds) as command:
        output = _output(command, seconds + 60)
    result = json.loads(output.strip().splitlines()[-1])
    if result["bad_status"] or result["socket_errors"]:
        raise RuntimeError(
            f"{server.name}: {result['bad_status']} bad answers, {result['socket_errors']} broken sockets"
        )
    rate = result["requests"] * 1e6 / result["duration_us"]
    return meter.load(rate, result["p50_us"], result["p99_us"], result["requests"])


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


def h2load_burst(server: Server, payload: GrpcPayload, clients: int, seconds: float) -> Load:
    """Load over gRPC with ``clients`` connections from one h2load thread; it knows no gRPC, so the server counts."""
    if shutil.which("h2load") is None:
        raise LoadGeneratorMissing("h2load is not installed (apt-get install nghttp2-client)")
    whole = max(1, round(seconds))
    meter = _Meter(server, payload.model)
    with tempfile.NamedTemporaryFile(suffix=".body") as body, tempfile.NamedTemporaryFile(suffix=".log") as log:
        body.write(grpc_messages.framed(payload.message))
        body.flush()
        size = ["--threads=1", f"--clients={clients}", "--max-concurrent-streams=1", f"--duration={whole}"]
        headers = ["--header=content-type: application/grpc", "--header=te: trailers"]
        url = f"http://127.0.0.1:{server.grpc_port}{grpc_messages.UNARY}"
        _output(["h2load", *size, f"--data={body.name}", f"--log-file={log.name}", *headers, url], seconds + 60)
        latencies = h2load_latencies(Path(log.name).read_text())
    if not latencies:
        raise RuntimeError(f"{server.name}: not one answer over gRPC")
    return meter.load(len(latencies) / whole, quantile(latencies, 0.5), quantile(latencies, 0.99), len(latencies))


def h2load_latencies(log: str) -> list[float]:
    """The latencies of answered requests in microseconds, sorted, from h2load's log (start, status, duration)."""
    lines = [line.split("\t") for line in log.splitlines()]
    return sorted(float(duration) for _, status, duration in lines if status == str(servers.OK))


def perf_analyzer_burst(server: Server, payload: Payload | GrpcPayload, clients: int, seconds: float) -> Load:
    """Load with the official generator, which makes the tensors itself: only the model's name and shapes are taken.

    The burst is three windows, whose mean it prints, however much they differ.
    """
    protocol, port = payload.perf_analyzer_protocol, server.port
    if protocol == "grpc":
        port = server.grpc_port
    command = [*peer.perf_analyzer_command(), "-m", payload.model, "-u", f"127.0.0.1:{port}", "-i", protocol, "-b", "1"]
    command += [part for shape in payload.shapes for part in ("--shape", shape)]
    window_ms = max(500, round(seconds * 1000 / 3))
    command += ["--concurrency-range", str(clients), "-p", str(window_ms), "-r", "3", "-s", "999"]
    meter = _Meter(server, payload.model)
    output = _output(command, seconds * 10 + 60)
    return meter.load(_number(output, "Throughput:"), _number(output, "p50 latency:"), _number(output, "p99 latency:"))


def _output(command: list[str], timeout_s: float) -> str:
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=timeout_s).stdout
    except subprocess.CalledProcessError as error:
        raise RuntimeError(f"{command[0]} failed: {(error.stderr or error.stdout)[-500:]}") from error
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"{command[0]} did not end within {timeout_s:.0f} s") from error


def _number(output: str, label: str) -> float:
    line = next(line for line in output.splitlines() if label in line)
    return float(line.split(label)[1].split()[0])
