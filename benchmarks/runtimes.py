"""What serving costs a model: rows a second of the sample classifiers, served, by a bare loop of their runtime.

The peer of these rows is ``bare_loop.py`` at the batch size that is best for it. Two sets of models are measured:

- the samples `digits` and `digits_torch` as they are. An execution of 64 rows takes them some 40 µs, less than any
  request costs, so this shows what a request costs, and how far the batcher spreads it over rows;
- the same networks made WIDE, configured as the samples are. There the model costs more than the request, as where
  serving is worth its while: here the batcher must keep the runtime as busy as the loop does.

On two shared cores the runtime needs one (one thread computes, in the loop and served; a sample that does not say how
many leaves that to its runtime in both), so server and load generator have the other: rows a second are what a user
gets of such a machine, CPU by row says it without the generator, and `busy` is the share of the time that an execution
was under way.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import load
import payloads
import servers
from report import Row, Target, median

if TYPE_CHECKING:
    from collections.abc import Generator

    from load import Traffic
    from throughput import Plan

SAMPLES = Path(__file__).resolve().parents[1] / "model_repository"
THREADS = {"onnx": "intra_op_thread_count", "torch": "INTRA_OP_THREAD_COUNT"}
"""The parameter of a model's configuration that says how many threads compute one execution."""
FLOATS = 64
WIDE = 2048
BATCHES = (1, 4, 16, 32, 64)
AS_IT_IS = ((1, 64), (64, 16))
"""Rows a request and clients; no request of the samples may have more than 64 rows."""
WIDENED = ((1, 128), (8, 32))


@dataclass(frozen=True)
class Subject:
    """A model to measure: where it lies, its runtime, and with which rows a request and clients."""

    name: str
    runtime: str
    repository: Path
    loads: tuple[tuple[int, int], ...]

    @property
    def file(self) -> Path:
        """What the runtime opens."""
        return self.repository / self.name / "1" / {"onnx": "model.onnx", "torch": "model.pt"}[self.runtime]

    @property
    def config(self) -> str:
        """Its configuration's text."""
        return (self.repository / self.name / "config.pbtxt").read_text()


MEASURES = (("rows_s", "rows/s"), ("cpu_us", "CPU µs/row"), ("batch", "rows/execution"), ("busy", "busy"))

Measured: TypeAlias = "dict[str, list[dict[str, float]]]"
"""By case, a round a member: rows a second, CPU by row, rows by execution, share of busy time."""


def measure(plan: Plan) -> list[Row]:
    """The samples that there are, as they are and made wide."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="infer-bench-") as folder:
        for sample, runtime in (("digits", "onnx"), ("digits_torch", "torch")):
            if not (SAMPLES / sample / "config.pbtxt").exists():
                print(f"# {sample}: not measured: it is not in {SAMPLES.name}")
                continue
            for subject in (
                Subject(sample, runtime, SAMPLES, AS_IT_IS),
                widened(Subject(sample, runtime, SAMPLES, ()), Path(folder)),
            ):
                rows.extend(_measure(plan, subject))
    return rows


def widened(sample: Subject, folder: Path) -> Subject:
    """The sample's configuration with a network of two hidden layers of WIDE units, in ``folder``."""
    wide = Subject(f"{sample.name}_wide", sample.runtime, folder, WIDENED)
    ignored = shutil.ignore_patterns("__pycache__", "*.py", sample.file.name)
    shutil.copytree(SAMPLES / sample.name, folder / wide.name, ignore=ignored)
    config = folder / wide.name / "config.pbtxt"
    text = config.read_text().replace(f'name: "{sample.name}"', f'name: "{wide.name}"')
    if not thread_count(text):
        text += f'parameters {{ key: "{THREADS[sample.runtime]}" value: {{ string_value: "1" }} }}\n'
    config.write_text(text)
    wide.file.parent.mkdir(exist_ok=True)
    script = Path(__file__).with_name("wide_network.py")
    subprocess.run([sys.executable, script, wide.runtime, wide.file, str(FLOATS), str(WIDE)], check=True)
    return wide


def input_name(config: str) -> str:
    """The name of the first input in a configuration's text."""
    found = re.search(r'\binput\b[^"]*name:\s*"([^"]+)"', config)
    if found is None:
        raise RuntimeError("the configuration names no input")
    return found[1]


