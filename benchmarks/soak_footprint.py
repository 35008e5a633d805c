"""What a server's processes hold: descriptors, memfds, sockets, threads, memory; and whether that has grown."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

_PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / 2**20


@dataclass(frozen=True)
class Held:
    """One process. ``files`` counts every descriptor; ``memfds`` and ``sockets`` are among them.

    A memfd that is mapped counts, because Python's mmap keeps a descriptor of its own.
    """

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


@dataclass(frozen=True)
class Kin:
    """All processes of one generation together: the server, its helpers (the zygote among them), or the workers."""

    processes: int = 0
    files: int = 0
    memfds: int = 0
    sockets: int = 0
    threads: int = 0
    rss_mib: float = 0.0


GENERATIONS = ("server", "helpers", "workers")


def kin(tree: list[int]) -> dict[str, Kin]:
    """What each generation of a process tree holds; parents stand before their children in ``tree``."""
    generation = {tree[0]: 0}
    members: list[list[int]] = [[] for _ in GENERATIONS]
    for pid in tree:
        if pid not in generation:
            with contextlib.suppress(OSError):
                parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
                generation[pid] = min(generation.get(parent, 0) + 1, len(GENERATIONS) - 1)
        if pid in generation:
            members[generation[pid]].append(pid)
    return {name: _together(footprint(pids)) for name, pids in zip(GENERATIONS, members, strict=True)}


def kin_growth(before: dict[str, Kin], after: dict[str, Kin], rss_share: float) -> list[str]:
    """What a generation has more of, as sentences; memory may grow by ``rss_share`` of what it was."""
    found: list[str] = []
    for name, had in before.items():
        has = after[name]
        found += [
            f"{name}: {getattr(had, what)} {what} before, {getattr(has, what)} after"
            for what in ("processes", "files", "memfds", "sockets", "threads")
            if getattr(has, what) > getattr(had, what)
        ]
        if has.rss_mib > had.rss_mib * (1 + rss_share):
            found.append(f"{name}: {had.rss_mib:.1f} MiB resident before, {has.rss_mib:.1f} after")
    return found


def _together(held: dict[int, Held]) -> Kin:
    each = held.values()
    return Kin(
        len(held),
        sum(one.files for one in each),
        sum(one.memfds for one in each),
        sum(one.sockets for one in each),
        sum(one.threads for one in each),
        sum(one.rss_mib for one in each),
    )


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
