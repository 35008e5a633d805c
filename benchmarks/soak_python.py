"""`make soak-python`: loads, exceptions, decoupled responses and killed workers in numbers; nothing of them is left.

::

    python benchmarks/soak_python.py                    1,000 loads, 100,000 exceptions, 100,000 responses, 200 kills
    python benchmarks/soak_python.py --scale 0.02       the same, shorter
    python benchmarks/soak_python.py loads kills        some parts

Each part has a server of its own. A tenth of the part goes first; what the server's processes hold after that is what
they may hold at the end: as many processes, descriptors, memfds, sockets and threads, no entry more in /dev/shm, and
5 % more memory at most. The server's thread pools are full from the beginning (``full_pools.py``). Every call has to
be answered once, rightly, or with the error that the part causes. Exit status 1 where anything does not hold; each on
a line that starts with ``!``.
"""

from __future__ import annotations

import argparse
import math
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import servers
from soak_footprint import Kin, kin, kin_growth
from soak_python_parts import parts
from soak_server import complaints, counters, quiet

if TYPE_CHECKING:
    from servers import Server
    from soak_ledger import Counted
    from soak_python_parts import Part, Seen

HERE = Path(__file__).parent
FULL_POOLS = HERE / "full_pools.py"
WARM_UP_SHARE = 0.1
RSS_SHARE = 0.05
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  where the kernel has it
PEERS_SHARED_MEMORY = "triton_python_backend_shm"
"""How the names of the real Triton's regions begin, which may run beside this."""


@dataclass(frozen=True)
class Outcome:
    """What a part came to: what its clients saw, and what the processes held before and after."""

    seen: Seen
    seconds: float
    before: dict[str, Kin]
    after: dict[str, Kin]
    problems: list[str]


def main() -> int:
    """Soak; 1 where something does not hold."""
    known = {part.name: part for part in parts()}
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[*known, []], help="which parts (default: all)")
    parser.add_argument("--scale", type=float, default=1.0, help="the share of each part's size")
    arguments = parser.parse_args()
    servers.stop_on_sigterm()
    found: list[str] = []
    for name in arguments.parts or known:
        outcome = soak(known[name], arguments.scale)
        print(table(name, outcome), flush=True)
        found += [f"{name}: {problem}" for problem in outcome.problems]
    for sentence in found:
        print(f"! {sentence}")
    print("# " + (f"{len(found)} things do not hold" if found else "everything holds"))
    return int(bool(found))


def soak(part: Part, scale: float) -> Outcome:
    """One part on a server of its own."""
    with tempfile.TemporaryDirectory(prefix="infer-soak-") as folder:
        for name, source in part.models.items():
            shutil.copytree(HERE / source, Path(folder) / name, ignore=shutil.ignore_patterns("__pycache__"))
        # The log keeps its newest 2,000 records, which a warm-up would not fill.
        control = ["--model-control-mode=explicit", "--log-info=false", *(["--load-model=*"] if part.loaded else [])]
        server = servers.infer(Path(folder), *control)
        server.command = [sys.executable, str(FULL_POOLS), *server.command[1:]]
        with server:
            outcome = _soak(server, part, scale)
        if server.exit_status:
            outcome.problems.append(f"the server ended with status {server.exit_status}")
        return outcome


def sizes(part: Part, scale: float) -> tuple[int, int]:
    """Units to warm up with, and units that count."""
    count = max(1, math.ceil(part.count * scale))
    return max(part.warm_up, math.ceil(count * WARM_UP_SHARE)), count


def _soak(server: Server, part: Part, scale: float) -> Outcome:
    warm_up, count = sizes(part, scale)
    names = shared_names()
    found = part.drive(server, warm_up).problems()
    quiet(server)
    counted, before = counters(server), kin(server.tree())
    started = time.perf_counter()
    seen = part.drive(server, count)
    seconds = time.perf_counter() - started
    found += [*seen.problems(), *quiet(server)]
    after = kin(server.tree())
    found += ledger(part, seen, counted, counters(server))
    found += kin_growth(before, after, RSS_SHARE)
    found += [f"{SHARED_MEMORY} has a new entry {name}" for name in sorted(shared_names() - names)]
    return Outcome(seen, seconds, before, after, [*found, *complaints(server)])


def ledger(part: Part, seen: Seen, before: dict[str, Counted], after: dict[str, Counted]) -> list[str]:
    """Whether the server has counted each call once, where its models stayed loaded."""
    if not part.counting:
        return []
    (model,) = part.models
    had = after[model].since(before[model]) if model in before else after[model]
    counted = {"success": had.success, "failures": had.failures.total()}
    other = next(name for name in counted if name != part.counting)
    if counted[part.counting] == seen.begun and not counted[other]:
        return []
    return [f"{seen.begun} calls, and the server counts {had.success} successes, {had.failures.total()} failures"]


def shared_names() -> set[str]:
    """What is in /dev/shm, but for the peer's."""
    return {path.name for path in SHARED_MEMORY.iterdir() if not path.name.startswith(PEERS_SHARED_MEMORY)}


def table(name: str, outcome: Outcome) -> str:
    """What the part came to, as lines."""
    seen = outcome.seen
    counts = f"{seen.begun:,} calls = {seen.answered:,} answered + {seen.excused:,} excused"
    lines = [f"# {name}: {counts}; {len(seen.wrong)} wrong; {outcome.seconds:.1f} s"]
    for kind, had in outcome.before.items():
        has = outcome.after[kind]
        pairs = [(field.name, getattr(had, field.name), getattr(has, field.name)) for field in fields(Kin)]
        lines.append(
            f"#   {kind:<8}" + "".join(f"  {what} {_number(old)} → {_number(new)}" for what, old, new in pairs)
        )
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:.1f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main())
