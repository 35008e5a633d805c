"""``infer logs``: what a server has logged, and logs from now on."""

from __future__ import annotations

import enum
import os
import sys
import threading
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from ..failures import CommandError, ExitCode
from ..places import DEFAULT_NAME, check_name, log_file
from .output import Format

if TYPE_CHECKING:
    from pathlib import Path

    from ...tui.snapshot import LogRecord
    from ...tui.source import Source
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
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="A server of this machine.")] = "",
    url: Annotated[str, typer.Option("--url", envvar="INFER_URL", help="A server's operator port.")] = "",
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on with what it logs from now on.")] = False,
    count: Annotated[int, typer.Option("-n", "--lines", min=0, help="How many of the last records.")] = 200,
    level: Annotated[
        Level, typer.Option("--level", case_sensitive=False, help="The least serious level.")
    ] = Level.VERBOSE,
    model: Annotated[str, typer.Option("--model", metavar="MODEL", help="What concerns one model.")] = "",
    output: Annotated[Format, typer.Option("-o", "--output", help="How to print it.")] = Format.TABLE,
) -> None:
    """Show the log of a server: from its memory while it runs, from its log file when it does not.

    With -o json every record is an object on a line of its own. Ctrl-C ends -f, with exit code 130.

    Examples: infer logs -n 50 · infer logs -f --level warning · infer logs -f --model simple -o json
    """
    from ..log_reading import Choice

    choice = Choice(level, model)
    printer = _Printer(output)
    try:
        source = _source(name, url)
        if source is None:
            _print_file(log_file(os.environ, name or DEFAULT_NAME), name or DEFAULT_NAME, count, choice, printer)
        else:
            _print_live(source, count, choice, printer, follow=follow)
    except BrokenPipeError:
        # Who read has had enough. What is flushed at the interpreter's end goes nowhere either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt as interrupt:
        raise typer.Exit(ExitCode.INTERRUPTED) from interrupt


class _Printer:
    """Prints records in one form, each as it comes."""

    def __init__(self, output: Format) -> None:
        self._output = output

    def print(self, record: LogRecord) -> None:
        """One record."""
        from ..log_lines import show

        if self._output is Format.JSON:
            import json

            text = json.dumps(asdict(record), ensure_ascii=False, separators=(",", ":"))
        else:
            text = show(record) if self._output is Format.TABLE else record.message
        print(text, flush=True)


def _source(name: str, url: str) -> Source | None:
    """The server that is meant; None where it does not run, so that only its file is left."""
    from ...tui.source import ServerSource
    from ..finding import Wanted, chosen, client_of, operator_client
    from ..registry import Registry

    registry = Registry.of_user()
    if url and not name:
        return ServerSource(operator_client(Wanted(url=url), registry, _ANSWER_S))
    record = registry.find(check_name(name)) if name else chosen(registry.live())
    if record is None:
        if not name and len(registry.live()) > 1:
            names = ", ".join(each.name for each in registry.live())
            raise CommandError(
                "several servers are running, and none is named 'default'",
                f"there are {names}",
                "name one: --name NAME",
                code=ExitCode.USAGE,
            )
        return None
    return ServerSource(client_of(record, _ANSWER_S))


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
                print(f"… {entry.lost} lines lost", file=sys.stderr, flush=True)
            else:
                printer.print(entry)
    except ClientError as error:
        if error.kind is not Kind.NO_CONNECTION:
            raise
        print(f"the server at {source.address} has ended", file=sys.stderr)


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
    print(f"'{name}' is not running; this is the end of {path}", file=sys.stderr, flush=True)
    for record in records:
        printer.print(record)
