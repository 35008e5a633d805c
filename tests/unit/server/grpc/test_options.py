"""The settings reach grpc under its own names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc
import pytest

from infer.backends.api.errors import InvalidArgument
from infer.server.grpc.options import GrpcSettings, TlsSettings, channel_options, compression, credentials

if TYPE_CHECKING:
    from pathlib import Path


def test_messages_may_have_any_size_and_a_taken_port_is_noticed() -> None:
    options = dict(channel_options(GrpcSettings()))
    assert options["grpc.max_receive_message_length"] == options["grpc.max_send_message_length"] == -1
    assert options["grpc.so_reuseport"] == 0


def test_defaults_are_tritons() -> None:
    options = dict(channel_options(GrpcSettings()))
    assert options["grpc.keepalive_time_ms"] == 7_200_000
    assert options["grpc.keepalive_timeout_ms"] == 20_000
    assert options["grpc.keepalive_permit_without_calls"] == 0
    assert options["grpc.http2.max_pings_without_data"] == 2
    assert options["grpc.http2.min_ping_interval_without_data_ms"] == 300_000
    assert options["grpc.http2.max_ping_strikes"] == 2
    assert not any("age" in name for name in options if "message" not in name)


def test_everything_can_be_set() -> None:
    settings = GrpcSettings(
        reuse_port=True,
        keepalive_time_ms=1,
        keepalive_timeout_ms=2,
        keepalive_without_calls=True,
        max_pings_without_data=3,
        min_ping_interval_ms=4,
        max_ping_strikes=5,
        max_connection_age_ms=6,
        max_connection_age_grace_ms=7,
    )
    assert [value for name, value in channel_options(settings) if "message" not in name] == [1, 1, 2, 1, 3, 4, 5, 6, 7]


@pytest.mark.parametrize(
    ("level", "algorithm"),
    [
        ("none", None),
        ("low", grpc.Compression.Gzip),
        ("medium", grpc.Compression.Gzip),
        ("high", grpc.Compression.Deflate),
    ],
)
def test_a_level_of_compression_is_an_algorithm(level: str, algorithm: grpc.Compression | None) -> None:
    assert compression(GrpcSettings(compression=level)) == algorithm


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "nope.pem")
    with pytest.raises(InvalidArgument, match=r"cannot read .*nope\.pem for gRPC over TLS: No such file or directory"):
        credentials(TlsSettings(certificate=missing, key=missing))
