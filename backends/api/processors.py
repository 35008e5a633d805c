"""How many CPUs there are to use."""

from __future__ import annotations

import os
from pathlib import Path


def usable_cpus(quota_file: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """CPUs that this process may use: its affinity mask, and a container's quota where that is less."""
    count = len(os.sched_getaffinity(0))
    try:
        quota, period = quota_file.read_text(encoding="ascii").split()
        return count if quota == "max" else max(1, min(count, int(quota) // int(period)))
    except (OSError, ValueError):
        return count
