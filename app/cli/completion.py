"""What the shell offers at a tab: the names of the models that are there now, and of contexts.

It never fails and never writes to standard error, and a server that is slow or gone costs a third of a second at most.
"""

from __future__ import annotations

from typing import Any

LIMIT_S = 0.3
"""Longer than this and a person takes the terminal for hung."""


def model_names(ctx: Any, args: list[str], incomplete: str) -> list[str]:  # noqa: ANN401, ARG001  typer's signature
    """The models of the server that the command would ask."""
    import threading

    found: list[str] = []
    given: dict[str, Any] = getattr(ctx, "params", {})
    # A thread, because no time-out of a socket bounds the look-up of a name or an answer that comes in drops.
    asking = threading.Thread(target=_ask, args=(given, found), name="completion", daemon=True)
    asking.start()
    asking.join(LIMIT_S)
    return [name for name in list(found) if name.startswith(incomplete)]


def _ask(given: dict[str, Any], found: list[str]) -> None:
    """Add the names of all models; none where anything goes wrong."""
    from ...tui.failure import Failure
    from .target import open_target

    # What is on the line so far decides which server is meant; infer call's --url is another door.
    operator = None if "grpc_url" in given else given.get("url")
    try:
        index: Any = open_target(operator, given.get("context"), LIMIT_S).client.post("/v2/repository/index", {})
        found += dict.fromkeys(str(row["name"]) for row in index)
    except (Failure, OSError, ValueError, LookupError, TypeError):
        return  # a shell in the middle of a line has no use for a failure


def context_names(ctx: Any, args: list[str], incomplete: str) -> list[str]:  # noqa: ANN401, ARG001  as above
    """The contexts of the user's configuration."""
    from ...tui.failure import Failure
    from ..configuration import read_user_file, user_file

    try:
        names = read_user_file(user_file())[1]
    except (Failure, OSError):
        return []
    return [name for name in names if name.startswith(incomplete)]
