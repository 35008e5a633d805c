"""CPU and memory of the machine and of processes, from the kernel's tables."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Clock ticks of all cores since boot."""

    busy: int
    idle: int

    @classmethod
    def parse(cls, stat: str) -> CpuTimes:
        """Read the first line of ``/proc/stat``: busy is user, nice, system, irq, softirq, steal; idle has iowait."""
        user, nice, system, idle, iowait, irq, softirq, steal = (int(word) for word in stat.split()[1:9])
        return cls(busy=user + nice + system + irq + softirq + steal, idle=idle + iowait)

    def utilization_since(self, before: CpuTimes) -> float:
        """The busy share, 0..1, of the time since ``before``."""
        busy, idle = self.busy - before.busy, self.idle - before.idle
        return min(1.0, max(0.0, busy / (busy + idle))) if busy + idle > 0 else 0.0


def memory_bytes(meminfo: str) -> tuple[int, int]:
    """Total and used bytes from the text of ``/proc/meminfo``; used is what is not available."""
    rows = (line.partition(":") for line in meminfo.splitlines())
    kib = {name: int(rest.split()[0]) for name, _, rest in rows if rest}
    total = kib["MemTotal"]
    return total * 1024, (total - kib["MemAvailable"]) * 1024


@dataclass(frozen=True, slots=True)
class HostReading:
    """The machine at one moment. ``cpu_utilization`` is 0..1 over all cores, ``load_1m`` the kernel's load average."""

    cpu_utilization: float
    memory_total_bytes: int
    memory_used_bytes: int
    cpu_count: int = 1
    load_1m: float = 0.0


class HostProbe:
    """Reads the machine when asked; utilization is the mean since a reading at least ``interval_s`` ago."""

    def __init__(
        self, interval_s: float = 2.0, *, proc: Path = Path("/proc"), clock: Callable[[], float] = time.monotonic
    ) -> None:
        """``proc`` is where the kernel's tables are, ``clock`` counts seconds."""
        self._interval_s = interval_s
        self._proc = proc
        self._clock = clock
        self._lock = threading.Lock()
        self._measured_at = clock()
        self._times = self._read_times()
        self._utilization = 0.0

    def read(self) -> HostReading:
        """The machine now. Any thread."""
        total, used = memory_bytes((self._proc / "meminfo").read_text())
        load = 0.0
        with contextlib.suppress(OSError, ValueError, IndexError):
            # A sandbox may have no such table; the rest is worth showing without it.
            load = float((self._proc / "loadavg").read_text().split()[0])
        return HostReading(self._current_utilization(), total, used, os.cpu_count() or 1, load)

    def _current_utilization(self) -> float:
        # Two scrapers at once would leave one of them a span of a few ticks: below the interval the value stands.
        with self._lock:
            now = self._clock()
            if now - self._measured_at >= self._interval_s:
                times = self._read_times()
                self._utilization = times.utilization_since(self._times)
                self._times, self._measured_at = times, now
            return self._utilization

    def _read_times(self) -> CpuTimes:
        return CpuTimes.parse((self._proc / "stat").read_text())


_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


def resident_bytes(pid: int) -> int | None:
    """The memory that a process holds (its resident set), None for one that is gone. Any thread."""
    try:
        # PERF: without a file object, since a dashboard asks for every worker each second.
        descriptor = os.open(f"/proc/{pid}/statm", os.O_RDONLY)
    except OSError:
        return None
    try:
        return int(os.read(descriptor, 200).split()[1]) * _PAGE_BYTES
    except (OSError, IndexError):
        return None
    finally:
        os.close(descriptor)
