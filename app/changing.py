"""Loads and unloads asked of a running server, waited for with its state in view, and what came of each.

A change is asked for on a thread, because the server answers once it is done, and the index is looked at meanwhile. The
server goes on with a change that nobody waits for any more.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..tui.client import Client, control_path, model_path
from ..tui.failure import ClientError, Failure, Kind
from ..tui.snapshot import parse_overview

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..tui.client import Reply
    from ..tui.snapshot import Overview

POLL_S = 0.25
GLANCE_S = 1.0
"""How long a change is watched that is not waited for: a refusal comes sooner."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one change. ``failure`` is None where it was done; ``note`` is a sentence for a person."""

    name: str
    rows: tuple[Row, ...] = ()
    note: str = ""
    failure: Failure | None = None

    @property
    def state(self) -> str:
        """Versions and states as a phrase."""
        return states(self.rows)


def index(client: Client, *, ready_only: bool = False) -> list[Row]:
    """The server's models and versions."""
    rows: list[Row] = client.post("/v2/repository/index", {"ready": True} if ready_only else {})
    return rows


def rows_of(client: Client, name: str) -> tuple[Row, ...]:
    """The versions of one model."""
    return tuple(row for row in index(client) if row["name"] == name)


def state(row: Row) -> str:
    """One version's state as a phrase."""
    words = f"version {row['version']} " if row.get("version") else ""
    words += row.get("state") or "not loaded"
    return f"{words}: {row['reason']}" if row.get("reason") else words


def states(rows: tuple[Row, ...]) -> str:
    """A model's versions as a phrase."""
    return "; ".join(state(row) for row in rows) or "not loaded"


def overview_of(client: Client) -> Overview | None:
    """The overview; None where the server has none, as a real Triton or an older one of ours."""
    try:
        return parse_overview(client.get("/v2/operator/overview"))
    except ClientError as error:
        if error.kind is Kind.NO_CONNECTION:
            raise
        return None


def change(  # noqa: PLR0913  a change is all of this
    client: Client,
    verb: str,
    name: str,
    document: Row,
    *,
    wait_s: float | None,
    show: Callable[[str], None],
) -> Outcome:
    """Load (``verb`` load) or unload a model, and look at what came of it.

    ``wait_s`` None is a change that is not waited for: a refusal within a second is told, no more. ``show`` gets every
    state that it goes through.
    """
    patience = Client(client.url, GLANCE_S if wait_s is None else wait_s, client.key)
    glance = Client(client.url, min(client.timeout, 5.0), client.key)
    failures: list[Failure] = []

    def ask() -> None:
        try:
            patience.post(control_path(name, verb), document)
        except Failure as error:
            failures.append(error)

    asking = threading.Thread(target=ask, name=f"{verb}-{name}", daemon=True)
    asking.start()
    asking.join(POLL_S)
    seen = ""
    while asking.is_alive():
        seen = _show_change(glance, name, seen, show)
        asking.join(POLL_S)
    if not failures:
        return Outcome(name, rows_of(glance, name))
    failure = failures[0]
    late = isinstance(failure, ClientError) and failure.late
    if late:
        rows = rows_of(glance, name)
        if wait_s is None:
            return Outcome(name, rows, f"{verb} of '{name}' is under way; ask for its state: infer model list {name}")
        failure = ClientError(
            f"the {verb} of '{name}' is not done after {wait_s:g} seconds",
            f"its last known state: {states(rows)}; the server goes on with it",
            f"wait for it: infer model ready {name} --wait   or give it longer: --timeout SECONDS",
            kind=Kind.NOT_READY,
        )
        return Outcome(name, rows, failure=failure)
    return Outcome(name, failure=failure)


def _show_change(client: Client, name: str, seen: str, show: Callable[[str], None]) -> str:
    """Tell of a state that was not told yet; the state. A look that fails is none."""
    try:
        now = states(rows_of(client, name))
    except Failure:
        return seen
    if now != seen:
        show(f"{name}  {now}")
    return now


def when_ready(client: Client, name: str, version: str, wait_s: float) -> Reply:
    """The server's answer to whether a model is ready, as soon as it is yes, and after ``wait_s`` seconds anyway."""
    ends = time.monotonic() + wait_s
    pause = threading.Event()
    while True:
        reply = client.request("GET", model_path(name, version, "/ready"))
        left = ends - time.monotonic()
        if reply.ok or left <= 0:
            return reply
        pause.wait(min(POLL_S, left))


def fingerprint(overview: Overview | None, name: str) -> frozenset[tuple[Any, ...]] | None:
    """What differs between a version and the same one loaded again; None where the server does not tell."""
    if overview is None:
        return None
    return frozenset(
        (row.version, row.load_duration_s, tuple(instance.pid for instance in row.instances))
        for row in overview.models
        if row.name == name and row.state == "READY"
    )
