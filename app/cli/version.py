"""``infer version``: of the command, of the server that it would ask, and of what both run on."""

from __future__ import annotations

import platform
from typing import Any

import typer

from ... import __version__
from ...tui.client import Client
from ...tui.failure import Failure
from .options import Context, Output, Url
from .output import Format, note, print_json
from .target import open_target

PATIENCE_S = 1.0
"""How long a server is waited for: the command's own version is known without it."""


def register(app: typer.Typer) -> None:
    """Add the command to the tree."""
    app.command()(version)


def version(url: Url = None, context: Context = None, output: Output = None) -> None:
    """Print the version of this command and, where one can be reached, of the server.

    Examples:
    infer version
    infer version -o json
    """
    if output is Format.NAME:
        print(__version__)
        return
    target = open_target(url, context, PATIENCE_S, output)
    server, why = served(target.client)
    if target.output is Format.NAME:
        print(__version__)
    elif target.output is Format.JSON:
        print_json(document(server, why))
    else:
        print(f"infer {__version__} (Python {platform.python_version()})")
        if server:
            print(f"server {server['version']} at {target.where}")
    if server and server["version"] != __version__:
        note(
            f"warning: the server is {server['version']} and this command {__version__}: "
            "what one of them learned since the other may not know"
        )


def served(client: Client) -> tuple[dict[str, Any], str]:
    """What a server says of itself, or why it says nothing."""
    try:
        found: dict[str, Any] = client.get("/v2")
    except Failure as error:
        return {}, error.why
    return {
        "name": found.get("name", ""),
        "version": str(found.get("version", "")),
        "extensions": found.get("extensions", []),
    }, ""


def document(server: dict[str, Any], why: str) -> dict[str, Any]:
    """Everything, for programs and for reports of faults."""
    from ...backends import catalog
    from .. import facts

    names, reason = facts.gpus()
    return {
        "infer": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "server": server or None,
        "server_reason": why,
        "backends": {info.name: info.reason or "available" for info in catalog.available()},
        "gpu": names,
        "gpu_reason": reason,
    }
