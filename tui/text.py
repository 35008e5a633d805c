"""``infer top --once``: a server on one page of text, or as one JSON document. Pure.

The columns are those of the dashboard's table of models, as many as fit. Text is cut to the width it is given, JSON
never.
"""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len

from . import figures
from .columns import BY_NAME, Cell, Row, layout, padded
from .glyphs import state_word
from .rates import cpu_cores, rates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .columns import Layout
    from .rates import Rates
    from .snapshot import Gpu, Host, ModelSnapshot, Overview

    Facts = Sequence[str]

SCHEMA = 1
"""The version of the JSON document: keys are added under one number, and change or vanish under the next."""

WIDTH = 80
"""Columns where nobody knows better."""

_LEFT_OUT = ("mark", "trend")
"""Columns of the dashboard's table that need a hand or a past."""

_INDENT = " " * 9
_QUIET_REASONS = ("", "unloaded")


def page(before: Overview, after: Overview, width: int = WIDTH) -> str:
    """The server as text. Rates are those between the two pictures."""
    parts = [_server_lines(before, after, width), _table(before, after, width), _reasons(after, width)]
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


def document(before: Overview | None, after: Overview) -> dict[str, Any]:
    """The server as JSON: the last picture with raw numbers, and rates a model (None without a first picture)."""
    seconds = after.server.now - before.server.now if before else None
    models = [_model(row, _rates(before, after, row) if before else None) for row in after.models]
    server = {**asdict(after.server), "cpu_cores": cpu_cores(before, after)}
    whole = {**asdict(after), "server": server, "models": models}
    return {"schema": SCHEMA, "interval_s": seconds, **whole}


def _model(row: ModelSnapshot, found: Rates | None) -> dict[str, Any]:
    told = {"failed": row.failed, "memory_bytes": row.memory_bytes, "rates": asdict(found) if found else None}
    return asdict(row) | told


def _rates(before: Overview, after: Overview, row: ModelSnapshot) -> Rates:
    return rates(before.model(row.name, row.version), row, after.server.now - before.server.now)


def _server_lines(before: Overview, after: Overview, width: int) -> list[str]:
    told = [("server", _server(before, after))]
    if after.host is not None:
        told.append(("host", _host(after.host)))
    told += [(f"gpu {gpu.index}", _gpu(gpu)) for gpu in after.gpus]
    if not after.gpus and after.gpu_reason:
        told.append(("gpu", [f"none: {after.gpu_reason}"]))
    return [line for label, facts in told for line in _facts(label, facts, width)]


def _server(before: Overview, after: Overview) -> Facts:
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


def _table(before: Overview, after: Overview, width: int) -> list[str]:
    """The models, in those columns of the dashboard's table that fit."""
    rows = [Row(model, _rates(before, after, model)) for model in after.models]
    if not rows:
        return ["No models."]
    shown = _layout(rows, width)
    head = [padded(Cell(column.title.upper()), column, wide).text for column, wide in shown]
    lines = [[padded(column.cell(row, wide), column, wide).text for column, wide in shown] for row in rows]
    return [" ".join(line).rstrip() for line in (head, *lines)]


def _layout(rows: Sequence[Row], width: int) -> Layout:
    """The dashboard's columns without those that a page of text has no use for; names get their room."""
    longest = max(cell_len(row.model.name) for row in rows)
    state = max(cell_len(state_word(row.model.state)) for row in rows) + 2
    for extra in (sum(BY_NAME[name].least + 1 for name in _LEFT_OUT), BY_NAME["mark"].least + 1):
        found = [(column, wide) for column, wide in layout(width + extra + 1, longest, state)]
        kept = tuple((column, wide) for column, wide in found if column.name not in _LEFT_OUT)
        if sum(wide + 1 for _, wide in kept) <= width + 1:
            break
    return kept


def _reasons(after: Overview, width: int) -> list[str]:
    """Why a model is not ready, in full."""
    lines: list[str] = []
    for row in after.models:
        if row.state != "READY" and row.reason not in _QUIET_REASONS:
            text = f"{row.name} {row.version} {row.state or 'not loaded'}: {row.reason}"
            lines += textwrap.wrap(text, width, subsequent_indent="  ") or [text]
    return lines
