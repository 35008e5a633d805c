"""Which sort of server answers at an address: one of ours at its operator's door, or a real Triton at its HTTP port."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from .client import UNIX, Client
from .failure import ClientError, Kind
from .source import ServerSource

if TYPE_CHECKING:
    from .source import Source

OPERATOR_PORT = 8002
HTTP_PORT = 8000
_METRICS_BEHIND_HTTP = 2
"""Metrics listen two ports above HTTP by default, and people who move the one move the other alike."""

_SILENT = (Kind.NO_CONNECTION, Kind.NOT_READY, Kind.USAGE)


def detect(client: Client, metrics_url: str = "") -> Source:
    """The source at an address. Raises ClientError: what was tried, and what answered there.

    Ours is looked for at the address, and at port 8002 of its host where the server there says that the address is its
    HTTP door. A Triton is looked for at the address and two ports below, in case that
    it is its metrics port. Where nobody answers nothing else is tried: the
    user would be shown another server than the one named.
    """
    if client.url.startswith(UNIX):
        return ServerSource(client)
    host, port = _host_and_port(client)
    failures: list[ClientError] = []
    if _ours(client, failures) is not None:
        return ServerSource(client)
    refused = list(failures)
    if refused and refused[0].kind in _SILENT:
        raise refused[0]
    beside = replace(client, url=f"http://{host}:{OPERATOR_PORT}")
    overview = _ours(beside, failures)
    if overview is not None and str(overview.get("server", {}).get("http")).endswith(f":{port or HTTP_PORT}"):
        return ServerSource(beside)
    before = (port or OPERATOR_PORT) - _METRICS_BEHIND_HTTP
    for one in (client, replace(client, url=f"http://{host}:{before}")):
        if _is_triton(one):
            return _triton(one, metrics_url)
    why = refused[0].why if refused else "it sent a document of another kind"
    raise ClientError(
        f"what answers at {client.url} is no server that can be shown",
        f"it is neither an operator's door of infer nor the HTTP port of a Triton: {why}",
        "name one with --url: ours http://HOST:8002, a Triton's http://HOST:8000",
    )


def _host_and_port(client: Client) -> tuple[str, int | None]:
    parts = urlsplit(client.url if "//" in client.url else f"//{client.url}")
    try:
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    if not host:
        client.get("/v2")  # says what is wrong with the address
    return f"[{host}]" if ":" in host else host, port


def _ours(client: Client, failures: list[ClientError]) -> dict[str, Any] | None:
    """The overview that a server of ours gives; anything else is None, and a failure is noted."""
    try:
        document: Any = client.get("/v2/operator/overview")
    except ClientError as error:
        failures.append(error)
        return None
    return cast("dict[str, Any]", document) if isinstance(document, dict) and "schema" in document else None


def _is_triton(client: Client) -> bool:
    try:
        document: Any = client.get("/v2")
    except ClientError:
        return False
    return isinstance(document, dict) and "extensions" in document


def _triton(client: Client, metrics_url: str) -> Source:
    from .triton_source import TritonSource

    if metrics_url:
        return TritonSource(client, replace(client, url=metrics_url))
    host, port = _host_and_port(client)
    guess = (port or HTTP_PORT) + _METRICS_BEHIND_HTTP
    return TritonSource(client, replace(client, url=f"http://{host}:{guess}"))
