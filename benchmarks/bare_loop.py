"""A model in a loop of its runtime and nothing else: what serving it is measured against; started by ``runtimes.py``.

    python benchmarks/bare_loop.py onnx|torch MODEL_FILE INPUT ROW_FLOATS THREADS SECONDS BATCH…

Prints one JSON line: rows a second and CPU microseconds by row, by batch size. THREADS compute, 0 for as many
as the runtime takes by itself. Each execution gets a ready tensor, and nobody looks at what comes out.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

Run: TypeAlias = "Callable[[np.ndarray[Any, Any]], object]"
WARM_UP_S = 0.2


def main() -> None:
    """Measure every batch size for its share of the time."""
    runtime, path, tensor, floats, threads, seconds, *batches = sys.argv[1:]
    run = {"onnx": _onnx, "torch": _torch}[runtime](path, tensor, int(threads))
    generator = np.random.default_rng(7)
    found: dict[str, dict[str, float]] = {}
    for batch in map(int, batches):
        rows = generator.random((batch, int(floats)), dtype=np.float32)
        _loop(run, rows, WARM_UP_S)
        found[str(batch)] = _loop(run, rows, float(seconds) / len(batches))
    print(json.dumps(found))


def _loop(run: Run, rows: np.ndarray[Any, Any], seconds: float) -> dict[str, float]:
    count, started, cpu = 0, time.perf_counter(), time.process_time()
    while (elapsed := time.perf_counter() - started) < seconds:
        for _ in range(10):
            run(rows)
        count += 10 * len(rows)
    return {"rows_s": count / elapsed, "cpu_us": (time.process_time() - cpu) * 1e6 / count}


def _onnx(path: str, tensor: str, threads: int) -> Run:
    import onnxruntime  # noqa: PLC0415  only one of the runtimes is needed

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda rows: session.run(None, {tensor: rows})


def _torch(path: str, _tensor: str, threads: int) -> Run:
    import torch  # noqa: PLC0415  only one of the runtimes is needed

    if threads:
        torch.set_num_threads(threads)
    module = torch.jit.load(path).eval()

    def run(rows: np.ndarray[Any, Any]) -> object:
        with torch.inference_mode():
            return module(torch.from_numpy(rows)).numpy()

    return run


if __name__ == "__main__":
    main()
