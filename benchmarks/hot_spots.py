"""Where our loop spends a request: every function by its own time, with calls and microseconds per request.

::

    python benchmarks/hot_spots.py simple 16         `simple` at 16 clients
    python benchmarks/hot_spots.py large 1           602 KB each way at one client
    python benchmarks/hot_spots.py grpc 16           `simple` over gRPC; `grpc_large` likewise
    python benchmarks/hot_spots.py stream_single     one response a request on a stream; a request is a response there
    python benchmarks/hot_spots.py bls               calls of one model from another; a request is a call there

The server runs in this process with Python's own profiler on its loop. The profiler makes everything slower, small
functions most: read the order and the calls, not the sum. **Calls per request** do not depend on how busy the machine
is: they are the figure to bring down.
"""

from __future__ import annotations

import cProfile
import pstats
import sys
import threading
import time
from pathlib import Path
from typing import Any

import bls
import load
import payloads
import servers
import stream
import throughput

from infer.app.settings import from_command_line
from infer.app.wiring import build

SECONDS = 4
SHOWN = 60
ROOT = Path(__file__).resolve().parents[1]


def _streams(server: servers.Server, _clients: int, seconds: float) -> Any:  # noqa: ANN401  has a rate, as a Load has
    end = time.perf_counter() + seconds
    found = stream.ask(server, stream.REQUESTS // 10)
    while time.perf_counter() < end:
        found = stream.ask(server, stream.REQUESTS // 10)
    return found


TRAFFIC = {
    "simple": load.http_traffic(payloads.simple()),
    "large": load.http_traffic(payloads.floats(throughput.IMAGE_FLOATS)),
    "grpc": load.grpc_traffic(payloads.simple_grpc()),
    "grpc_large": load.grpc_traffic(payloads.floats_grpc(throughput.IMAGE_FLOATS)),
    "stream_single": load.Traffic(lambda _server: b"", _streams),
    "bls": load.Traffic(lambda _server: b"", lambda server, _clients, seconds: bls.burst(server, seconds)),
}


class HereServer(servers.Server):
    """The server in this process, as the load generator wants it."""

    def cpu_us(self) -> float:
        """CPU time of this process alone."""
        return time.process_time() * 1e6


def main() -> None:
    """Load the server and print the table."""
    part = sys.argv[1] if len(sys.argv) > 1 else "simple"
    clients = int(sys.argv[2]) if len(sys.argv) > len(("script", "part")) else 16
    traffic = TRAFFIC[part]
    ours = servers.infer(throughput.MODELS)
    running = build(from_command_line(ours.command[2:]))
    running.start()
    try:
        here = HereServer(ours.name, [], {}, ours.port, ours.grpc_port, ours.operator_port, ours.log)
        traffic.burst(here, clients, 1)
        profile = cProfile.Profile()
        done = threading.Event()
        running.serving_loop.call_soon(profile.enable)
        burst = traffic.burst(here, clients, SECONDS)
        running.serving_loop.call_soon(lambda: (profile.disable(), done.set()))
        done.wait()
    finally:
        running.drain(5)
        running.stop()
    _print(pstats.Stats(profile), burst.rate * SECONDS)


def _print(stats: Any, requests: float) -> None:  # noqa: ANN401  pstats has no types for its table
    rows = sorted(
        ((own / requests * 1e6, calls / requests, place) for place, (_, calls, own, _, _) in stats.stats.items()),
        reverse=True,
    )
    print(f"{requests:,.0f} requests, {sum(row[1] for row in rows):.0f} calls per request")
    for own, calls, (file, line, name) in rows[:SHOWN]:
        place = f"{file.removeprefix(f'{ROOT}/')}:{line} " if line else ""
        print(f"{own:7.1f} µs {calls:6.1f} calls  {place}{name}")


if __name__ == "__main__":
    main()
