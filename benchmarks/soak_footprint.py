"""What a server's processes hold: descriptors, memfds, sockets, threads, memory; and whether that has grown."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

_PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / 2**20


@dataclass(frozen=True)
class Held:
    """One process. ``files`` counts every descriptor; ``memfds`` and ``sockets`` are among them."""

    files: int
    memfds: int
    sockets: int
    threads: int
    rss_mib: float


def footprint(pids: list[int]) -> dict[int, Held]:
    """What each of the processes holds now; one that has ended is left out."""
    found: dict[int, Held] = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            found[pid] = _held(Path(f"/proc/{pid}"))
    return found


def growth(before: dict[int, Held], after: dict[int, Held], rss_limit_mib: float) -> list[str]:
    """What there is more of, as sentences; other processes than before count too."""
    found: list[str] = []
    if gone := sorted(before.keys() - after.keys()):
        found.append(f"processes ended: {gone}")
    if new := sorted(after.keys() - before.keys()):
        found.append(f"processes were added: {new}")
    for pid in sorted(before.keys() & after.keys()):
        had, has = before[pid], after[pid]
        found += [
            f"process {pid}: {getattr(had, what)} {what} before, {getattr(has, what)} after"
            for what in ("files", "memfds", "sockets", "threads")
            if getattr(has, what) > getattr(had, what)
        ]
        if has.rss_mib > had.rss_mib + rss_limit_mib:
            found.append(f"process {pid}: {had.rss_mib:.0f} MiB resident before, {has.rss_mib:.0f} after")
    return found


def _held(process: Path) -> Held:
    links: list[str] = []
    for link in (process / "fd").iterdir():
        with contextlib.suppress(OSError):
            links.append(str(link.readlink()))
    pages = int((process / "statm").read_text().split()[1])
    return Held(
        files=len(links),
        memfds=sum(link.startswith("/memfd:") for link in links),
        sockets=sum(link.startswith("socket:") for link in links),
        threads=len(list((process / "task").iterdir())),
        rss_mib=pages * _PAGE_MIB,
    )
