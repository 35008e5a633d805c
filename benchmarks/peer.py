"""A real Triton on this machine, from public wheels, in a cache folder: what the benchmarks compare against.

The server is the binary inside the ``nvidia-pytriton`` wheel (2.51, CPU, Python backend only); the load generator
``perf_analyzer`` comes from its own wheel and needs glibc 2.38, which an older Debian or Ubuntu borrows from a
bootstrapped Debian trixie beside it. Nothing of it is part of the product, and nothing is installed outside the
folder ``$PEER_HOME`` (default ``~/.cache/infer-peer``), except debootstrap itself where the old glibc asks for it.

    python benchmarks/peer.py            install both, once a machine (about two minutes)
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

SERVER_WHEEL = "nvidia-pytriton==0.7.0"
CLIENT_WHEEL = "tritonclient[all]==2.73.0"
PERF_ANALYZER_WHEEL = "perf-analyzer==2.60.0"
GLIBC_WANTED = (2, 38)


class PeerUnavailable(Exception):
    """The peer cannot be had on this machine; the message says why."""


def home() -> Path:
    """The folder that holds the peer."""
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "infer-peer"
    return Path(os.environ.get("PEER_HOME", default))


def install_triton() -> None:
    """Put the server under ``home()`` unless it is there. Raises PeerUnavailable."""
    if platform.machine() != "x86_64" or not sys.platform.startswith("linux"):
        raise PeerUnavailable(f"its wheel exists for Linux on x86_64 only, this is {sys.platform} {platform.machine()}")
    python = home() / "venv" / "bin" / "python"
    if not python.exists():
        _run([sys.executable, "-m", "venv", str(home() / "venv")])
    if not list(home().glob("venv/lib/python3.*/site-packages/pytriton/tritonserver/bin/tritonserver")):
        _run([str(python), "-m", "pip", "install", "-q", SERVER_WHEEL, CLIENT_WHEEL])
    server, backend = server_root(), server_root() / "backends" / "python" / "triton_python_backend_stub"
    if not backend.exists():
        tag = server.parents[2].name.removeprefix("python")
        stub = server / "python_backend_stubs" / tag / "triton_python_backend_stub"
        if not stub.exists():
            raise PeerUnavailable(f"its wheel has no Python backend for Python {tag}")
        shutil.copy(stub, backend)


def install_perf_analyzer() -> None:
    """Put the official load generator under ``home()`` unless it is there. Raises PeerUnavailable."""
    binary = home() / "pa" / "perf_analyzer" / "bin" / "perf_analyzer"
    if not binary.exists():
        _download_perf_analyzer(binary)
    if _glibc() < GLIBC_WANTED and not (home() / "trixie").exists():
        _borrow_glibc()


def server_root() -> Path:
    """The folder ``tritonserver`` inside the installed wheel."""
    found = sorted(home().glob("venv/lib/python3.*/site-packages/pytriton/tritonserver"))
    if not found:
        raise PeerUnavailable(f"{SERVER_WHEEL} is not installed under {home()}")
    return found[0]


def triton_command(repository: Path, http: int, grpc: int, metrics: int) -> list[str]:
    """How to start the server on loopback."""
    root = server_root()
    return [
        str(root / "bin" / "tritonserver"),
        f"--model-repository={repository}",
        f"--backend-directory={root / 'backends'}",
        f"--cache-directory={root / 'caches'}",
        "--http-address=127.0.0.1",
        f"--http-port={http}",
        "--grpc-address=127.0.0.1",
        f"--grpc-port={grpc}",
        "--metrics-address=127.0.0.1",
        f"--metrics-port={metrics}",
    ]


def triton_environment() -> dict[str, str]:
    """The environment in which the server finds its libraries and its Python."""
    libraries = server_root().parents[1] / "nvidia_pytriton.libs"
    path = f"{home() / 'venv' / 'bin'}:{os.environ.get('PATH', '')}"
    return {**os.environ, "LD_LIBRARY_PATH": str(libraries), "PATH": path}


def perf_analyzer_command() -> list[str]:
    """How to start the load generator."""
    binary = str(home() / "pa" / "perf_analyzer" / "bin" / "perf_analyzer")
    root = home() / "trixie"
    if not root.exists():
        return [binary]
    loader, libraries = root / "usr/lib64/ld-linux-x86-64.so.2", root / "usr/lib/x86_64-linux-gnu"
    return [str(loader), "--library-path", str(libraries), binary]


def _download_perf_analyzer(binary: Path) -> None:
    wheels = home() / "wheel"
    wheels.mkdir(parents=True, exist_ok=True)
    target = ["--only-binary=:all:", "--platform", "manylinux_2_38_x86_64"]
    _run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(wheels), *target, PERF_ANALYZER_WHEEL])
    wheel = next(wheels.glob("perf_analyzer-*.whl"))
    _run([sys.executable, "-m", "zipfile", "-e", str(wheel), str(home() / "pa")])
    binary.chmod(0o755)


def _borrow_glibc() -> None:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise PeerUnavailable("perf_analyzer needs glibc 2.38, and borrowing it needs root on Debian or Ubuntu")
    if shutil.which("debootstrap") is None:
        _run(["apt-get", "install", "-qy", "debootstrap"])
    site = _output(["apt-get", "indextargets", "--format", "$(SITE)"]).splitlines()[0]
    partial = home() / "trixie.part"
    _run(["debootstrap", "--variant=minbase", "--include=libstdc++6,libssl3t64", "trixie", str(partial), site])
    partial.rename(home() / "trixie")


def _glibc() -> tuple[int, int]:
    major, _, minor = platform.libc_ver()[1].partition(".")
    return int(major or 0), int(minor or 0)


def _run(command: list[str]) -> None:
    _output(command)


def _output(command: list[str]) -> str:
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout
    except (OSError, subprocess.SubprocessError) as error:
        detail = getattr(error, "stderr", "") or str(error)
        raise PeerUnavailable(f"`{' '.join(command[:6])}` failed: {detail.strip()[-300:]}") from error


if __name__ == "__main__":
    try:
        install_triton()
        install_perf_analyzer()
    except PeerUnavailable as error:
        sys.exit(f"the peer cannot be had here: {error}")
    print(f"ready in {home()}")
