"""What a soak asks of a server between its crowds: whether it is at rest, what it has counted, what it complains of."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import servers
from soak_footprint import footprint
from soak_ledger import Counted, counted

if TYPE_CHECKING:
    from servers import Server

QUIET_WITHIN_S = 30.0
QUIET_FOR_S = 2.0
STEP_S = 0.2


def quiet(server: Server) -> list[str]:
    """Wait until nothing is pending, the counters stand still and descriptors are no longer given back."""
    end = time.monotonic() + QUIET_WITHIN_S
    state: object = None
    since = time.monotonic()
    while time.monotonic() < end:
        pids = server.tree()
        held = {pid: (process.files, process.threads) for pid, process in footprint(pids).items()}
        now = (counters(server), held)
        if now != state:
            state, since = now, time.monotonic()
        elif time.monotonic() - since > QUIET_FOR_S and not any(model.pending for model in now[0].values()):
            return []
        time.sleep(STEP_S)
    return [f"the server is not quiet {QUIET_WITHIN_S:.0f} s after the last client"]


def counters(server: Server) -> dict[str, Counted]:
    """What it has counted, by model. Raises RuntimeError where it does not say."""
    status, text = server.get("/metrics", port=server.operator_port)
    if status != servers.OK:
        raise RuntimeError(f"/metrics answered {status}")
    return counted(text.decode())


def complaints(server: Server) -> list[str]:
    """The first tracebacks of its log that are not a model's, as sentences."""
    lines = server.log.read_text(errors="replace").splitlines()
    places = [index for index, line in enumerate(lines) if line.startswith("Traceback")]
    return [f"a traceback in the log: {lines[min(index + 1, len(lines) - 1)].strip()}" for index in places[:3]]
