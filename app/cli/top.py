"""``infer top``: the dashboard of a server that runs somewhere, or one page of it as text or JSON."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from .options import Context, Interval, Output, Timeout, Url
from .output import Format, print_json
from .target import open_target

if TYPE_CHECKING:
    from ...tui.snapshot import Overview
    from ...tui.source import Source

WAIT_S = 10.0
MetricsUrl = Annotated[
    str,
    typer.Option(
        "--metrics-url",
        metavar="URL",
        help="A real Triton's metrics port, where it is not two above its HTTP port. [env: INFER_METRICS_URL]",
    ),
]
ReadOnly = Annotated[
    bool | None, typer.Option("--read-only", help="Offer nothing that changes the server. [env: INFER_READ_ONLY]")
]


def register(app: typer.Typer) -> None:
    """Add the command to the tree."""
    app.command()(top)


def top(
    *,
    url: Url = None,
    context: Context = None,
    metrics_url: MetricsUrl = "",
    once: Annotated[bool, typer.Option("--once", help="Print one page and end.")] = False,
    output: Output = None,
    demo: Annotated[bool, typer.Option("--demo", help="Show a made-up server; none is needed.")] = False,
    read_only: ReadOnly = None,
    interval: Interval = None,
    timeout: Timeout = None,
) -> None:
    """Watch a server: models, rates, latencies, queues, GPUs, logs. Without a terminal it prints one page.

    A real Triton at --url is shown too, from its statistics and metrics; it is only looked at.

    Examples:
    infer top
    infer top --url http://gpu7:8002
    infer top --once -o json
    infer top --demo
    """
    target = open_target(url, context, timeout, output, wait_s=WAIT_S)
    seconds = target.configuration.number("interval", interval, 1.0)
    if demo:
        from ...tui.demo import DemoServer

        source: Source = DemoServer()
    else:
        from ...tui.detect import detect

        source = detect(target.client, target.configuration.text("metrics_url", metrics_url or None))
    if once or output is not None or not _on_a_terminal():
        _print_page(source, target.output, seconds)
        return
    from ...tui.app import run_dashboard

    only_look = target.configuration.boolean("read_only", read_only)
    run_dashboard(source, owned=False, read_only=only_look, interval_s=seconds)


def _on_a_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _print_page(source: Source, output: Format, interval: float) -> None:
    """Two pictures, so that there are rates."""
    from ...tui import text

    if output is Format.NAME:
        for name in dict.fromkeys(row.name for row in source.overview().models):
            print(name)
        return
    before, after = _pictures(source, interval)
    if output is Format.JSON:
        print_json(text.document(before, after))
    else:
        import shutil

        from ...tui.glyphs import ascii_only, ascii_terminal

        page = text.page(before, after, shutil.get_terminal_size((text.WIDTH, 24)).columns)
        print(ascii_only(page) if ascii_terminal(os.environ) else page)


def _pictures(source: Source, interval: float) -> tuple[Overview, Overview]:
    before = source.overview()
    time.sleep(interval)
    return before, source.overview()
