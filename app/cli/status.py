"""``infer status``: the servers that run on this machine, and how they stand."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import typer

from ..failures import CommandError, ExitCode
from .options import Output, Timeout
from .output import Format, print_json, print_table
from .servers import Name
from .target import output_form
from .units import byte_size, uptime

if TYPE_CHECKING:
    from ..standing import Standing

HEAD = ("NAME", "PID", "STATE", "UPTIME", "HTTP", "GRPC", "OPERATOR", "MODELS", "IN FLIGHT", "MEMORY")
_ANSWER_S = 5.0


def register(app: typer.Typer) -> None:
    """Add the command to the tree."""
    app.command()(status)


def status(
    *,
    name: Name = "",
    timeout: Timeout = None,
    output: Output = None,
) -> None:
    """Show the servers that you run on this machine: addresses, models, requests under way, memory.

    All of them, or the one that --name names. Exit code 0 where all are ready, 4 where one is not, 3 where there is
    none.

    Examples:
    infer status
    infer status -o json
    """
    from ..configuration import load
    from ..registry import Registry
    from ..standing import document, look, outcome

    configuration = load()
    seconds, form = configuration.number("timeout", timeout, _ANSWER_S), output_form(configuration, output)
    registry = Registry.of_user()
    found = [registry.find(name)] if name else registry.live()
    standings = [look(record, seconds) for record in found if record is not None]
    now = time.time()
    if form is Format.JSON:
        print_json([document(standing, now) for standing in standings])
    elif form is Format.NAME:
        for standing in standings:
            print(standing.record.name)
    else:
        _print_table(standings, now)
    if not standings:
        raise CommandError(
            f"no server named '{name}' is running" if name else "no server is running",
            f"nothing is registered in {registry.folder}",
            "start one: infer up",
            code=ExitCode.NOT_FOUND,
        )
    raise typer.Exit(outcome(standings))


def _print_table(standings: list[Standing], now: float) -> None:
    """A row a server; one alone is shown with a line for each fact, which fits any terminal."""
    from ..standing import reasons

    rows = [cells(standing, now) for standing in standings]
    if len(rows) == 1:
        facts = [*zip(HEAD, rows[0], strict=True), ("LOG", standings[0].record.log_file or "on its console")]
        for head, cell in facts:
            print(f"{head.lower():10} {cell}")
    elif rows:
        print_table(HEAD, rows)
    for line in [line for standing in standings for line in reasons(standing)]:
        print(line)
    sys.stdout.flush()


def cells(standing: Standing, now: float) -> list[str]:
    """One server as a row below ``HEAD``; ``now`` is in seconds since 1970."""
    record, total = standing.record, len(standing.counted)
    return [
        record.name,
        str(record.pid),
        standing.state,
        uptime(max(0.0, now - record.started_at)),
        record.http or "-",
        record.grpc or "-",
        record.operator or "-",
        f"{total - len(standing.not_ready)}/{total} ready" if standing.overview else "-",
        str(standing.in_flight) if standing.overview else "-",
        "-" if standing.memory_bytes is None else byte_size(standing.memory_bytes),
    ]
