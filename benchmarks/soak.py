"""`make soak`: a crowd of clients that come and go, then nothing pending, nothing leaked, and counters that add up.

::

    python benchmarks/soak.py                                200 streams and 500 unary clients for 60 s
    python benchmarks/soak.py --seconds 5 --streams 20 --unary 50
    python benchmarks/soak.py --peer                         the same crowd on a real Triton

The crowd works on the server for a while first: what it holds after that is what it may hold at the end. Exit status
1 where anything does not hold; each on a line that starts with ``!``. What must add up: ``soak_ledger.py``.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import peer
import servers
from soak_clients import Crowd, drive
from soak_footprint import Held, footprint, growth
from soak_ledger import Counted, Tally, problems
from soak_server import complaints, counters, quiet

if TYPE_CHECKING:
    from servers import Server

MODELS = Path(__file__).with_name("soak_models")
WARM_UP_SHARE, WARM_UP_LEAST_S = 0.25, 3.0


def main() -> int:
    """Soak a server; 1 where something does not hold."""
    arguments = _arguments()
    servers.stop_on_sigterm()
    if arguments.peer:
        peer.install_triton()
    server = servers.triton(MODELS) if arguments.peer else servers.infer(MODELS)
    with server:
        found = _soak(server, arguments)
    if server.exit_status:
        found.append(f"the server ended with status {server.exit_status}")
    for sentence in found:
        print(f"! {sentence}")
    print("# " + (f"{len(found)} things do not hold" if found else "everything holds"))
    return int(bool(found))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60, help="how long the crowd works")
    parser.add_argument("--streams", type=int, default=200, help="streams at a time")
    parser.add_argument("--unary", type=int, default=500, help="clients that send one request after the other")
    parser.add_argument("--channels", type=int, default=8, help="connections")
    parser.add_argument("--seed", type=int, default=7, help="of the crowd's choices")
    parser.add_argument("--cut", type=float, default=0.25, help="share of the calls that are cut short")
    parser.add_argument("--rss-mib", type=float, default=32, help="how much a process may grow")
    parser.add_argument("--peer", action="store_true", help="soak a real Triton instead")
    return parser.parse_args()


def _soak(server: Server, arguments: argparse.Namespace) -> list[str]:
    warm_up_s = max(WARM_UP_LEAST_S, arguments.seconds * WARM_UP_SHARE)
    size = (arguments.streams, arguments.unary, arguments.channels)
    asyncio.run(drive(server.grpc_port, Crowd(*size, warm_up_s, arguments.seed + 1, arguments.cut)))
    quiet(server)
    before, held = counters(server), footprint(server.tree())
    cpu_us, started = server.cpu_us(), time.perf_counter()
    crowd = Crowd(*size, arguments.seconds, arguments.seed, arguments.cut)
    tallies = asyncio.run(drive(server.grpc_port, crowd))
    elapsed = time.perf_counter() - started
    print(f"# {server.name}: {elapsed:.0f} s, {(server.cpu_us() - cpu_us) / 1e6 / elapsed:.2f} cores")
    found = quiet(server)
    after, holds = counters(server), footprint(server.tree())
    for model, tally in tallies.items():
        had = after[model].since(before[model])
        _print(model, tally, had)
        found += problems(model, tally, had)
    _print_held(held, holds)
    return [*found, *growth(held, holds, arguments.rss_mib), *complaints(server)]


def _print(model: str, tally: Tally, had: Counted) -> None:
    never = tally.begun - had.accepted
    print(
        f"# {model}: {tally.begun} begun = {tally.answered} answered + {tally.cut} cut + {tally.refused} refused; "
        f"{had.accepted} accepted = {had.success} success + {had.failures.total()} failed "
        f"{dict(+had.failures)}; {never} never accepted; {tally.responses} responses; {had.pending} pending"
    )


def _print_held(before: dict[int, Held], after: dict[int, Held]) -> None:
    for pid in sorted({*before, *after}):
        print(f"# process {pid}: before {before.get(pid)}; after {after.get(pid)}")


if __name__ == "__main__":
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    sys.exit(main())
