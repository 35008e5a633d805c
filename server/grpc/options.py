"""What the door is told, and the transport's limits, TLS context and compression in it."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from ...backends.api.errors import InvalidArgument
from .transport.coding import Compression
from .transport.limits import ConnectionLimits

_COMPRESSIONS = {"low": ("gzip", 1), "medium": ("gzip", 6), "high": ("deflate", 9)}
"""Triton's levels: an algorithm and how hard it tries."""


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """PEM files of the server's certificate and key, and of the authority for clients' certificates, "" for none.

    ``mutual`` wants a certificate of every client.
    """

    certificate: str
    key: str
    root: str = ""
    mutual: bool = False


@dataclass(frozen=True, slots=True)
class GrpcSettings:
    """Where the door listens and how its connections live. Times are in milliseconds; port 0 takes a free one.

    ``max_connection_age_ms`` and its grace are unset where they are 0. ``compression`` is none, low, medium or high.
    ``stop_grace_s`` is how long :meth:`GrpcService.stop` waits for answers to be written.
    """

    host: str = "0.0.0.0"  # noqa: S104  Triton's default
    port: int = 8001
    reuse_port: bool = False
    compression: str = "none"
    tls: TlsSettings | None = None
    keepalive_time_ms: int = 7_200_000
    keepalive_timeout_ms: int = 20_000
    keepalive_without_calls: bool = False
    max_pings_without_data: int = 2
    min_ping_interval_ms: int = 300_000
    max_ping_strikes: int = 2
    max_connection_age_ms: int = 0
    max_connection_age_grace_ms: int = 0
    stop_grace_s: float = 1.0


def limits(settings: GrpcSettings) -> ConnectionLimits:
    """The settings as connections know them."""
    return ConnectionLimits(
        keepalive_time_s=settings.keepalive_time_ms / 1000,
        keepalive_timeout_s=settings.keepalive_timeout_ms / 1000,
        keepalive_without_calls=settings.keepalive_without_calls,
        max_pings_without_data=settings.max_pings_without_data,
        min_ping_interval_s=settings.min_ping_interval_ms / 1000,
        max_ping_strikes=settings.max_ping_strikes,
        max_age_s=settings.max_connection_age_ms / 1000,
        max_age_grace_s=settings.max_connection_age_grace_ms / 1000,
    )


def compression(settings: GrpcSettings) -> Compression | None:
    """How replies to inference requests are compressed, or None."""
    chosen = _COMPRESSIONS.get(settings.compression)
    return None if chosen is None else Compression(*chosen)


def tls_context(tls: TlsSettings) -> ssl.SSLContext:
    """The server's side of TLS. Raises InvalidArgument, naming the file and the flag, for what cannot be used."""
    for path in (tls.certificate, tls.key, *([tls.root] if tls.mutual else [])):
        _check_readable(path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2"])
    try:
        context.load_cert_chain(tls.certificate, tls.key)
    except (ssl.SSLError, OSError) as exc:
        msg = (
            f"cannot serve gRPC over TLS: {tls.certificate} and {tls.key} are no PEM certificate and its key; "
            "check --grpc-server-cert and --grpc-server-key"
        )
        raise InvalidArgument(msg) from exc
    if tls.mutual:
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(tls.root)
        except (ssl.SSLError, OSError) as exc:
            msg = f"cannot serve gRPC over TLS: {tls.root} holds no PEM certificate; check --grpc-root-cert"
            raise InvalidArgument(msg) from exc
    return context


def _check_readable(path: str) -> None:
    try:
        with Path(path).open("rb"):
            pass
    except OSError as exc:
        msg = f"cannot read {path} for gRPC over TLS: {exc.strerror or exc}"
        raise InvalidArgument(msg) from exc
