"""``infer serve``: the server in the foreground, with Triton's flags.

Typer hands the words over unread: the flag table is the only place that knows them, and a bad one ends with
status 1 and the usage text, as Triton's does.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..settings import ServerSettings

_CONTEXT: dict[str, Any] = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


def register(app: typer.Typer) -> None:
    """Add the command to the tree."""
    app.command(context_settings=_CONTEXT, add_help_option=False)(serve)


def serve(context: typer.Context) -> None:
    """Serve model repositories, with Triton's flags (infer serve --help lists them)."""
    raise typer.Exit(run_with_flags(context.args, f"serve-{os.getpid()}"))


def run_with_flags(args: Sequence[str], name: str) -> int:
    """Serve as the flags say, until told to stop; the exit code. ``name`` is how other commands find the server."""
    settings = read_flags(args)
    if settings is None:
        return 1
    from ..run import serve as run_server

    return run_server(dataclasses.replace(settings, name=name), args)


def read_flags(args: Sequence[str]) -> ServerSettings | None:
    """The settings that the flags ask for; None where they were refused or asked for the usage text, which is shown."""
    from ..arguments import BadOption, parse, usage
    from ..settings import from_arguments

    try:
        given = parse(args)
        if given.boolean("help"):
            sys.stderr.write(usage())
            return None
        return from_arguments(given)
    except BadOption as error:
        # The message comes last, where a terminal shows it.
        sys.stderr.write(f"{usage()}\n{error}\n")
        return None
