"""``infer logs``: what a server has logged, and logs from now on."""

from __future__ import annotations

import enum
import os
import threading
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from ..failures import CommandError, ExitCode
from ..places import DEFAULT_NAME, check_name, log_file
from .options import Context, Output, Url
from .output import Format, note, print_line
from .servers import Name
from .target import output_form, wanted

if TYPE_CHECKING:
    from pathlib import Path

    from ...tui.snapshot import LogRecord
    from ...tui.source import Source
    from ..finding import Wanted
    from ..log_reading import Choice

_ANSWER_S = 10.0
_FOLLOW_S = 0.5
"""Seconds between two looks."""


class Level(enum.StrEnum):
    """The values of ``--level``."""

    VERBOSE = "VERBOSE"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


def register(app: typer.Typer) -> None:
    """Add the command to the tree."""
    app.command()(logs)


def logs(
    *,
    name: Name = "",
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on with what it logs from now on.")] = False,
    count: Annotated[int, typer.Option("-n", "--lines", min=0, help="How many of the last records.")] = 200,
    level: Annotated[
        Level, typer.Option("--level", case_sensitive=False, help="The least serious level.")
    ] = Level.VERBOSE,
    model: Annotated[str, typer.Option("--model", metavar="MODEL", help="What concerns one model.")] = "",
    url: Url = None,
    context: Context = None,
    output: Output = None,
) -> None:
    """Show the log of a server: from its memory while it runs, from its log file when it does not.

    With -o json every record is an object on a line of its own, with -o name its message alone. Ctrl-C ends -f.

    Examples:
    infer logs -n 50
    infer logs --level warning --model simple
    infer logs -f -o json
    """
    from ..configuration import load
    from ..log_reading import Choice

    configuration = load(context=context)
    printer = _Printer(output_form(configuration, output))
    choice = Choice(level, model)
    source = _source(name, wanted(configuration, url))
    if source is None:
        _print_file(log_file(os.environ, name or DEFAULT_NAME), name or DEFAULT_NAME, count, choice, printer)
    else:
        _print_live(source, count, choice, printer, follow=follow)


class _Printer:
    """Prints records in one form, each as it comes."""

    def __init__(self, output: Format) -> None:
        self._output = output

    def print(self, record: LogRecord) -> None:
        """One record."""
        from ..log_lines import show

        if self._output is Format.JSON:
            print_line(asdict(record))
        else:
            print(show(record) if self._output is Format.TABLE else record.message, flush=True)


def _source(name: str, wanted: Wanted) -> Source | None:
    """The server that is meant; None where it does not run, so that only its file is left."""
    from ...tui.source import ServerSource
    from ..finding import chosen, client_of, operator_client
    from ..registry import Registry

    registry = Registry.of_user()
    if wanted.url and not name:
        return ServerSource(operator_client(wanted, registry, _ANSWER_S))
    live = registry.live()
    record = registry.find(check_name(name)) if name else chosen(live)
    if record is not None:
        return ServerSource(client_of(record, _ANSWER_S))
    if not name and len(live) > 1:
        raise CommandError(
            "several servers are running, and none is named 'default'",
            f"there are {', '.join(each.name for each in live)}",
            "name one: --name NAME",
            code=ExitCode.USAGE,
        )
    return None


def _print_live(source: Source, count: int, choice: Choice, printer: _Printer, *, follow: bool) -> None:
    from ...tui.failure import ClientError, Kind
    from .. import log_reading

    records, last = log_reading.newest(source, count, choice)
    for record in records:
        printer.print(record)
    if not follow:
        return
    try:
        for entry in log_reading.follow(source, last, choice, _pause):
            if isinstance(entry, log_reading.Gap):
                note(f"… {entry.lost} lines lost")
            else:
                printer.print(entry)
    except ClientError as error:
        if error.kind is not Kind.NO_CONNECTION:
            raise
        note(f"the server at {source.address} has ended")


def _pause() -> None:
    threading.Event().wait(_FOLLOW_S)


def _print_file(path: Path, name: str, count: int, choice: Choice, printer: _Printer) -> None:
    from ..log_reading import from_file

    try:
        records = from_file(path, count, choice, time.time())
    except OSError as error:
        raise CommandError(
            f"no server named '{name}' is running, and there is no log of one",
            f"{path}: {error.strerror}",
            "start one: infer up",
            code=ExitCode.NOT_FOUND,
        ) from error
    note(f"'{name}' is not running; this is the end of {path}")
    for record in records:
        printer.print(record)
