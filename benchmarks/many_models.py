"""Twenty Python models: seconds until the server is ready, and the memory of its processes after one request each."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import load
import payloads
import servers
from report import Row, Target, median

if TYPE_CHECKING:
    from collections.abc import Callable

    from servers import Server
    from throughput import Plan

MODELS = Path(__file__).with_name("models")
COUNT = 20


def measure(plan: Plan) -> list[Row]:
    """Start each server twice in turn; the better start of each counts, since a cold disk is nobody's merit."""
    ready: dict[str, list[float]] = {}
    memory: dict[str, list[float]] = {}
    starters: list[Callable[[Path], Server]] = [servers.triton] if plan.with_peer else []
    starters += [servers.infer] if plan.with_infer else []
    with tempfile.TemporaryDirectory(prefix="infer-bench-") as folder:
        repository = Path(folder)
        names = fill(repository)
        for _ in range(2):
            for start in starters:
                with start(repository) as server:
                    for name in names:
                        payload = payloads.simple()
                        load.check(server, dataclasses.replace(payload, path=f"/v2/models/{name}/infer"))
                    ready.setdefault(server.name, []).append(server.ready_s)
                    memory.setdefault(server.name, []).append(server.pss_mib())
    best = {name: min(values) for name, values in ready.items()}
    return [
        Row("20 models", "", "s to ready", best.get("infer"), best.get("triton"), Target(0.25, at_most=True)),
        Row(
            "20 models",
            "",
            "PSS MiB",
            median(memory.get("infer", [])),
            median(memory.get("triton", [])),
            Target(0.6, at_most=True),
        ),
    ]


def fill(repository: Path, count: int = COUNT) -> list[str]:
    """Make a repository of ``count`` copies of ``simple``; their names."""
    names = [f"simple_{index:03d}" for index in range(count)]
    for name in names:
        shutil.copytree(MODELS / "simple", repository / name, ignore=shutil.ignore_patterns("__pycache__"))
        config = repository / name / "config.pbtxt"
        config.write_text(config.read_text().replace('name: "simple"', f'name: "{name}"'))
    return names
