"""``infer env …``: the environments that were made from models' ``requirements.txt`` and are kept between runs."""

from __future__ import annotations

import os
import time
from typing import Annotated

import typer

from ...backends.python.environments import kept
from ..failures import CommandError
from .options import Output, Yes
from .output import Format, note, print_json, print_table
from .tree import Tree
from .units import byte_size, uptime

app = Tree(name="env")

DAY_S = 86400


@app.callback()
def env() -> None:
    """Look at the Python environments that were made for models, and remove those that none uses.

    Examples:
    infer env list
    infer env prune --unused-for 90 --yes
    """


@app.command("list")
def list_environments(output: Output = None) -> None:
    """List the environments of this user, the one that was used last first.

    Examples:
    infer env list
    infer env list -o json
    """
    found = kept.listed(os.environ)
    if output is Format.JSON:
        print_json([_document(one) for one in found])
    elif output is Format.NAME:
        for one in found:
            print(one.folder.name)
    else:
        head = ("NAME", "MADE FROM", "PYTHON", "SIZE", "LAST USED", "IN USE")
        print_table(head, [_cells(one) for one in found])
        if not found:
            note(f"note: none is kept in {kept.place(os.environ)}; a model's EXECUTION_ENV_PATH asks for one")


@app.command()
def prune(
    *,
    unused_for: Annotated[
        float, typer.Option("--unused-for", metavar="DAYS", min=0, help="Only those that no model has used so long.")
    ] = 30,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say which would be removed.")] = False,
    yes: Yes = False,
) -> None:
    """Remove environments that no running server uses. The next load of a model that wants one installs it again.

    Examples:
    infer env prune --dry-run
    infer env prune --unused-for 0 --yes
    """
    import sys

    since = time.time() - unused_for * DAY_S
    found = [one for one in kept.listed(os.environ) if not one.in_use and one.used_at <= since]
    size = byte_size(sum(one.size for one in found))
    if dry_run or not found:
        for one in found:
            print(one.folder.name)
        note(f"would remove {len(found)}, {size} in all" if found else "nothing to remove")
        return
    if not yes and sys.stdin.isatty() and not typer.confirm(f"Remove {len(found)} with {size}?", err=True):
        raise CommandError("nothing was removed", "the answer was no", "if you mean it: infer env prune --yes")
    for one in found:
        if kept.remove(one.folder, since):
            print(one.folder.name)
        else:
            note(f"note: {one.folder} stays: it is in use now, or not all of it can be removed")


def _cells(one: kept.Kept) -> list[str]:
    used = f"{uptime(max(0.0, time.time() - one.used_at))} ago"
    source = one.requirements or "(its making was broken off)"
    return [one.folder.name, source, one.python, byte_size(one.size), used, "yes" if one.in_use else "no"]


def _document(one: kept.Kept) -> dict[str, object]:
    return {
        "name": one.folder.name,
        "folder": str(one.folder),
        "requirements": one.requirements,
        "python": one.python,
        "size_bytes": one.size,
        "used_at": one.used_at,
        "in_use": one.in_use,
    }
