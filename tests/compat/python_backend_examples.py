"""Runs the public examples of Triton's Python backend on this server, with their own clients, and prints a table.

::

    git clone https://github.com/triton-inference-server/python_backend
    python tests/compat/python_backend_examples.py python_backend
    python tests/compat/python_backend_examples.py python_backend --only bls_sync --only jax

Their files are copied into a temporary repository of models as they are; their clients run from where they lie. What
is not installed here (PyTorch, JAX, torchvision, requests) is skipped with that reason. The exit status is the number
of examples that failed; a line that starts with ``#`` says where the server's log is where one did.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "benchmarks"))

import compat_plan
import servers
from compat_report import FAILED, SKIPPED, Result, failures, judged, table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compat_plan import Example

CLIENT_LIMIT_S = 120.0
IMPORT_LIMIT_S = 120.0


def main() -> int:
    """Run the chosen examples; how many failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="a copy of the repository python_backend")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="one example or folder of them")
    arguments = parser.parse_args()
    examples = arguments.folder.absolute() / "examples"
    if not examples.is_dir():
        parser.error(f"{examples} is no folder; the argument is the root of a copy of python_backend")
    try:
        chosen = compat_plan.chosen(arguments.only)
    except ValueError as error:
        parser.error(str(error))
    servers.stop_on_sigterm()
    results = run(examples, chosen)
    if not arguments.only:
        results += [Result(name, SKIPPED, "this script does not know it") for name in compat_plan.unplanned(examples)]
    print(table(results))
    return failures(results)


def run(examples: Path, chosen: list[Example]) -> list[Result]:
    """Serve what can run, and let each client ask."""
    reasons = _reasons(examples, chosen)
    runnable = [example for example in chosen if not reasons[example.name]]
    ran: dict[str, Result] = {}
    if runnable:
        with tempfile.TemporaryDirectory(prefix="infer-compat-") as folder:
            ran = {result.example: result for result in _served(examples, runnable, Path(folder))}
    return [ran.get(example.name) or Result(example.name, SKIPPED, reasons[example.name]) for example in chosen]


def _reasons(examples: Path, chosen: list[Example]) -> dict[str, str]:
    """Why each example cannot run here; "" where it can."""
    broken = {module: _import_problem(module) for module in {need for example in chosen for need in example.needs}}
    found: dict[str, str] = {}
    for example in chosen:
        absent = compat_plan.absent(example, examples)
        missing = [broken[need] for need in example.needs if broken[need]]
        found[example.name] = example.skip or (f"the copy has no {', '.join(absent)}" if absent else "; ".join(missing))
    return found


def _import_problem(module: str) -> str:
    """Why a module cannot be imported here; "" where it can."""
    command = [sys.executable, "-c", f"import {module}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=IMPORT_LIMIT_S, check=False)
    if done.returncode == 0:
        return ""
    lines = done.stderr.strip().splitlines()
    return f"{module} cannot be imported ({lines[-1] if lines else f'exit status {done.returncode}'})"


def _served(examples: Path, runnable: list[Example], folder: Path) -> Iterator[Result]:
    """Start a server on a fresh repository; a result an example."""
    repository = folder / "models"
    for target, source in compat_plan.layout(runnable).items():
        (repository / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(examples / source, repository / target)
    environment = dict(os.environ)
    if any(example.stand_ins for example in runnable):
        environment["TORCH_HOME"] = str(folder / "torch")
        subprocess.run([sys.executable, str(HERE / "stand_ins.py"), environment["TORCH_HOME"]], check=True)
    server = servers.infer(repository, "--exit-on-error=false", "--strict-readiness=false")
    server.environment |= environment
    failed = False
    with server:
        for example in runnable:
            result = _unready(server, example) or _asked(server, examples, example, environment)
            failed |= result.outcome == FAILED
            yield result
        if failed:
            kept = Path(tempfile.mkstemp(prefix="infer-compat-", suffix=".log")[1])
            shutil.copy(server.log, kept)
            print(f"# the server's log: {kept}")


def _unready(server: servers.Server, example: Example) -> Result | None:
    """A failure where one of its models is not ready, with the server's reason."""
    status, body = server.post("/v2/repository/index", b"{}", {"Content-Type": "application/json"})
    if status != servers.OK:
        return Result(example.name, FAILED, f"the repository's index answered {status}")
    states = {row["name"]: row for row in json.loads(body)}
    for model in sorted(example.loads):
        row = states.get(model, {})
        if row.get("state") != "READY":
            return Result(example.name, FAILED, f"model {model} is not ready: {row.get('reason', 'it is not there')}")
    return None


def _asked(server: servers.Server, examples: Path, example: Example, environment: dict[str, str]) -> Result:
    """Run its client to its end."""
    ports = [str(port) for port in (server.port, server.grpc_port, server.operator_port)]
    command = [sys.executable, str(HERE / "peer_client.py"), str(examples / example.client), *ports]
    if example.own_client:
        command = [sys.executable, str(HERE / example.own_client), *ports]
    with contextlib.ExitStack() as stack:
        output = stack.enter_context(tempfile.TemporaryFile(mode="w+"))
        try:
            done = subprocess.run(
                command,
                cwd=examples / example.folder,
                env=environment | {"PYTHONDONTWRITEBYTECODE": "1"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=CLIENT_LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Result(example.name, FAILED, f"its client did not end within {CLIENT_LIMIT_S:.0f} s")
        output.seek(0)
        return judged(example.name, done.returncode, output.read())


if __name__ == "__main__":
    sys.exit(main())
