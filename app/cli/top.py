"""``infer top``: the dashboard of a server that runs somewhere, or one page of it as text or JSON."""

from __future__ import annotations

import enum
import os
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from ...tui.client import OPERATOR_URL, Client
from .output import print_json

if TYPE_CHECKING:
    from ...tui.source import Source


class Page(enum.StrEnum):
    """The values of ``-o``."""

    TABLE = "table"
    JSON = "json"


Url = Annotated[
    str,
    typer.Option("--url", envvar="INFER_URL", help="The server's operator port, or the HTTP port of a real Triton."),
]
MetricsUrl = Annotated[
    str, typer.Option("--metrics-url", help="A real Triton's metrics port, where it is not two above its HTTP port.")
]
ReadOnly = Annotated[
    bool, typer.Option("--read-only", envvar="INFER_READ_ONLY", help="Offer nothing that changes the server.")
]


def register(app: typer.Typer) -> None:
    """Add the command to the tree."""
    app.command()(top)


def top(
    *,
    url: Url = OPERATOR_URL,
    metrics_url: MetricsUrl = "",
    once: Annotated[bool, typer.Option("--once", help="Print one page and end.")] = False,
    output: Annotated[Page, typer.Option("-o", "--output", help="How to print that page.")] = Page.TABLE,
    demo: Annotated[bool, typer.Option("--demo", help="Show a made-up server; none is needed.")] = False,
    read_only: ReadOnly = False,
    interval: Annotated[float, typer.Option("--interval", min=0.1, help="Seconds between two pictures.")] = 1.0,
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds to wait for an answer.")] = 10.0,
) -> None:
    """Watch a server: models, rates, latencies, queues, GPUs, logs. Without a terminal it prints one page.

    A real Triton is shown too, from its statistics and metrics; it is only looked at.

    Examples: infer top · infer top --url http://gpu7:8002 · infer top --once -o json · infer top --demo
    """
    source = _source(url, metrics_url, timeout, demo=demo)
    if once or output is Page.JSON or not (sys.stdin.isatty() and sys.stdout.isatty()):
        _print_page(source, output, interval)
        return
    from ...tui.app import run_dashboard

    run_dashboard(source, owned=False, read_only=read_only, interval_s=interval)


def _source(url: str, metrics_url: str, timeout: float, *, demo: bool) -> Source:
    if demo:
        from ...tui.demo import DemoServer

        return DemoServer()
    from ...tui.detect import detect

    return detect(Client(url, timeout, os.environ.get("INFER_CONTROL_KEY", "")), metrics_url)


def _print_page(source: Source, output: Page, interval: float) -> None:
    """Two pictures, so that there are rates."""
    import shutil

    from ...tui import text

    before = source.overview()
    time.sleep(interval)
    after = source.overview()
    if output is Page.JSON:
        print_json(text.document(before, after))
    else:
        print(text.page(before, after, shutil.get_terminal_size((text.WIDTH, 24)).columns))
