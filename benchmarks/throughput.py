"""Requests a second, latency and CPU per request: `simple` over HTTP, and 602 KB each way; both servers in turn."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import load
import payloads
import servers
from report import Row, Target, median

if TYPE_CHECKING:
    from collections.abc import Callable

    from load import Load
    from payloads import Payload
    from servers import Server

MODELS = Path(__file__).with_name("models")
IMAGE_FLOATS = 150_528
"""A 224 by 224 RGB image in FP32: 602 KB."""

MEASURES: tuple[tuple[str, Callable[[Load], float]], ...] = (
    ("requests/s", lambda burst: burst.rate),
    ("p50 µs", lambda burst: burst.p50_us),
    ("p99 µs", lambda burst: burst.p99_us),
    ("CPU µs/request", lambda burst: burst.cpu_us),
)

Burst = "Callable[[Server, Payload, int, float], Load]"


@dataclass(frozen=True)
class Plan:
    """How long and how often: ``rounds`` times each server in turn, ``seconds`` a burst."""

    rounds: int
    seconds: float
    generator: str
    with_peer: bool
    with_infer: bool = True


def simple(plan: Plan) -> list[Row]:
    """`simple` at 1, 4, 16 and 64 clients."""
    targets = {clients: {"requests/s": Target(1.2)} for clients in (4, 16, 64)}
    targets[1] = {"p50 µs": Target(1.1, at_most=True)}
    return _compare("simple", plan, payloads.simple(), (1, 4, 16, 64), targets)


def large(plan: Plan) -> list[Row]:
    """602 KB each way at 1 and 16 clients, always with wrk: perf_analyzer keeps every tensor in memory."""
    targets = {clients: {"requests/s": Target(1.0)} for clients in (1, 16)}
    with_wrk = Plan(plan.rounds, plan.seconds, "wrk", plan.with_peer, plan.with_infer)
    return _compare("602 KB", with_wrk, payloads.floats(IMAGE_FLOATS), (1, 16), targets)


def _compare(
    part: str, plan: Plan, payload: Payload, clients: tuple[int, ...], targets: dict[int, dict[str, Target]]
) -> list[Row]:
    burst = load.perf_analyzer_burst if plan.generator == "perf_analyzer" else load.wrk_burst
    rows: list[Row] = []
    with contextlib.ExitStack() as stack:
        running = [stack.enter_context(server) for server in _both(plan)]
        sizes = {len(load.check(server, payload)) for server in running}
        if max(sizes) > 1.1 * min(sizes):
            raise RuntimeError(f"{part}: the servers' answers differ in size: {sorted(sizes)} bytes")
        for server in running:
            load.wrk_burst(server, payload, 4, 1)
        for count in clients:
            measured: dict[str, list[Load]] = {server.name: [] for server in running}
            for _ in range(plan.rounds):
                for server in running:
                    measured[server.name].append(burst(server, payload, count, plan.seconds))
            case = f"{count} client{'s' if count > 1 else ''}"
            rows.extend(_rows(part, case, measured, targets.get(count, {})))
    return rows


def _both(plan: Plan) -> list[Server]:
    started = [servers.triton(MODELS)] if plan.with_peer else []
    return [*started, servers.infer(MODELS)] if plan.with_infer else started


def _rows(part: str, case: str, measured: dict[str, list[Load]], targets: dict[str, Target]) -> list[Row]:
    return [
        Row(
            part,
            case,
            measure,
            ours=median([read(burst) for burst in measured.get("infer", ())]),
            peer=median([read(burst) for burst in measured.get("triton", ())]),
            target=targets.get(measure),
        )
        for measure, read in MEASURES
    ]
