"""How long `infer --help` takes, by a Typer app that does nothing, in turn in one run."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from report import Row, Target, median

BARE = '''
import typer

app = typer.Typer(help="An app that does nothing.")


@app.command()
def serve(port: int = 8000) -> None:
    """Serve."""


@app.command()
def stop() -> None:
    """Stop."""


app()
'''


def measure(runs: int = 9) -> list[Row]:
    """The median of ``runs`` of each, in milliseconds; the peer of this row is the bare app."""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
        script.write(BARE)
        script.flush()
        commands = {
            "infer": [str(Path(sys.executable).parent / "infer"), "--help"],
            "bare": [sys.executable, script.name, "--help"],
        }
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(runs):
            for name, command in commands.items():
                started = time.perf_counter()
                subprocess.run(command, check=True, capture_output=True)
                times[name].append((time.perf_counter() - started) * 1000)
    row = Row("help", "by a bare Typer app", "ms", median(times["infer"]), median(times["bare"]))
    return [Row(row.part, row.case, row.measure, row.ours, row.peer, Target(1.5, at_most=True))]
