"""Where a call goes: the HTTP and the gRPC port of the server that is meant."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ..tui.client import INFERENCE_URL, UNIX
from .changing import overview_of
from .failures import CommandError
from .finding import chosen, loopback_port, operator_client

if TYPE_CHECKING:
    from .configuration import Configuration
    from .finding import Wanted
    from .registry import Registry

GRPC_ADDRESS = "127.0.0.1:8001"
"""Where the gRPC door listens unless told otherwise."""

_GRPC_PORT = 8001


@dataclass(frozen=True, slots=True)
class Doors:
    """A URL, and HOST:PORT; empty for a door that the server does not have."""

    http: str
    grpc: str


def find_doors(
    configuration: Configuration, wanted: Wanted, registry: Registry, *, http: str | None, grpc: str | None
) -> Doors:
    """The doors that flags (``http``, ``grpc``) and configuration name, else those that the server tells.

    Raises CommandError and ClientError where it cannot be asked.
    """
    http_url, grpc_url = configuration.text("http_url", http), configuration.text("grpc_url", grpc)
    if http_url:
        return Doors(http_url, grpc_url or _neighbour(http_url, registry))
    told = _told(wanted, registry)
    return Doors(told.http, grpc_url or told.grpc)


def _neighbour(http_url: str, registry: Registry) -> str:
    """The gRPC door of the server whose HTTP door this is: as it tells where it runs here, else the port beside."""
    port = loopback_port(http_url)
    for record in registry.live() if port is not None else ():
        if record.http and loopback_port(record.http) == port:
            return record.grpc or ""
    return beside(http_url)


def _told(wanted: Wanted, registry: Registry) -> Doors:
    if not wanted.url:
        record = chosen(registry.live())
        if record is None:
            return Doors(INFERENCE_URL, GRPC_ADDRESS)
        return Doors(f"http://{record.http}" if record.http else "", record.grpc or "")
    overview = overview_of(operator_client(wanted, registry))
    if overview is None:
        return Doors(wanted.url, beside(wanted.url))  # a real Triton says nothing of its doors; this is its HTTP port
    http, grpc = (seen_from_here(door, wanted.url) for door in (overview.server.http, overview.server.grpc))
    return Doors(f"http://{http}" if http else "", grpc)


def beside(url: str) -> str:
    """The gRPC port that usually goes with an HTTP port: the next one, as Triton's 8000 and 8001."""
    parts = urlsplit(url if "//" in url else f"//{url}")
    host, port = parts.hostname or "127.0.0.1", _GRPC_PORT
    with suppress(ValueError):  # what is no port is refused where the call is made
        port = _GRPC_PORT if parts.port is None else parts.port + 1
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def seen_from_here(address: str | None, url: str) -> str:
    """A door that a server names as its own machine sees it, as seen from where ``url`` leads to that machine."""
    if not address:
        return ""
    if url.startswith(UNIX) or loopback_port(url) is not None or loopback_port(address) is None:
        return address
    host = urlsplit(url if "//" in url else f"//{url}").hostname or ""
    port = address.rpartition(":")[2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def door(address: str, name: str, flag: str) -> str:
    """The address of a door; raises CommandError where the server has none."""
    if not address:
        raise CommandError(
            f"the server has no {name} port",
            "it was started without that door",
            f"name another server's: {flag} HOST:PORT",
        )
    return address
