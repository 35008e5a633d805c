"""What the door is told, and how grpc is told it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from ...backends.api.errors import InvalidArgument

_UNLIMITED = -1


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


def channel_options(settings: GrpcSettings) -> list[tuple[str, int]]:
    """The settings under grpc's names. Messages may have any size, as tensors do."""
    options = [
        ("grpc.max_receive_message_length", _UNLIMITED),
        ("grpc.max_send_message_length", _UNLIMITED),
        ("grpc.so_reuseport", int(settings.reuse_port)),
        ("grpc.keepalive_time_ms", settings.keepalive_time_ms),
        ("grpc.keepalive_timeout_ms", settings.keepalive_timeout_ms),
        ("grpc.keepalive_permit_without_calls", int(settings.keepalive_without_calls)),
        ("grpc.http2.max_pings_without_data", settings.max_pings_without_data),
        ("grpc.http2.min_ping_interval_without_data_ms", settings.min_ping_interval_ms),
        ("grpc.http2.max_ping_strikes", settings.max_ping_strikes),
    ]
    if settings.max_connection_age_ms:
        options.append(("grpc.max_connection_age_ms", settings.max_connection_age_ms))
    if settings.max_connection_age_grace_ms:
        options.append(("grpc.max_connection_age_grace_ms", settings.max_connection_age_grace_ms))
    return options


def compression(settings: GrpcSettings) -> Any:  # noqa: ANN401  a grpc.Compression
    """How replies to inference requests are compressed, or None.

    grpc for Python knows two algorithms where the levels choose among them: gzip, and deflate for the highest.
    """
    if settings.compression == "none":
        return None
    return grpc.Compression.Deflate if settings.compression == "high" else grpc.Compression.Gzip


def credentials(tls: TlsSettings) -> Any:  # noqa: ANN401  grpc.ServerCredentials
    """The server's side of TLS. Raises InvalidArgument for a file that cannot be read."""
    certificate, key, root = (_pem(path) for path in (tls.certificate, tls.key, tls.root))
    return grpc.ssl_server_credentials(
        [(key or b"", certificate or b"")], root_certificates=root, require_client_auth=tls.mutual
    )


def _pem(path: str) -> bytes | None:
    if not path:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as exc:
        msg = f"cannot read {path} for gRPC over TLS: {exc.strerror or exc}"
        raise InvalidArgument(msg) from exc
