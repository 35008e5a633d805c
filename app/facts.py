"""What this machine and this installation are, as ``infer doctor`` looks at them. Nothing here changes anything.

Each check is a function without arguments that gives results; the verdicts are those of ``checks``.
"""

from __future__ import annotations

import fcntl
import importlib.metadata
import os
import resource
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..backends import catalog
from ..server.observe.gpu import GpuProbe, visible_devices
from . import checks
from .configuration import load, user_file
from .places import run_folder, state_folder
from .registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from .checks import Result

DOORS = ((8000, "HTTP"), (8001, "gRPC"), (8002, "the operator's door"))
_LISTENING = "0A"
_NO_LIMIT = 1 << 60
"""Above this a number of bytes in a control group of the old kind means none."""

_F_GET_SEALS = 1034


def examine() -> list[Result]:
    """Look at everything. A check that cannot be made is a warning with the reason."""
    findings: list[Result] = []
    for name, check in checks_of(os.environ).items():
        findings += checks.made(name, check)
    return findings


def checks_of(environment: Mapping[str, str]) -> dict[str, Callable[[], Iterable[Result]]]:
    """Every check by name, in the order in which they are shown."""
    return {
        "python": lambda: [checks.python(sys.version_info[:3], sys.executable)],
        "ports": lambda: [checks.port(number, door, holder(number)) for number, door in DOORS],
        "open files": lambda: [checks.open_files(*resource.getrlimit(resource.RLIMIT_NOFILE))],
        "shared memory": lambda: checks.shared_memory(free_shared_memory(), memfd=seals_memory()),
        "limits": lambda: checks.limits(memory_limit(), cpu_limit(), os.cpu_count() or 1),
        "gpu": _gpu,
        "backends": _backends,
        "folders": partial(_folders, environment),
        "configuration": _configuration,
        "locale": lambda: [checks.locale(sys.stdout.encoding or "unknown")],
        "terminal": lambda: [checks.terminal(environment, is_terminal=sys.stdout.isatty())],
        "servers": _servers,
        "clock": lambda: [checks.clock(time.time(), Path(__file__).stat().st_mtime)],
    }


def holder(port: int) -> str | None:
    """Who listens on a port of this machine: a server of this user by name, a process by number; None for nobody."""
    inodes = _listening(port)
    if not inodes:
        return None
    for record in Registry.of_user().live():
        addresses = (record.http, record.grpc, record.operator)
        if any(address and address.endswith(f":{port}") for address in addresses):
            return f"infer '{record.name}' (process {record.pid})"
    process = _owner(inodes)
    return f"process {process}" if process else "another user's process"


def _listening(port: int) -> set[str]:
    """The inodes of the sockets that listen on a port, by the kernel's tables."""
    found: set[str] = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            cells = line.split()
            if cells[3] == _LISTENING and int(cells[1].rpartition(":")[2], 16) == port:
                found.add(cells[9])
    return found


def _owner(inodes: set[str]) -> str:
    """The number and name of the process that holds a socket; empty where it is not ours to see."""
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            if any(str(link.readlink()) in wanted for link in (process / "fd").iterdir()):
                return f"{process.name} ({(process / 'comm').read_text().strip()})"
        except OSError:
            continue  # another user's, or it ended meanwhile
    return ""


def free_shared_memory() -> int | None:
    """Bytes free in /dev/shm; None where it cannot be used."""
    path = "/dev/shm"  # noqa: S108  looked at, not written
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize if os.access(path, os.W_OK) else None


def seals_memory() -> bool:
    """Whether the kernel gives memory without a name that can be sealed."""
    try:
        descriptor = os.memfd_create("infer-doctor", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except (AttributeError, OSError):
        return False
    try:
        return fcntl.fcntl(descriptor, _F_GET_SEALS) >= 0
    except OSError:
        return False
    finally:
        os.close(descriptor)


def memory_limit(root: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Bytes that the control group may use; None without a limit."""
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        text = _text(root / name)
        if text.isdigit():
            return int(text) if int(text) < _NO_LIMIT else None
    return None


def cpu_limit(root: Path = Path("/sys/fs/cgroup")) -> float | None:
    """Cores that the control group may use; None without a limit."""
    quota, _, period = _text(root / "cpu.max").partition(" ")
    if not quota:
        quota, period = _text(root / "cpu/cpu.cfs_quota_us"), _text(root / "cpu/cpu.cfs_period_us")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() and int(period) else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def gpus() -> tuple[list[str], str]:
    """GPUs by name and memory, or why there are none."""
    with visible_devices() as found:
        readings = GpuProbe(found.devices).read()
    return [f"{reading.name} ({reading.memory_total_bytes >> 30} GiB)" for reading in readings], found.reason


def _gpu() -> list[Result]:
    return [checks.gpu(*gpus())]


def _backends() -> list[Result]:
    installed = {str(found.name).lower() for found in importlib.metadata.distributions() if found.name}
    return [*checks.runtimes(installed), *checks.backends(catalog.available())]


def _folders(environment: Mapping[str, str]) -> Iterator[Result]:
    run = run_folder(environment, os.getuid())
    for name, folder in (
        ("run folder", run),
        ("state folder", state_folder(environment)),
        ("config folder", user_file(environment).parent),
    ):
        yield checks.folder(name, str(folder), there=folder.is_dir(), writable=_is_writable(folder))


def _is_writable(folder: Path) -> bool:
    """Whether something can be made in a folder, or the folder itself where it is not there yet."""
    nearest = next((one for one in (folder, *folder.parents) if one.exists()), Path("/"))
    return nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)


def _configuration() -> Iterator[Result]:
    configuration = load()
    context = f", context '{configuration.context.name}'" if configuration.context else ""
    yield checks.Result("configuration", checks.Verdict.PASS, f"{user_file()}{context}")
    found = str(configuration.resolve("key_file").value or "")
    if found:
        path = Path(found).expanduser()
        yield checks.key_file(found, path.stat().st_mode & 0o777 if path.exists() else None)


def _servers() -> list[Result]:
    registry = Registry.of_user()
    live = [f"{record.name} (process {record.pid})" for record in registry.live()]
    return [checks.servers(live)]
