"""What the doctor looks at, on this machine and on made-up ones."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from infer.app import facts

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def no_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFER_RUN_DIR", str(tmp_path / "run"))


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_who_listens_on_a_port_is_found_by_process(family: socket.AddressFamily, address: str) -> None:
    try:
        listener = socket.create_server((address, 0), family=family)
    except OSError:
        pytest.skip(f"{address} cannot be listened on here")
    with listener:
        port = listener.getsockname()[1]
        held = facts.holder(port)
        assert held is not None
        assert held.startswith(f"process {os.getpid()} (")
    assert facts.holder(port) is None


def test_a_server_in_the_registry_is_found_by_its_name() -> None:
    from infer.app.registry import Record, Registry

    with socket.create_server(("127.0.0.1", 0)) as listener, Registry.of_user().take("blue") as registration:
        port = listener.getsockname()[1]
        registration.publish(Record(name="blue", pid=7, http=f"127.0.0.1:{port}"))
        assert facts.holder(port) == "infer 'blue' (process 7)"


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({}, None),
        ({"memory.max": "max\n"}, None),
        ({"memory.max": "1073741824\n"}, 1 << 30),
        ({"memory/memory.limit_in_bytes": "2097152"}, 2 << 20),
        ({"memory/memory.limit_in_bytes": "9223372036854771712"}, None),
    ],
)
def test_the_memory_limit_is_read_from_both_kinds_of_control_groups(
    tmp_path: Path, files: dict[str, str], limit: int | None
) -> None:
    write(tmp_path, files)
    assert facts.memory_limit(tmp_path) == limit


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({}, None),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ({"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000"}, 0.5),
        ({"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "0"}, None),
    ],
)
def test_the_cpu_limit_is_read_from_both_kinds_of_control_groups(
    tmp_path: Path, files: dict[str, str], limit: float | None
) -> None:
    write(tmp_path, files)
    assert facts.cpu_limit(tmp_path) == limit


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_this_machine_has_what_the_server_needs() -> None:
    assert facts.seals_memory()
    free = facts.free_shared_memory()
    assert free is None or free >= 0
    names, reason = facts.gpus()
    assert names or reason


def test_every_check_gives_results(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name, check in facts.checks_of(os.environ).items():
        assert list(check()), name


def test_the_key_file_of_the_configuration_is_looked_at(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("k")
    (tmp_path / "key").chmod(0o644)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("INFER_KEY_FILE", str(tmp_path / "key"))
    results = list(facts.checks_of(os.environ)["configuration"]())
    assert [result.name for result in results] == ["configuration", "key file"]
    assert "can be read by others" in results[1].text


def test_everything_is_looked_at() -> None:
    names = [result.name for result in facts.examine()]
    assert len(names) == len(set(names))
    for name in ("python", "port 8000", "open files", "memfd", "gpu", "backend python", "run folder", "clock"):
        assert name in names
