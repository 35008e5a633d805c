"""Which server a command or the dashboard talks to, and with which key.

The strongest first: an address that was given (a flag, a variable, a context: who asks has weighed them), the server
that this user runs on this machine, the address where a server listens unless told otherwise.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ..tui.client import OPERATOR_URL, UNIX, Client
from .failures import CommandError, ExitCode
from .places import DEFAULT_NAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .registry import Record, Registry

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a command was told; empty is nothing. ``key`` is for changes, and is not needed for a server found here."""

    url: str = ""
    key: str = field(default="", repr=False)


def operator_client(wanted: Wanted, registry: Registry, timeout: float = 30.0) -> Client:
    """A client of the operator's door; ``timeout`` is in seconds.

    Raises CommandError where a bad folder hides the servers of this user, and where the one found cannot be asked.
    """
    if wanted.url:
        return Client(wanted.url, timeout, key_for(wanted, registry))
    record = chosen(registry.live())
    return client_of(record, timeout) if record is not None else Client(OPERATOR_URL, timeout, wanted.key)


def chosen(records: Sequence[Record]) -> Record | None:
    """The server that is meant where none is named: the default one, else the only one. Pure."""
    named = next((record for record in records if record.name == DEFAULT_NAME), None)
    if named is not None:
        return named
    return records[0] if len(records) == 1 else None


def client_of(record: Record, timeout: float = 30.0) -> Client:
    """A client of a server in the registry: over its control socket, else over its port with its key."""
    if record.control_socket:
        return Client(f"{UNIX}{record.control_socket}", timeout)
    if record.operator:
        return Client(f"http://{record.operator}", timeout, record.control_key)
    if not record.start_page:
        raise CommandError(
            f"the server '{record.name}' cannot be asked yet",
            "it is starting, and no door of it is open",
            "try again in a moment",
            code=ExitCode.NOT_READY,
        )
    raise CommandError(
        f"the server '{record.name}' cannot be asked",
        "it runs with --allow-metrics=false, so it has no operator's door",
        "start it with --allow-metrics=true",
    )


def key_for(wanted: Wanted, registry: Registry) -> str:
    """The key for an address that was given: that of the server of ours which listens there, else the one given.

    A folder that cannot be trusted tells no key, and is no reason to refuse an address.
    """
    port = loopback_port(wanted.url)
    if port is None:
        return wanted.key
    try:
        records = registry.live()
    except CommandError:
        return wanted.key
    listening = (record for record in records if record.operator and loopback_port(record.operator) == port)
    return next((record.control_key for record in listening if record.control_key), wanted.key)


def loopback_port(url: str) -> int | None:
    """The port of an address of this machine's loopback; None for any other address. Pure."""
    if url.startswith(UNIX):
        return None
    with suppress(ValueError):
        parts = urlsplit(url if "//" in url else f"//{url}")
        return parts.port if parts.hostname in _LOOPBACK else None
    return None
