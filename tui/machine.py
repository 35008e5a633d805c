"""The server's process, the machine and its GPUs as gauges: a share, a number, and how it was lately. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from . import figures
from .rates import cpu_cores

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .snapshot import Gpu, Overview

HIGH = 0.9
"""From this share on a gauge is marked, by a sign and by its colour."""

HOTTEST_C = 100.0
"""The right end of a thermometer."""

HOT_C = 85.0

Shares = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Gauge:
    """One figure. ``share`` is 0..1, None without a whole to measure it by; ``past`` are shares, oldest first."""

    label: str
    text: str
    share: float | None = None
    past: Shares = ()
    high: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """Gauges that belong together; ``note`` stands in place of gauges that are not there."""

    title: str
    gauges: tuple[Gauge, ...] = ()
    note: str = ""


def sections(pictures: Sequence[Overview]) -> tuple[Section, ...]:
    """Everything that is known of the machine, from the pictures of a history, oldest first."""
    if not pictures:
        return ()
    latest = pictures[-1]
    gpus = tuple(_gpu(pictures, gpu) for gpu in latest.gpus)
    if not gpus:
        gpus = (Section("GPUs", note=f"none: {latest.gpu_reason or 'the server tells of none'}"),)
    return (_server(pictures), _host(pictures), *gpus)


def _gauge(label: str, text: str, share: float | None, past: Sequence[float | None]) -> Gauge:
    known = tuple(0.0 if one is None else one for one in past) if any(one is not None for one in past) else ()
    return Gauge(label, text, share, known, share is not None and share >= HIGH)


def _server(pictures: Sequence[Overview]) -> Section:
    latest = pictures[-1]
    server, host = latest.server, latest.host
    cpus = host.cpu_count if host else None
    cores = [cpu_cores(before, after) for before, after in pairwise(pictures)]
    used = cores[-1] if cores else None
    gauges: list[Gauge] = []
    if server.cpu_s is not None:
        shares = [None if one is None or not cpus else one / cpus for one in cores]
        text = figures.NONE if used is None else f"{used:.0%} of a core"
        gauges.append(_gauge("cpu", text, shares[-1] if shares else None, shares))
    total = host.memory_total_bytes if host else 0
    for label, of in (("memory", _server_memory), ("workers", _worker_memory)):
        value = of(latest)
        if value is not None:
            shares = [_part(of(picture), total) for picture in pictures]
            gauges.append(_gauge(label, figures.size(value), shares[-1], shares))
    up = f"  up {figures.span(server.now - server.started_at)}" if server.started_at else ""
    pid = f"  pid {server.pid}" if server.pid else ""
    title = f"Server  {server.name or server.id} {server.version}{pid}{up}".rstrip()
    return Section(title, tuple(gauges), "" if gauges else "it tells nothing of its own process")


def _server_memory(picture: Overview) -> int | None:
    return picture.server.memory_bytes


def _worker_memory(picture: Overview) -> int | None:
    known = [row.memory_bytes for row in picture.models if row.memory_bytes is not None]
    return sum(known) if known else None


def _part(value: float | None, whole: float | None) -> float | None:
    return value / whole if value is not None and whole else None


def _host(pictures: Sequence[Overview]) -> Section:
    host = pictures[-1].host
    if host is None:
        return Section("Machine", note="the server does not tell")
    hosts = [picture.host for picture in pictures]
    gauges: list[Gauge] = []
    if host.cpu_utilization is not None:
        cpus = f" of {host.cpu_count} CPUs" if host.cpu_count else ""
        load = "" if host.load_1m is None else f", load {host.load_1m:.2f}"
        past = [None if one is None else one.cpu_utilization for one in hosts]
        gauges.append(_gauge("cpu", f"{host.cpu_utilization:.0%}{cpus}{load}", host.cpu_utilization, past))
    if host.memory_total_bytes:
        past = [None if one is None else _part(one.memory_used_bytes, one.memory_total_bytes) for one in hosts]
        text = f"{figures.size(host.memory_used_bytes)} of {figures.size(host.memory_total_bytes)}"
        gauges.append(_gauge("memory", text, past[-1], past))
    return Section("Machine", tuple(gauges))


def _gpu(pictures: Sequence[Overview], gpu: Gpu) -> Section:
    key = (gpu.index, gpu.uuid)
    before = [next((one for one in picture.gpus if (one.index, one.uuid) == key), None) for picture in pictures]

    def gauge(label: str, text: str, share: Callable[[Gpu], float | None]) -> Gauge:
        return _gauge(label, text, share(gpu), [None if one is None else share(one) for one in before])

    gauges: list[Gauge] = []
    if gpu.utilization is not None:
        gauges.append(gauge("busy", f"{gpu.utilization:.0%}", lambda one: one.utilization))
    if gpu.memory_used_bytes is not None:
        whole = f" of {figures.size(gpu.memory_total_bytes)}" if gpu.memory_total_bytes else ""
        text = figures.size(gpu.memory_used_bytes) + whole
        gauges.append(gauge("memory", text, lambda one: _part(one.memory_used_bytes, one.memory_total_bytes)))
    if gpu.power_usage_watts is not None:
        limit = f" of {gpu.power_limit_watts:.0f} W" if gpu.power_limit_watts else ""
        text = f"{gpu.power_usage_watts:.0f} W{limit}"
        gauges.append(gauge("power", text, lambda one: _part(one.power_usage_watts, one.power_limit_watts)))
    if gpu.temperature_celsius is not None:
        heat = gauge(
            "temperature", f"{gpu.temperature_celsius:.0f} °C", lambda one: _part(one.temperature_celsius, HOTTEST_C)
        )
        hot = gpu.temperature_celsius >= HOT_C
        gauges.append(Gauge(heat.label, heat.text, heat.share, heat.past, hot))
    title = f"GPU {gpu.index}  {gpu.name or gpu.uuid}".rstrip()
    return Section(title, tuple(gauges), "" if gauges else "it tells no figures")


def bar(share: float | None, width: int) -> tuple[str, str]:
    """The filled and the empty part of a bar; without a share it is all blank."""
    if share is None:
        return "", " " * width
    filled = min(width, max(0, round(share * width)))
    if share > 0 and not filled:
        filled = 1
    return "█" * filled, "░" * (width - filled)
