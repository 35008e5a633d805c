"""`make bench`: both servers on the same models in one run, in turn, and the ratios.

::

    python benchmarks/run.py                         everything, about a quarter of an hour
    python benchmarks/run.py simple large            some parts
    python benchmarks/run.py --generator perf_analyzer simple
    python benchmarks/run.py --generator prepared grpc
    python benchmarks/run.py --json                  also writes benchmarks/results/<time>.json
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import bls
import help_time
import loop_lag
import many_models
import peer
import runtimes
import stream
import throughput
from load import LoadGeneratorMissing
from report import Row, as_json, table
from servers import raise_priority, stop_on_sigterm
from throughput import Plan

if TYPE_CHECKING:
    from collections.abc import Callable

PARTS: dict[str, Callable[[Plan], list[Row]]] = {
    "simple": throughput.simple,
    "large": throughput.large,
    "grpc": throughput.simple_grpc,
    "grpc_large": throughput.large_grpc,
    "batched": throughput.batched,
    "instances": throughput.instances,
    "stream": stream.measure,
    "stream_single": stream.single,
    "bls": bls.measure,
    "digits": runtimes.measure,
    "models": many_models.measure,
    "lag": loop_lag.measure,
    "help": lambda _plan: help_time.measure(),
}


def main() -> int:
    """Run the chosen parts; 1 when one of them could not be measured."""
    arguments = _arguments()
    raise_priority(os.getpid())
    stop_on_sigterm()
    plan = _plan(arguments)
    print(f"# {platform.node()}: {os.cpu_count()} cores, Python {platform.python_version()}, {_generator(plan)}")
    print(f"# {plan.rounds} rounds of {plan.seconds:g} s each in turn; medians; CPU is the server's whole process tree")
    started = time.perf_counter()
    rows: list[Row] = []
    failed = False
    for part in arguments.parts or PARTS:
        print(f"# {part} …", file=sys.stderr, flush=True)
        try:
            rows.extend(PARTS[part](plan))
        except (LoadGeneratorMissing, RuntimeError, OSError) as error:
            failed = True
            print(f"# {part}: not measured: {error}")
    print(table(rows))
    print(f"# {time.perf_counter() - started:.0f} s in all")
    if arguments.json:
        print(f"# written to {_write(rows, plan)}")
    return int(failed)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="which parts (default: all)")
    parser.add_argument("--rounds", type=int, default=3, help="bursts a server and case")
    parser.add_argument("--seconds", type=float, default=3, help="length of a burst")
    generators = "prepared requests (wrk, h2load) or perf_analyzer; default: perf_analyzer for `grpc`, else prepared"
    parser.add_argument("--generator", choices=("prepared", "perf_analyzer"), default="", help=generators)
    parser.add_argument("--only", choices=("peer", "infer"), help="measure one server alone")
    parser.add_argument("--json", action="store_true", help="also write benchmarks/results/<time>.json")
    return parser.parse_args()


def _plan(arguments: argparse.Namespace) -> Plan:
    with_peer, generator = arguments.only != "infer", arguments.generator
    try:
        if with_peer:
            peer.install_triton()
    except peer.PeerUnavailable as error:
        print(f"# no comparison with Triton: {error}")
        with_peer = False
    official = generator == "perf_analyzer" or (not generator and "grpc" in (arguments.parts or PARTS))
    try:
        if official:
            peer.install_perf_analyzer()
    except peer.PeerUnavailable as error:
        print(f"# prepared requests instead of perf_analyzer: {error}")
        generator = "prepared"
    return Plan(arguments.rounds, arguments.seconds, generator, with_peer, arguments.only != "peer")


def _generator(plan: Plan) -> str:
    generator = {"": "a generator a part", "prepared": "wrk and h2load"}.get(plan.generator, plan.generator)
    return f"load from {generator}" + ("" if plan.with_peer else ", without the peer")


def _write(rows: list[Row], plan: Plan) -> Path:
    folder = Path(__file__).with_name("results")
    folder.mkdir(exist_ok=True)
    path = folder / f"{time.strftime('%Y%m%dT%H%M%S')}.json"
    document: dict[str, Any] = {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "generator": plan.generator,
        "rounds": plan.rounds,
        "seconds": plan.seconds,
        "rows": as_json(rows),
    }
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    return path


if __name__ == "__main__":
    sys.exit(main())
