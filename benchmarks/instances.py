"""What instances, batches and threads of a Python model cost and bring: the numbers of ``model_repository/README.md``.

    python benchmarks/instances.py [weights] [batch] [threads] [bound]

Every part serves small models that it makes itself, in this process, without ports. Memory is PSS, which counts a page
that several processes share by share.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil

import infer
from infer.backends.api.errors import InferError

if TYPE_CHECKING:
    from collections.abc import Callable

WEIGHTS_MB = 100
SIDE = 5000
"""SIDE x SIDE FP32 numbers are WEIGHTS_MB."""
ROUNDS = 10
REQUESTS = 64
PAUSE_S = 0.005
"""Between two requests; WORK["wait"] takes 0.02 s in a thread."""

CONFIG = """
backend: "python"
max_batch_size: %(rows)d
%(more)s
input [ { name: "IN" data_type: TYPE_FP32 dims: [ %(width)d ] } ]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ %(width)d ] } ]
instance_group [ { kind: KIND_CPU count: %(instances)d } ]
parameters { key: "OPTIONS" value: { string_value: '%(options)s' } }
"""

MATRIX = '''
"""Multiplies by a matrix: read by each instance, or mapped by all from the same pages."""
import json
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        options = json.loads(json.loads(args["model_config"])["parameters"]["OPTIONS"]["string_value"])
        self.matrix = np.load(options["file"], mmap_mode=options["mode"]) if options["file"] else None

    def execute(self, requests):
        rows = [pb_utils.get_input_tensor_by_name(each, "IN").as_numpy() for each in requests]
        if self.matrix is None:
            return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", each)]) for each in rows]
        out = np.concatenate(rows) @ self.matrix
        parts = np.split(out, np.cumsum([len(each) for each in rows])[:-1])
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", each)]) for each in parts]
'''

WORK = '''
"""Works on every request in one of its threads; execute returns at once, or once a thread is free."""
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
import numpy as np
import triton_python_backend_utils as pb_utils

BLOCK = np.ones((600, 600), np.float32)
WORK = {"wait": lambda: time.sleep(0.02), "numpy": lambda: BLOCK @ BLOCK, "python": lambda: sum(range(300000))}

class TritonPythonModel:
    def initialize(self, args):
        options = json.loads(json.loads(args["model_config"])["parameters"]["OPTIONS"]["string_value"])
        self.work = WORK[options["work"]]
        self.pool = ThreadPoolExecutor(options["threads"])
        self.free = threading.Semaphore(options["bound"])

    def execute(self, requests):
        for request in requests:
            self.free.acquire()
            self.pool.submit(self.answer, request.get_response_sender())

    def answer(self, sender):
        self.work()
        out = pb_utils.Tensor("OUT", np.zeros((1, 1), np.float32))
        self.free.release()
        sender.send(pb_utils.InferenceResponse([out]), pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
'''


def main() -> None:
    """Measure the parts that are asked for, all without a word."""
    parts: dict[str, Callable[[Path], None]] = {"weights": weights, "batch": batch, "threads": threads, "bound": bound}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*parts, []], help="what to measure")
    # Numpy would share each product among threads of its own, and those would wait for one another on busy cores.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    for name in parser.parse_args().parts or parts:
        print(f"\n{name}")
        with tempfile.TemporaryDirectory() as folder:
            parts[name](Path(folder))


def weights(folder: Path) -> None:
    """PSS of the workers of 1 and of 4 instances, without weights, with their own and with mapped ones."""
    file = _matrix(folder)
    print(f"{'weights':30}{'instances':>10}{'MB each (PSS)':>16}{'MB in all':>12}")
    for label, path, mode in (("none", "", None), ("np.load", file, None), ('np.load(mmap_mode="r")', file, "r")):
        for instances in (1, 4):
            repository = _model(folder, MATRIX, rows=0, instances=instances, options={"file": path, "mode": mode})
            with infer.Server(repository) as server:
                _many(server, np.zeros(SIDE if path else 1, np.float32), 8 * instances)
                sizes = [each.memory_full_info().pss / 1e6 for each in _workers()]
            print(f"{label:30}{instances:10}{sum(sizes) / len(sizes):16.1f}{sum(sizes):12.1f}")


def batch(folder: Path) -> None:
    """CPU time a row of a model that reads all its weights for every execution, by instances and by rows together."""
    file = _matrix(folder)
    print(f"{'instances':>10}{'rows together':>15}{'CPU ms a row':>14}")
    for instances, rows in ((1, 1), (2, 1), (4, 1), (1, 2), (1, 4), (1, 8), (1, 16)):
        options = {"file": file, "mode": None}
        repository = _model(folder, MATRIX, rows=16, instances=instances, options=options)
        with infer.Server(repository) as server:
            values = np.zeros((rows, SIDE), np.float32)
            _many(server, values, instances)
            before = _cpu_s()
            _many(server, values, ROUNDS * instances, at_once=instances)
            spent = _cpu_s() - before
        print(f"{instances:10}{rows:15}{spent * 1e3 / (ROUNDS * instances * rows):14.1f}")


def threads(folder: Path) -> None:
    """Requests/s of one instance by its number of threads, for work of three kinds."""
    print(f"{'work':30}{'threads':>10}{'requests/s':>12}")
    for label, work in (("waits 20 ms", "wait"), ("numpy, 600 x 600", "numpy"), ("a loop in Python", "python")):
        for count in (1, 2, 8):
            options = {"work": work, "threads": count, "bound": 10**6}
            with infer.Server(_model(folder, WORK, decoupled=True, options=options)) as server:
                _stream(server)
                start = time.perf_counter()
                with ThreadPoolExecutor(REQUESTS) as pool:
                    list(pool.map(lambda _, to=server: _stream(to), range(REQUESTS)))
                seconds = time.perf_counter() - start
            print(f"{label:30}{count:10}{REQUESTS / seconds:12.0f}")


def bound(folder: Path) -> None:
    """What becomes of requests that come twice as fast as 2 threads work, where the queue may hold 4 of them."""
    print(f"{'execute returns':30}{'answered':>10}{'refused':>10}{'ms, slowest answer':>20}")
    for label, limit in (("at once", 10**6), ("once one of 2 is free", 2)):
        options = {"work": "wait", "threads": 2, "bound": limit}
        queue = "dynamic_batching { default_queue_policy { max_queue_size: 4 } }"
        with infer.Server(_model(folder, WORK, decoupled=True, more=queue, options=options)) as server:
            _stream(server)
            with ThreadPoolExecutor(REQUESTS) as pool:
                futures: list[Future[float | None]] = []
                for _ in range(REQUESTS):
                    futures.append(pool.submit(_stream, server))
                    time.sleep(PAUSE_S)
                took = [each.result() for each in futures]
        answered = [each for each in took if each is not None]
        print(f"{label:30}{len(answered):10}{len(took) - len(answered):10}{max(answered) * 1e3:20.0f}")


def _matrix(folder: Path) -> str:
    path = folder / "matrix.npy"
    if not path.exists():
        np.save(path, np.ones((SIDE, SIDE), np.float32))
    return str(path)


def _model(  # noqa: PLR0913  what its configuration says
    folder: Path,
    source: str,
    *,
    options: dict[str, Any],
    rows: int = 1,
    instances: int = 1,
    decoupled: bool = False,
    more: str = "",
) -> Path:
    """A repository with the one model ``m``."""
    repository = folder / "repository"
    (repository / "m" / "1").mkdir(parents=True, exist_ok=True)
    if decoupled:
        more += "\nmodel_transaction_policy { decoupled: true }"
    width = SIDE if options.get("file") else 1
    fields = {"rows": rows, "more": more, "width": width, "instances": instances, "options": json.dumps(options)}
    (repository / "m" / "config.pbtxt").write_text(CONFIG % fields, encoding="utf-8")
    (repository / "m" / "1" / "model.py").write_text(source, encoding="utf-8")
    return repository


def _many(server: infer.Server, values: Any, count: int, at_once: int = 16) -> None:  # noqa: ANN401  a numpy array
    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(lambda _: server.infer("m", {"IN": values}), range(count)))


def _stream(server: infer.Server) -> float | None:
    """Seconds until the answer, None where the request was refused."""
    start = time.perf_counter()
    try:
        list(server.stream("m", {"IN": np.zeros((1, 1), np.float32)}))
    except InferError:
        return None
    return time.perf_counter() - start


def _cpu_s() -> float:
    """What the workers have computed so far."""
    times = [each.cpu_times() for each in _workers()]
    return sum(each.user + each.system for each in times)


def _workers() -> list[psutil.Process]:
    """What the process that workers are forked from has forked."""
    return [each for child in psutil.Process().children() for each in child.children()]


if __name__ == "__main__":
    main()
