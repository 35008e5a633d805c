"""``infer up``: everything at once, with nothing to say: the samples, or the repositories named, and the dashboard.

At a terminal the server gets a session of its own and the dashboard is attached to it; the server stays when the
dashboard or the terminal goes. Without a terminal it is the server itself, in the foreground.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from ..failures import CommandError, ExitCode
from ..places import DEFAULT_NAME, check_name
from ..up_flags import with_defaults
from .output import note
from .serve import read_flags, run_with_flags
from .servers import server_names

if TYPE_CHECKING:
    from ...tui.source import Source
    from ..registry import Record

_CONTEXT: dict[str, Any] = {"ignore_unknown_options": True, "allow_extra_args": True}
_ANSWER_S = 10.0


class Dashboard(Protocol):
    """Shows a server until the user leaves: ``stop`` it, ``leave`` it running, or just ``detach``."""

    def __call__(self, source: Source, *, owned: bool) -> str:
        """Returns what the user wants to become of the server."""
        ...


def register(app: typer.Typer) -> None:
    """Add the command to the tree."""
    app.command(context_settings=_CONTEXT)(up)


def up(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Option("--name", metavar="NAME", help="Its name, to have several.", autocompletion=server_names),
    ] = DEFAULT_NAME,
    detach: Annotated[bool, typer.Option("--detach", help="Start it, wait until it serves, and return.")] = False,
    foreground: Annotated[bool, typer.Option("--foreground", help="Be the server, with the log here.")] = False,
) -> None:
    """Start the server on the sample models, or on --model-repository DIR, and show it; takes the flags of serve.

    At a terminal the server runs in the background with the dashboard attached to it, and where one runs already the
    dashboard is attached to that. Without a terminal, and with --foreground, the server runs here: Ctrl-C lets requests
    under way finish and stops; a second one stops at once.

    A model that fails to load is shown with its reason, and the others serve; one whose framework is not installed is
    shown with the command that installs it. Models are loaded and unloaded by who runs the server, and by others only
    with --allow-remote-control.

    Examples:
    infer up
    infer up --model-repository models
    infer up --name blue --http-port 0 --grpc-port 0 --metrics-port 0 --detach
    """
    check_name(name)
    if detach and foreground:
        raise CommandError(
            "--detach and --foreground exclude each other",
            "one returns at once, the other stays",
            "leave one of them out",
            code=ExitCode.USAGE,
        )
    if foreground or not (detach or _is_terminal()):
        raise typer.Exit(run_with_flags(with_defaults(context.args), name))
    raise typer.Exit(_detached(name, context.args) if detach else _attached(name, context.args))


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _detached(name: str, args: list[str]) -> int:
    from ..background import bring_up

    if read_flags(with_defaults(args)) is None:
        return ExitCode.FAILED
    record, started = bring_up(name, args, enough=lambda record: bool(record.start_page), tell=_progress())
    if not started:
        print(f"'{name}' is running already, as process {record.pid}; see it: {_line('status', name)}")
        return ExitCode.OK
    print(record.start_page)
    note(f"\n'{name}' runs in the background. {_ways(record)}")
    return ExitCode.OK


def _attached(name: str, args: list[str], dashboard: Dashboard | None = None) -> int:
    from ...tui.source import ServerSource
    from ..background import bring_up
    from ..finding import client_of

    settings = read_flags(with_defaults(args))
    if settings is None:
        return ExitCode.FAILED
    if not settings.allow_metrics:
        raise CommandError(
            "the dashboard cannot be attached",
            "--allow-metrics=false closes the operator's door, which it asks",
            "leave that out, or add --detach or --foreground",
            code=ExitCode.USAGE,
        )
    record, started = bring_up(name, args, enough=lambda record: bool(record.control_socket), tell=_progress())
    if not started:
        print(f"'{name}' is running already, as process {record.pid}: attached to it.")
    show = dashboard or _dashboard()
    try:
        outcome = show(ServerSource(client_of(record, _ANSWER_S)), owned=True)
    except BaseException:
        note(f"'{name}' goes on serving. {_ways(record)}")
        raise
    if outcome == "stop":
        from .down import stop_and_tell

        return stop_and_tell(record)
    print(f"'{name}' goes on serving. {_ways(record)}")
    return ExitCode.OK


def _dashboard() -> Dashboard:
    from ...tui.app import run_dashboard

    return run_dashboard


def _ways(record: Record) -> str:
    """How to come back to a server that was left, in one line."""
    words = [("come back", "up"), ("see it", "status"), ("stop it", "down")]
    return " · ".join(f"{what}: {_line(verb, record.name)}" for what, verb in words)


def _line(verb: str, name: str) -> str:
    return f"infer {verb}" if name == DEFAULT_NAME else f"infer {verb} --name {name}"


def _progress() -> Callable[[str], None]:
    """Show one line that changes, where somebody sees it."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        return lambda _text: None

    def show(text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()

    return show
