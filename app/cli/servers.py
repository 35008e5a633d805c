"""The option that names a server of this machine, and the names that the shell offers for it."""

from __future__ import annotations

from typing import Annotated, Any

import typer


def server_names(ctx: Any, args: list[str], incomplete: str) -> list[str]:  # noqa: ANN401, ARG001  typer's signature
    """The servers that run. Never fails: a shell in the middle of a line has no use for it."""
    from ...tui.failure import Failure
    from ..registry import Registry

    try:
        return [record.name for record in Registry.of_user().live() if record.name.startswith(incomplete)]
    except (Failure, OSError):
        return []


Name = Annotated[
    str, typer.Option("--name", metavar="NAME", help="A server of this machine.", autocompletion=server_names)
]