def thread_count(config: str) -> int:
    """How many threads compute one execution, in a configuration's text; 0 where that is left to the runtime."""
    names = "|".join(THREADS.values())
    found = re.search(rf'key:\s*"(?:{names})"\s*value:?\s*{{\s*string_value:\s*"(\d+)"', config)
    return int(found[1]) if found else 0


def best(bare: dict[str, dict[str, float]]) -> tuple[str, dict[str, float]]:
    """The batch size with the most rows a second, and what it made."""
    return max(bare.items(), key=lambda found: found[1]["rows_s"])


def _measure(plan: Plan, subject: Subject) -> list[Row]:
    measured: Measured = {}
    bare: list[tuple[str, dict[str, float]]] = []
    with _served(subject) as server:
        for _ in range(plan.rounds):
            bare.append(best(_bare_loop(subject, plan.seconds)))
            for rows, clients in subject.loads:
                for way, traffic in _ways(subject, rows).items():
                    traffic.check(server)
                    burst = traffic.burst(server, clients, plan.seconds)
                    found = {"rows_s": burst.rate * rows, "cpu_us": burst.cpu_us / rows}
                    found |= {"batch": burst.batch, "busy": burst.busy}
                    measured.setdefault(_case(rows, clients, way), []).append(found)
    for _ in range(plan.rounds):
        for rows, clients in subject.loads:
            measured.setdefault(_case(rows, clients, "in process"), []).append(_embedded(plan, subject, rows, clients))
    return _rows(subject, measured, bare)


@contextlib.contextmanager
def _served(subject: Subject) -> Generator[servers.Server]:
    one = ("--model-control-mode=explicit", f"--load-model={subject.name}")
    with servers.infer(subject.repository, *one) as server:
        yield server


def _ways(subject: Subject, rows: int) -> dict[str, Traffic]:
    arguments: dict[str, Any] = {"model": subject.name, "tensor": input_name(subject.config), "rows": rows}
    return {
        "HTTP": load.http_traffic(payloads.floats(FLOATS, **arguments)),
        "gRPC": load.grpc_traffic(payloads.floats_grpc(FLOATS, **arguments)),
    }


def _case(rows: int, clients: int, way: str) -> str:
    return f"{rows} row{'s' if rows > 1 else ''} x {clients}, {way}"


def _bare_loop(subject: Subject, seconds: float) -> dict[str, dict[str, float]]:
    sizes = [str(batch) for batch in BATCHES]
    what = [subject.runtime, str(subject.file), input_name(subject.config), str(FLOATS)]
    return _script("bare_loop.py", [*what, str(thread_count(subject.config)), str(seconds), *sizes])


def _embedded(plan: Plan, subject: Subject, rows: int, clients: int) -> dict[str, float]:
    what = [str(subject.repository), subject.name, input_name(subject.config)]
    return _script("embedded_load.py", [*what, str(FLOATS), str(rows), str(clients), str(plan.seconds)])


def _script(name: str, arguments: list[str]) -> dict[str, Any]:
    command = [sys.executable, str(Path(__file__).with_name(name)), *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise RuntimeError(f"{name} failed: {done.stderr[-500:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def _rows(subject: Subject, measured: Measured, bare: list[tuple[str, dict[str, float]]]) -> list[Row]:
    limit = {"rows_s": median([found["rows_s"] for _, found in bare]), "cpu_us": median([f["cpu_us"] for _, f in bare])}
    limit["batch"] = median([float(batch) for batch, _ in bare])
    rows: list[Row] = []
    fastest = 0.0
    for case, found in measured.items():
        for key, measure in (
            ("rows_s", "rows/s"),
            ("cpu_us", "CPU µs/row"),
            ("batch", "rows/execution"),
            ("busy", "busy"),
        ):
            value = median([one[key] for one in found])
            rows.append(Row(subject.name, case, measure, value, limit.get(key)))
            fastest = max(fastest, value or 0.0) if key == "rows_s" else fastest
    rows.append(Row(subject.name, "the best of these", "rows/s", fastest, limit["rows_s"], Target(0.9)))
    return rows
