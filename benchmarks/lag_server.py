"""Our server with a probe on its loop; started by ``loop_lag.py`` with the arguments of `infer serve`.

The probe asks the loop to be woken every 2 ms and notes by how much it was late. SIGUSR1 forgets what was noted so
far, SIGINT stops the server; then the noted percentiles are in the file that INFER_BENCH_LAG_FILE names.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from infer.app.run import keep_freed_memory, settle
from infer.app.settings import from_command_line
from infer.app.wiring import build

if TYPE_CHECKING:
    import asyncio

INTERVAL_S = 0.002


class LagProbe:
    """Notes, in milliseconds, how late a loop wakes it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """``start`` and ``forget`` are called on the loop."""
        self._loop = loop
        self._late_ms: list[float] = []
        self._due = 0.0

    def start(self) -> None:
        """Ask to be woken."""
        # The loop's own clock counts whole milliseconds.
        self._due = time.perf_counter() + INTERVAL_S
        self._loop.call_later(INTERVAL_S, self._woken)

    def forget(self) -> None:
        """Begin anew."""
        self._late_ms.clear()

    def percentiles(self) -> dict[str, float]:
        """What was noted; the loop has ended."""
        late = sorted(self._late_ms) or [0.0]
        shares = {"p50_ms": 0.5, "p99_ms": 0.99, "max_ms": 1.0}
        noted = {name: late[min(len(late) - 1, int(len(late) * share))] for name, share in shares.items()}
        return {**noted, "count": len(self._late_ms)}

    def _woken(self) -> None:
        self._late_ms.append(max(0.0, time.perf_counter() - self._due) * 1000)
        self.start()


def main() -> None:
    """Serve until SIGINT."""
    keep_freed_memory()
    stop = threading.Event()
    server = build(from_command_line(sys.argv[2:]))
    loop = server.serving_loop.loop
    probe = LagProbe(loop)
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    signal.signal(signal.SIGUSR1, lambda *_: loop.call_soon_threadsafe(probe.forget))
    server.start()
    settle()
    loop.call_soon_threadsafe(probe.start)
    stop.wait()
    server.stop()
    Path(os.environ["INFER_BENCH_LAG_FILE"]).write_text(json.dumps(probe.percentiles()))


if __name__ == "__main__":
    main()
