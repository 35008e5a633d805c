"""Load on ``infer.Server``, the in-process API, from threads of the same process; started by ``runtimes.py``.

    python benchmarks/embedded_load.py REPOSITORY MODEL INPUT ROW_FLOATS ROWS_A_REQUEST THREADS SECONDS

Prints one JSON line: rows a second, CPU microseconds of the process by row, rows by execution, and the share of the
time that an execution was under way.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

import numpy as np

from infer import Server


def main() -> None:
    """Send from all threads until the time is up."""
    repository, model, tensor = sys.argv[1:4]
    floats, rows, threads = map(int, sys.argv[4:7])
    seconds = float(sys.argv[7])
    inputs = {tensor: np.random.default_rng(7).random((rows, floats), dtype=np.float32)}
    with Server(repository, model_control_mode="explicit", load_model=(model,)) as server:
        _send(server, model, inputs, threads, 1.0)
        before, cpu = server.statistics(model)[0], time.process_time()
        started = time.perf_counter()
        _send(server, model, inputs, threads, seconds)
        elapsed, used, after = time.perf_counter() - started, time.process_time() - cpu, server.statistics(model)[0]
    served, executions = after.inference_count - before.inference_count, after.execution_count - before.execution_count
    executing = _executing_ns(after) - _executing_ns(before)
    found = {
        "rows_s": served / elapsed,
        "cpu_us": used * 1e6 / served,
        "batch": served / executions,
        "busy": executing / 1e9 / elapsed,
    }
    print(json.dumps(found))


def _send(server: Server, model: str, inputs: dict[str, Any], threads: int, seconds: float) -> None:
    end = time.perf_counter() + seconds

    def client() -> None:
        while time.perf_counter() < end:
            server.infer(model, inputs)

    clients = [threading.Thread(target=client, name=f"client-{index}") for index in range(threads)]
    for thread in clients:
        thread.start()
    for thread in clients:
        thread.join()


def _executing_ns(snapshot: Any) -> int:  # noqa: ANN401  a ModelSnapshot
    return sum(batch.compute_infer.ns for batch in snapshot.batches)


if __name__ == "__main__":
    main()
