"""``infer down``: stop a server that runs in the background."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from ..failures import ExitCode
from ..places import DEFAULT_NAME, check_name
from .output import note
from .servers import Name

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..registry import Record

_ANSWER_S = 2.0
_TIMEOUT_S = 60.0


def register(app: typer.Typer) -> None:
    """Add the command to the tree."""
    app.command()(down)


def down(
    *,
    name: Name = DEFAULT_NAME,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0, metavar="SECONDS", help="How long to wait until it is gone.")
    ] = _TIMEOUT_S,
    force: Annotated[bool, typer.Option("--force", help="Kill it where it is still there then.")] = False,
) -> None:
    """Stop a server that infer up has started: requests under way finish first.

    Exit code 0 where it is gone, also where there was none; 4 where it is still there.

    Examples:
    infer down
    infer down --name blue --timeout 10 --force
    """
    from ..registry import Registry

    record = Registry.of_user().find(check_name(name))
    if record is None:
        note(f"No server named '{name}' is running.")
        raise typer.Exit(ExitCode.OK)
    raise typer.Exit(stop_and_tell(record, timeout_s=timeout, force=force))


def stop_and_tell(record: Record, *, timeout_s: float = _TIMEOUT_S, force: bool = False) -> int:
    """Stop a server and say so; the exit code. Raises CommandError where it is still there."""
    from ..registry import Registry
    from ..stopping import stop

    note(f"stopping '{record.name}', process {record.pid} …")
    stop(record, Registry.of_user(os.environ), timeout_s=timeout_s, force=force, waiting=_progress(record))
    print(f"'{record.name}' is stopped.")
    return ExitCode.OK


def _progress(record: Record) -> Callable[[], None]:
    """Says how many requests are under way whenever it is another number."""
    from ..standing import look

    told = 0

    def show() -> None:
        nonlocal told
        under_way = look(record, _ANSWER_S).in_flight
        if under_way and under_way != told:
            plural = "s" if under_way > 1 else ""
            note(f"{under_way} request{plural} under way")
        told = under_way

    return show
