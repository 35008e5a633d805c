"""``infer top --once``: a server on one page of text, or as one JSON document. Pure.

The columns are those of the dashboard's table of models. Text is cut to the width it is given, JSON never.
"""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from . import figures
from .rates import Rates, cpu_cores, rates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .snapshot import Gpu, Host, ModelSnapshot, Overview

    Facts = Sequence[str]

SCHEMA = 1
"""The version of the JSON document: keys are added under one number, and change or vanish under the next."""

WIDTH = 80
"""Columns where nobody knows better."""

_HEAD = ("MODEL", "VER", "STATE", "INST", "REQ/S", "P50", "P99", "QUEUE", "BATCH", "FAILED")
_LEFT = 3
_SHORTEST_NAME = 8
_INDENT = " " * 9
_QUIET_REASONS = ("", "unloaded")


def page(before: Overview | None, after: Overview, width: int = WIDTH) -> str:
    """The server as text. Rates are those between the two pictures; without the first there are none."""
    parts = [_server_lines(before, after, width), _table(before, after, width), _reasons(after, width)]
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


def document(before: Overview | None, after: Overview) -> dict[str, Any]:
    """The server as JSON: the last picture with raw numbers, and rates a model (None without a first picture)."""
    seconds = after.server.now - before.server.now if before else None
    models = [_model(row, _rates(before, after, row)) for row in after.models]
    server = {**asdict(after.server), "cpu_cores": cpu_cores(before, after)}
    whole = {**asdict(after), "server": server, "models": models}
    return {"schema": SCHEMA, "interval_s": seconds, **whole}


def _model(row: ModelSnapshot, found: Rates | None) -> dict[str, Any]:
    told = {"failed": row.failed, "memory_bytes": row.memory_bytes, "rates": asdict(found) if found else None}
    return asdict(row) | told


def _rates(before: Overview | None, after: Overview, row: ModelSnapshot) -> Rates | None:
    if before is None:
        return None
    return rates(before.model(row.name, row.version), row, after.server.now - before.server.now)


def _server_lines(before: Overview | None, after: Overview, width: int) -> list[str]:
    told = [("server", _server(before, after))]
    if after.host is not None:
        told.append(("host", _host(after.host)))
    told += [(f"gpu {gpu.index}", _gpu(gpu)) for gpu in after.gpus]
    if not after.gpus and after.gpu_reason:
        told.append(("gpu", [f"none: {after.gpu_reason}"]))
    return [line for label, facts in told for line in _facts(label, facts, width)]


def _server(before: Overview | None, after: Overview) -> Facts:
    server = after.server
    state = "draining" if server.draining else "ready" if server.ready else "not ready" if server.live else "not live"
    cores = cpu_cores(before, after)
    in_flight = [row.in_flight for row in after.models if row.in_flight is not None]
    return [
        f"{server.name or server.id} {server.version}".strip(),
        state,
        f"up {figures.span(server.now - server.started_at)}" if server.started_at else "",
        f"pid {server.pid}" if server.pid else "",
        f"control {server.control_mode}" if server.control_mode else "",
        f"http {server.http}" if server.http else "",
        "" if cores is None else f"cpu {cores:.0%} of a core",
        f"memory {figures.size(server.memory_bytes)}" if server.memory_bytes else "",
        f"{sum(in_flight)} in flight" if in_flight else "",
        f"{refused} refused" if (refused := sum(after.refused.values())) else "",
    ]


def _host(host: Host) -> Facts:
    cpus = f" of {host.cpu_count} CPUs" if host.cpu_count else ""
    memory = f"memory {figures.size(host.memory_used_bytes)} of {figures.size(host.memory_total_bytes)}"
    return [
        "" if host.cpu_utilization is None else f"cpu {host.cpu_utilization:.0%}{cpus}",
        "" if host.load_1m is None else f"load {host.load_1m:.2f}",
        memory if host.memory_total_bytes else "",
    ]


def _gpu(gpu: Gpu) -> Facts:
    limit = f" of {gpu.power_limit_watts:.0f} W" if gpu.power_limit_watts else ""
    memory = f"memory {figures.size(gpu.memory_used_bytes)} of {figures.size(gpu.memory_total_bytes)}"
    return [
        gpu.name,
        "" if gpu.utilization is None else f"{gpu.utilization:.0%} busy",
        memory if gpu.memory_total_bytes else "",
        "" if gpu.power_usage_watts is None else f"{gpu.power_usage_watts:.0f} W{limit}",
        "" if gpu.temperature_celsius is None else f"{gpu.temperature_celsius:.0f} °C",
    ]


def _facts(label: str, facts: Facts, width: int) -> list[str]:
    """Facts two spaces apart behind their label, broken between facts where the line is full. No facts, no line."""
    lines: list[str] = []
    line = ""
    for fact in filter(None, facts):
        if line and len(line) + 2 + len(fact) > width:
            lines.append(line)
            line = ""
        line = f"{line}  {fact}" if line else (_INDENT if lines else label.ljust(len(_INDENT))) + fact
    return [*lines, line] if line else lines


def _table(before: Overview | None, after: Overview, width: int) -> list[str]:
    """The models, names cut where the rest needs the place."""
    if not after.models:
        return ["No models."]
    cells = [_HEAD, *(_cells(row, _rates(before, after, row)) for row in after.models)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_HEAD))]
    gap = "  " if sum(widths) + 2 * (len(widths) - 1) <= width else " "
    over = sum(widths) + len(gap) * (len(widths) - 1) - width
    widths[0] = max(min(widths[0], _SHORTEST_NAME), widths[0] - max(over, 0))
    return [_line(line, widths, gap) for line in cells]


def _line(cells: Sequence[str], widths: Sequence[int], gap: str) -> str:
    """Names and states to the left, numbers to the right."""
    placed = [_placed(cell, wide, place) for place, (cell, wide) in enumerate(zip(cells, widths, strict=True))]
    return gap.join(placed).rstrip()


def _placed(cell: str, width: int, place: int) -> str:
    if len(cell) > width:
        cell = cell[: width - 1] + "…"
    return cell.ljust(width) if place < _LEFT else cell.rjust(width)


def _cells(row: ModelSnapshot, told: Rates | None) -> tuple[str, ...]:
    found = told or Rates()
    return (
        row.name,
        row.version or figures.NONE,
        row.state or "not loaded",
        str(len(row.instances)) if row.instances else figures.NONE,
        figures.rate(found.requests_s) if row.state and told else figures.NONE,
        figures.duration_us(found.p50_us),
        figures.duration_us(found.p99_us),
        figures.count(row.pending) if row.state else figures.NONE,
        figures.NONE if found.batch_size is None else f"{found.batch_size:.1f}",
        figures.count(row.failed) if row.state else figures.NONE,
    )


def _reasons(after: Overview, width: int) -> list[str]:
    """Why a model is not ready, in full."""
    lines: list[str] = []
    for row in after.models:
        if row.state != "READY" and row.reason not in _QUIET_REASONS:
            text = f"{row.name} {row.version} {row.state or 'not loaded'}: {row.reason}"
            lines += textwrap.wrap(text, width, subsequent_indent="  ") or [text]
    return lines
