"""``infer ps``: what serves now, in few columns."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from ...tui.snapshot import parse_overview
from .options import Context, Output, Timeout, Url
from .output import Format, print_json, print_table
from .target import open_target
from .units import byte_size

if TYPE_CHECKING:
    from ...tui.snapshot import ModelSnapshot

HEAD = ("MODEL", "VERSION", "STATE", "INSTANCES", "MEMORY", "REQUESTS", "IN FLIGHT")


def register(app: typer.Typer) -> None:
    """Add the command to the tree."""
    app.command()(ps)


def ps(
    *,
    every: Annotated[bool, typer.Option("--all", "-a", help="Also models that are not loaded.")] = False,
    url: Url = None,
    context: Context = None,
    timeout: Timeout = None,
    output: Output = None,
) -> None:
    """Show the models that serve: instances, memory of their workers, requests answered and in flight.

    Examples:
    infer ps
    infer ps --all -o json
    """
    target = open_target(url, context, timeout, output)
    overview = parse_overview(target.client.get("/v2/operator/overview"))
    rows = [row for row in overview.models if every or is_shown(row)]
    if target.output is Format.JSON:
        print_json([asdict(row) for row in rows])
    elif target.output is Format.NAME:
        for name in dict.fromkeys(row.name for row in rows):
            print(name)
    else:
        print_table(HEAD, [cells(row) for row in rows])


def is_shown(row: ModelSnapshot) -> bool:
    """Whether a version serves, is on its way, or failed: not those that nobody asked for."""
    return row.state not in ("", "UNAVAILABLE") or bool(row.instances)


def cells(row: ModelSnapshot) -> list[str]:
    """One version's line."""
    busy = sum(instance.state == "busy" for instance in row.instances)
    instances = f"{len(row.instances)} ({busy} busy)" if busy else str(len(row.instances))
    return [
        row.name,
        row.version,
        row.state or "not loaded",
        instances if row.instances else "",
        "" if row.memory_bytes is None else byte_size(row.memory_bytes),
        str(row.success + row.failed),
        "" if row.in_flight is None else str(row.in_flight),
    ]
