"""Requests a second, latency and CPU per request, over HTTP and gRPC; both servers in turn on the same models."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import load
import payloads
import servers
from report import Row, Target, median

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from load import Load, Traffic
    from servers import Server

MODELS = Path(__file__).with_name("models")
IMAGE_FLOATS = 150_528
"""A 224 by 224 RGB image in FP32: 602 KB."""
FEW_FLOATS = 16
BATCHED = "identity_batched"
INSTANCES = 4

Measures: TypeAlias = "Sequence[tuple[str, Callable[[Load], float]]]"

MEASURES: Measures = (
    ("requests/s", lambda burst: burst.rate),
    ("p50 µs", lambda burst: burst.p50_us),
    ("p99 µs", lambda burst: burst.p99_us),
    ("CPU µs/request", lambda burst: burst.cpu_us),
)
BATCH_MEASURES: Measures = (*MEASURES, ("rows/execution", lambda burst: burst.batch))


@dataclass(frozen=True)
class Plan:
    """How long and how often: ``rounds`` times each server in turn, ``seconds`` a burst.

    ``generator`` is `prepared` (wrk, h2load), `perf_analyzer`, or empty for what each part does by itself.
    """

    rounds: int
    seconds: float
    generator: str
    with_peer: bool
    with_infer: bool = True


@dataclass(frozen=True)
class Case:
    """What is compared: how a part is called in the table, its traffic, and what the ratios must reach by clients."""

    part: str
    traffic: Traffic
    targets: dict[int, dict[str, Target]]
    measures: Measures = MEASURES


def simple(plan: Plan) -> list[Row]:
    """`simple` over HTTP at 1, 4, 16 and 64 clients."""
    targets = {clients: {"requests/s": Target(1.2)} for clients in (4, 16, 64)}
    targets[1] = {"p50 µs": Target(1.1, at_most=True)}
    traffic = load.http_traffic(payloads.simple(), official=plan.generator == "perf_analyzer")
    return compare(plan, MODELS, [Case("simple", traffic, targets)])


def simple_grpc(plan: Plan) -> list[Row]:
    """`simple` over gRPC at 1, 4, 16 and 64 clients, by the official generator unless another one is asked for."""
    targets = {clients: {"requests/s": Target(1.0)} for clients in (4, 16)}
    targets[1] = {"p50 µs": Target(1.4, at_most=True)}
    targets[64] = {}
    traffic = load.grpc_traffic(payloads.simple_grpc(), official=plan.generator != "prepared")
    return compare(plan, MODELS, [Case("simple gRPC", traffic, targets)])


def large(plan: Plan) -> list[Row]:
    """602 KB each way through a Python worker, over HTTP at 1 and 16 clients, always with wrk.

    perf_analyzer keeps every tensor in memory.
    """
    traffic = load.http_traffic(payloads.floats(IMAGE_FLOATS))
    return compare(plan, MODELS, [Case("602 KB", traffic, _rates((1, 16), 1.3))])


def large_grpc(plan: Plan) -> list[Row]:
    """The same over gRPC, always with h2load."""
    traffic = load.grpc_traffic(payloads.floats_grpc(IMAGE_FLOATS))
    return compare(plan, MODELS, [Case("602 KB gRPC", traffic, _rates((1, 16), 1.0))])


def batched(plan: Plan) -> list[Row]:
    """The Python model identity_fp32 with dynamic batching: one row a request, 16 and 64 clients, both doors."""
    official = plan.generator == "perf_analyzer"
    over_http = load.http_traffic(payloads.floats(FEW_FLOATS, BATCHED), official=official)
    over_grpc = load.grpc_traffic(payloads.floats_grpc(FEW_FLOATS, BATCHED), official=official)
    cases = [
        Case("batched HTTP", over_http, _rates((16, 64), 0.9), BATCH_MEASURES),
        Case("batched gRPC", over_grpc, _rates((16, 64), 0.9), BATCH_MEASURES),
    ]
    with batched_repository() as repository:
        return compare(plan, repository, cases)


def instances(plan: Plan) -> list[Row]:
    """`simple` with several instances over HTTP at 16 clients."""
    traffic = load.http_traffic(payloads.simple(), official=plan.generator == "perf_analyzer")
    with changed_repository("simple", "simple", "count: 1", f"count: {INSTANCES}") as repository:
        return compare(plan, repository, [Case(f"{INSTANCES} instances", traffic, _rates((16,), 1.2))])


def batched_repository() -> contextlib.AbstractContextManager[Path]:
    """A repository with identity_fp32 under another name and with a batcher, the same files for both servers."""
    return changed_repository("identity_fp32", BATCHED, "instance_group", "dynamic_batching { }\ninstance_group")


@contextlib.contextmanager
def changed_repository(model: str, name: str, text: str, replacement: str) -> Generator[Path]:
    """A repository with a model under another name and with a change of its configuration, for both servers."""
    with tempfile.TemporaryDirectory(prefix="infer-bench-") as folder:
        copy = Path(folder) / name
        shutil.copytree(MODELS / model, copy, ignore=shutil.ignore_patterns("__pycache__"))
        config = copy / "config.pbtxt"
        renamed = config.read_text().replace(f'name: "{model}"', f'name: "{name}"')
        config.write_text(renamed.replace(text, replacement))
        yield Path(folder)


def both(plan: Plan, repository: Path) -> list[Server]:
    """The servers of a plan on a repository, not started yet."""
    started = [servers.triton(repository)] if plan.with_peer else []
    return [*started, servers.infer(repository)] if plan.with_infer else started


def compare(plan: Plan, repository: Path, cases: Sequence[Case]) -> list[Row]:
    """Load both servers in turn with each case; a row a measure. Raises RuntimeError where one answers wrongly."""
    rows: list[Row] = []
    with contextlib.ExitStack() as stack:
        running = [stack.enter_context(server) for server in both(plan, repository)]
        for case in cases:
            sizes = {len(case.traffic.check(server)) for server in running}
            if max(sizes) > 1.1 * min(sizes):
                raise RuntimeError(f"{case.part}: the servers' answers differ in size: {sorted(sizes)} bytes")
            for server in running:
                case.traffic.burst(server, 4, 1)
            for clients, targets in sorted(case.targets.items()):
                measured = _turns(plan, running, case.traffic, clients)
                name = f"{clients} client{'s' if clients > 1 else ''}"
                rows.extend(_rows(case, name, measured, targets))
    return rows


def _turns(plan: Plan, running: Sequence[Server], traffic: Traffic, clients: int) -> dict[str, list[Load]]:
    measured: dict[str, list[Load]] = {server.name: [] for server in running}
    for _ in range(plan.rounds):
        for server in running:
            measured[server.name].append(traffic.burst(server, clients, plan.seconds))
    return measured


def _rates(clients: Sequence[int], limit: float) -> dict[int, dict[str, Target]]:
    return {count: {"requests/s": Target(limit)} for count in clients}


def _rows(case: Case, name: str, measured: dict[str, list[Load]], targets: dict[str, Target]) -> list[Row]:
    return [
        Row(
            case.part,
            name,
            measure,
            ours=median([read(burst) for burst in measured.get("infer", ())]),
            peer=median([read(burst) for burst in measured.get("triton", ())]),
            target=targets.get(measure),
        )
        for measure, read in case.measures
    ]
