"""``infer serve``: the server in the foreground, with Triton's flags.

Typer hands the words over unread: the flag table is the only place that knows them, and a bad one ends with
status 1 and the usage text, as Triton's does.
"""

from __future__ import annotations

import sys
from typing import Any

import typer

_CONTEXT: dict[str, Any] = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


def register(app: typer.Typer) -> None:
    """Add the command to the tree."""
    app.command(context_settings=_CONTEXT, add_help_option=False)(serve)


def serve(context: typer.Context) -> None:
    """Serve model repositories, with Triton's flags (infer serve --help lists them)."""
    raise typer.Exit(run_with_flags(context.args))


def run_with_flags(args: list[str]) -> int:
    """Serve as the flags say, until told to stop; the exit code."""
    from ..arguments import BadOption, parse, usage
    from ..settings import from_arguments

    try:
        given = parse(args)
        if given.boolean("help"):
            sys.stderr.write(usage())
            return 1
        settings = from_arguments(given)
    except BadOption as error:
        # The message comes last, where a terminal shows it.
        sys.stderr.write(f"{usage()}\n{error}\n")
        return 1
    from ..run import serve as run_server

    return run_server(settings)
