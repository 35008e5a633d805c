"""What stays behind in the terminal when the dashboard is closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import figures

if TYPE_CHECKING:
    from .rates import History
    from .snapshot import Overview

_SHOWN = 5


def text(history: History, address: str) -> str:
    """A few lines: the server, its models, and what it did while it was watched."""
    latest = history.latest
    if latest is None:
        return f"infer: no answer came from {address}\n"
    server = latest.server
    ready = [row for row in latest.models if row.state == "READY"]
    up = f", up {figures.span(server.now - server.started_at)}" if server.started_at else ""
    state = "ready" if server.ready else "not ready"
    name = server.name or server.id or "server"
    lines = [f"{name} at {server.http or address}: {state}{up}, {len(ready)} of {len(latest.models)} models ready"]
    lines += [f"  {row.name}: {row.state}, {row.reason}" for row in latest.models if row.state and row.reason]
    return "\n".join([*lines, *_watched(history, latest)]) + "\n"


def _watched(history: History, latest: Overview) -> list[str]:
    first = history.pictures[0]
    seconds = latest.server.now - first.server.now
    if seconds <= 0:
        return []
    rows = [(row, history.rates(*row.key, window_s=seconds)) for row in latest.models]
    busy = sorted(((row, rates) for row, rates in rows if rates.requests_s), key=lambda pair: -pair[1].requests_s)
    total = sum(rates.requests_s for _, rates in rows) * seconds
    failed = sum(rates.failures_s for _, rates in rows) * seconds
    lines = [
        f"watched for {figures.span(seconds)}: {figures.count(round(total))} requests answered, {round(failed)} failed"
    ]
    for row, rates in busy[:_SHOWN]:
        p50, p99 = figures.duration_us(rates.p50_us), figures.duration_us(rates.p99_us)
        lines.append(f"  {row.name}: {figures.rate(rates.requests_s)} requests/s, p50 {p50}, p99 {p99}")
    return lines
