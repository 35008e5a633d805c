from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import psutil

from infer.server.observe.host import CpuTimes, HostProbe, memory_bytes, resident_bytes

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
    assert reading.cpu_count == os.cpu_count()
    assert reading.load_1m >= 0


def test_the_load_is_that_of_the_last_minute_and_0_where_there_is_no_such_table(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text(MEMINFO)
    (tmp_path / "stat").write_text(stat(0, 0))
    probe = HostProbe(proc=tmp_path)
    assert probe.read().load_1m == 0.0
    (tmp_path / "loadavg").write_text("")
    assert probe.read().load_1m == 0.0
    (tmp_path / "loadavg").write_text("1.25 0.5 0.1 2/300 4711\n")
    assert probe.read().load_1m == 1.25


def test_the_memory_of_a_process_is_its_resident_set() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        measured = resident_bytes(process.pid)
        assert measured is not None
        assert measured > 0
        process.communicate(b"\n")
    assert resident_bytes(process.pid) is None
    own, truth = resident_bytes(os.getpid()), psutil.Process().memory_info().rss
    assert own is not None
    assert abs(own - truth) < 32 << 20
