from __future__ import annotations

import os
from typing import TYPE_CHECKING

from infer.backends.api.processors import usable_cpus

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_container_s_quota_bounds_the_cpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(64)))
    file = tmp_path / "cpu.max"
    for content, cpus in (
        ("max 100000", 64),
        ("250000 100000", 2),
        ("50000 100000", 1),
        ("9900000 100000", 64),
        ("?", 64),
    ):
        file.write_text(content)
        assert usable_cpus(file) == cpus
    assert usable_cpus(tmp_path / "none") == 64
