from __future__ import annotations

from typing import TYPE_CHECKING

from infer.server.observe.host import CpuTimes, HostProbe, memory_bytes

if TYPE_CHECKING:
    from pathlib import Path

MEMINFO = "MemTotal:  1000 kB\nMemFree:  100 kB\nMemAvailable:  400 kB\nHugePages_Total:  0\n"


def stat(user: int, idle: int, iowait: int = 0) -> str:
    return f"cpu  {user} 0 0 {idle} {iowait} 0 0 0 0 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n"


def test_busy_is_all_but_idle_and_iowait() -> None:
    assert CpuTimes.parse("cpu  1 2 4 8 16 32 64 128 256 512") == CpuTimes(busy=1 + 2 + 4 + 32 + 64 + 128, idle=24)


def test_utilization_is_the_busy_share_of_the_span() -> None:
    assert CpuTimes(30, 170).utilization_since(CpuTimes(0, 100)) == 0.3
    assert CpuTimes(5, 5).utilization_since(CpuTimes(5, 5)) == 0.0


def test_used_memory_is_what_is_not_available() -> None:
    assert memory_bytes(MEMINFO) == (1000 * 1024, 600 * 1024)


def test_the_value_stands_until_the_interval_is_over(tmp_path: Path) -> None:
    now = [0.0]
    (tmp_path / "meminfo").write_text(MEMINFO)
    (tmp_path / "stat").write_text(stat(0, 0))
    probe = HostProbe(2.0, proc=tmp_path, clock=lambda: now[0])
    (tmp_path / "stat").write_text(stat(25, 70, 5))
    now[0] = 1.9
    assert probe.read().cpu_utilization == 0.0
    now[0] = 2.0
    assert probe.read().cpu_utilization == 0.25
    (tmp_path / "stat").write_text(stat(1000, 70, 5))
    now[0] = 3.0
    assert probe.read().cpu_utilization == 0.25


def test_this_machine_can_be_read() -> None:
    reading = HostProbe().read()
    assert 0.0 <= reading.cpu_utilization <= 1.0
    assert 0 < reading.memory_used_bytes <= reading.memory_total_bytes
