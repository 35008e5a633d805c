"""Calls a second that one model makes to another one (BLS), one after the other, both Python models of one server."""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import servers
from report import Row, Target, median
from throughput import MODELS, both

if TYPE_CHECKING:
    from collections.abc import Callable

    from servers import Server
    from throughput import Plan

CALLS = 500
"""How many one request makes; requests follow each other until the burst is over."""


@dataclass(frozen=True)
class CallLoad:
    """One burst. Times are microseconds by call; CPU is the server's whole process tree's."""

    rate: float
    call_us: float
    cpu_us: float


MEASURES: tuple[tuple[str, Callable[[CallLoad], float], Target | None], ...] = (
    ("calls/s", lambda found: found.rate, Target(1.5)),
    ("µs/call", lambda found: found.call_us, None),
    ("CPU µs/call", lambda found: found.cpu_us, None),
)


def measure(plan: Plan) -> list[Row]:
    """Both servers in turn, a burst at a time."""
    measured: dict[str, list[CallLoad]] = {}
    with contextlib.ExitStack() as stack:
        running = [stack.enter_context(server) for server in both(plan, MODELS)]
        for server in running:
            ask(server, CALLS)
            server.raise_priority()
        for _ in range(plan.rounds):
            for server in running:
                measured.setdefault(server.name, []).append(burst(server, plan.seconds))
    return [
        Row(
            "bls",
            "one after the other",
            measure,
            median([pick(found) for found in measured.get("infer", ())]),
            median([pick(found) for found in measured.get("triton", ())]),
            target,
        )
        for measure, pick, target in MEASURES
    ]


def burst(server: Server, seconds: float) -> CallLoad:
    """Requests for ``CALLS`` calls each, for so long."""
    cpu_us, started, calls = server.cpu_us(), time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        ask(server, CALLS)
        calls += CALLS
    elapsed = time.perf_counter() - started
    return CallLoad(calls / elapsed, elapsed * 1e6 / calls, (server.cpu_us() - cpu_us) / calls)


def ask(server: Server, calls: int) -> None:
    """One request for so many calls. Raises RuntimeError unless each of them was right."""
    tensor = {"name": "COUNT", "datatype": "INT32", "shape": [1], "data": [calls]}
    body = json.dumps({"inputs": [tensor]}).encode()
    status, answer = server.post("/v2/models/bls_calls/infer", body, {"Content-Type": "application/json"})
    if status != servers.OK:
        raise RuntimeError(f"{server.name} answered bls_calls with {status}: {answer[:300]!r}")
    right = json.loads(answer)["outputs"][0]["data"][0]
    if right != calls:
        raise RuntimeError(f"{server.name}: {right} of {calls} calls gave the right sum")
