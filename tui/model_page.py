"""What the screen of one model says, as styled text: pure functions of pictures, rates and documents."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from textual.content import Content

from . import charts, figures, glyphs
from .snapshot import PHASES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .rates import Rates
    from .snapshot import Instance, LogRecord, ModelSnapshot

SCALE = 9
"""Columns that the scale of a graph takes."""

_LABEL = 15
_GRAPH_SHARE = 0.6
_LIMITED = "limited by"
LEVEL_STYLES = {"ERROR": "$error", "WARNING": "$warning", "VERBOSE": "dim"}
_STATE_STYLES = {"READY": "$success", "UNAVAILABLE": "$error", "": "dim"}
_INSTANCE_STYLES = {"busy": "$primary", "restarting": "$warning", "dead": "$error"}


def lines(parts: Iterable[Content]) -> Content:
    """One text of several lines."""
    return Content("\n").join(list(parts))


def _pairs(pairs: Iterable[tuple[str, str]]) -> Content:
    """Labels that step back, and values that do not."""
    parts = [Content.assemble((f"{label} ", "dim"), value) for label, value in pairs if value]
    return Content("   ").join(parts)


def head(row: ModelSnapshot, rates: Rates, dependents: Sequence[str]) -> Content:
    """State, reason and figures."""
    state = f"{glyphs.state_sign(row.state, row.reason)} {glyphs.state_word(row.state)}"
    reason = Content.styled(f": {row.reason}", "$warning") if row.reason else Content("")
    failures = ", ".join(f"{name} {count}" for name, count in row.failures.items() if count)
    facts = [
        ("version", row.version or figures.NONE),
        ("backend", row.backend),
        ("max_batch_size", str(row.max_batch_size) if row.max_batch_size or row.state == "READY" else ""),
        ("loaded in", f"{row.load_duration_s:.2f} s" if row.load_duration_s else ""),
        ("memory", figures.size(row.memory_bytes) if row.memory_bytes else ""),
        ("steps", ", ".join(row.depends_on)),
        ("step of", ", ".join(dependents)),
    ]
    now = [
        ("p50", figures.duration_us(rates.p50_us)),
        ("p90", figures.duration_us(rates.p90_us)),
        ("p99", figures.duration_us(rates.p99_us)),
        ("mean", figures.duration_us(rates.mean_us)),
        ("queue", figures.count(row.pending)),
        ("in flight", figures.count(row.in_flight)),
    ]
    total = [
        ("answered", figures.count(row.success)),
        ("inferences", figures.count(row.inference_count)),
        ("executions", figures.count(row.execution_count)),
        ("failed", f"{figures.count(row.failed)}" + (f" ({failures})" if failures else "")),
    ]
    return lines(
        [
            Content.assemble((state, _STATE_STYLES.get(row.state, "$warning")), reason),
            _pairs(facts),
            _pairs(now),
            _pairs(total),
        ]
    )


def phases(rates: Rates, width: int) -> Content:
    """Where the time of a request goes: the mean of each phase as a bar."""
    total = sum(rates.phases_us.values())
    rows = [Content.styled("latency by phase, last 10 s", "bold")]
    room = max(4, width - _LABEL - 16)
    for phase in PHASES:
        value = rates.phases_us.get(phase)
        share = value / total if value and total else 0.0
        figure = f"{figures.duration_us(value):>8} {share * 100:4.0f} %" if value is not None else f"{figures.NONE:>8}"
        rows.append(Content.assemble(f"{phase:<{_LABEL}}", (charts.bar(share, room), "$primary"), f" {figure}"))
    return lines(rows)


def batches(row: ModelSnapshot, width: int, height: int) -> Content:
    """How large the batches were since the load, and why no larger.

    Where there are more sizes than ``height`` has lines the most frequent ones; the reasons are a line more.
    """
    rows = [Content.styled("batch sizes since the load", "bold")]
    most = max((count for _, count in row.batches), default=0)
    if not most:
        return lines([*rows, Content.styled("none yet", "dim")])
    often = sorted(row.batches, key=lambda pair: -pair[1])[: max(1, height - 1)]
    room = max(4, width - 14)
    for size, count in sorted(often):
        bar = charts.bar(count / most, room)
        rows.append(Content.assemble(f"{size:>5} ", (bar, "$primary"), f" {figures.count(count):>6}"))
    return lines([*rows, *_limits(row, width)])


def _limits(row: ModelSnapshot, width: int) -> list[Content]:
    """Why batches were no larger: a line of as many reasons as fit, the most frequent first."""
    text = ""
    for reason, share in row.limit_shares:
        longer = f"{text}{',' if text else ''} {reason} {share * 100:.0f} %"
        if text and len(_LIMITED) + len(longer) > width:
            break
        text = longer
    return [Content.assemble((_LIMITED, "dim"), text)] if text else []


def graph(title: str, values: Sequence[float | None], text: str, scale: str, size: tuple[int, int]) -> Content:
    """A graph with its number and its scale: ``text`` is the value now, ``scale`` that of a full column."""
    width, height = size
    drawn = charts.graph(values, width - SCALE, height - 1, charts.ceiling(values))
    first = Content.assemble((title, "bold"), f"  {text}")
    rows = [first]
    for place, line in enumerate(drawn):
        label = scale if place == 0 else "0" if place == len(drawn) - 1 else ""
        rows.append(Content.assemble((f"{label:>{SCALE - 1}} ", "dim"), (line, "$primary")))
    return lines(rows)


def graphs(series: Sequence[Rates], rates: Rates, seconds: float, width: int, height: int) -> Content:
    """Requests a second and p99 of all pictures that are kept, one above the other."""
    upper = max(3, int(height * _GRAPH_SHARE))
    requests = [step.requests_s for step in series]
    slowest = [step.p99_us for step in series]
    span = f"last {figures.span(seconds)}"
    first = graph(
        "requests/s",
        requests,
        f"{figures.rate(rates.requests_s)} now, {span}",
        figures.rate(charts.ceiling(requests)),
        (width, upper),
    )
    second = graph(
        "p99",
        slowest,
        f"{figures.duration_us(rates.p99_us)} now",
        figures.duration_us(charts.ceiling(slowest)),
        (width, max(3, height - upper)),
    )
    return lines([first, second])


def tensors(document: Mapping[str, Any]) -> Content:
    """Inputs and outputs: name, datatype, shape."""
    rows: list[Content] = []
    for title in ("inputs", "outputs"):
        found: Sequence[Mapping[str, Any]] = document.get(title, ())
        rows.append(Content.styled(title, "bold"))
        width = max((len(str(one.get("name", ""))) for one in found), default=0)
        for one in found:
            shape = ", ".join("any" if size == -1 else str(size) for size in one.get("shape", ()))
            name = f"  {one.get('name', '')!s:<{width}}  "
            rows.append(Content.assemble(name, (f"{one.get('datatype', '')!s:<6}", "$primary"), f"  [{shape}]"))
        if not found:
            rows.append(Content.styled("  none", "dim"))
        rows.append(Content(""))
    platform, versions = document.get("platform", ""), ", ".join(document.get("versions", ()))
    return lines([*rows, _pairs([("platform", str(platform)), ("versions", versions)])])


def instances(found: Sequence[Instance]) -> Content:
    """A line an instance."""
    if not found:
        return Content.styled("no instances: the model is not loaded, or its steps are other models", "dim")
    width = max(8, *(len(one.name) for one in found))
    title = (
        f"  {'instance':<{width}}  {'kind':<12} {'device':<7} {'state':<12} {'pid':>8} {'memory':>9} {'restarts':>9}"
    )
    rows = [Content.styled(title, "bold dim")]
    for one in found:
        device = f"GPU {one.device}" if one.device >= 0 else "CPU"
        pid = str(one.pid) if one.pid is not None else "server"
        memory = figures.size(one.memory_bytes)
        rows.append(
            Content.assemble(
                f"  {one.name:<{width}}  {one.kind:<12} {device:<7} ",
                (f"{one.state:<12}", _INSTANCE_STYLES.get(one.state, "")),
                f" {pid:>8} {memory:>9} ",
                (f"{one.restarts:>9}", "$warning" if one.restarts else ""),
            )
        )
    return lines(rows)


def log_line(record: LogRecord) -> Content:
    """One record: the time of day, the level, the instance if it is of one, the message."""
    clock = time.strftime("%H:%M:%S", time.localtime(record.time))
    where = f" {record.instance}" if record.instance else ""
    level = (f"{record.level:<7}", LEVEL_STYLES.get(record.level, "$success"))
    return Content.assemble((f"{clock} ", "dim"), level, (where, "dim"), f" {record.message}")


def failure(what: str, why: str, fix: str) -> Content:
    """What went wrong, why, and how to mend it."""
    rows = [Content.styled(what, "bold $error"), Content.assemble(("why  ", "dim"), why)]
    return lines([*rows, Content.assemble(("fix  ", "dim"), fix)] if fix else rows)
