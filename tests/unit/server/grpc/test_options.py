"""The settings reach connections, and TLS files that cannot be used are named."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import pytest
import trustme

from infer.backends.api.errors import InvalidArgument
from infer.server.grpc.options import GrpcSettings, TlsSettings, compression, limits, tls_context

if TYPE_CHECKING:
    from pathlib import Path


def test_defaults_are_tritons() -> None:
    found = limits(GrpcSettings())
    assert (found.keepalive_time_s, found.keepalive_timeout_s, found.keepalive_without_calls) == (7200, 20, False)
    assert (found.max_pings_without_data, found.min_ping_interval_s, found.max_ping_strikes) == (2, 300, 2)
    assert (found.max_age_s, found.max_age_grace_s) == (0, 0)


def test_everything_can_be_set() -> None:
    found = limits(
        GrpcSettings(
            keepalive_time_ms=1000,
            keepalive_timeout_ms=2000,
            keepalive_without_calls=True,
            max_pings_without_data=3,
            min_ping_interval_ms=4000,
            max_ping_strikes=5,
            max_connection_age_ms=6000,
            max_connection_age_grace_ms=7000,
        )
    )
    assert (found.keepalive_time_s, found.keepalive_timeout_s, found.keepalive_without_calls) == (1, 2, True)
    assert (found.max_pings_without_data, found.min_ping_interval_s, found.max_ping_strikes) == (3, 4, 5)
    assert (found.max_age_s, found.max_age_grace_s) == (6, 7)


@pytest.mark.parametrize(
    ("level", "chosen"), [("none", None), ("low", ("gzip", 1)), ("medium", ("gzip", 6)), ("high", ("deflate", 9))]
)
def test_a_level_of_compression_is_an_algorithm_and_an_effort(level: str, chosen: tuple[str, int] | None) -> None:
    found = compression(GrpcSettings(compression=level))
    assert (None if found is None else (found.encoding, found.level)) == chosen


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> TlsSettings:
    folder = tmp_path_factory.mktemp("pem")
    authority = trustme.CA()
    served = authority.issue_cert("localhost")
    files = {"cert": served.cert_chain_pems[0], "key": served.private_key_pem, "root": authority.cert_pem}
    for name, blob in files.items():
        blob.write_to_path(folder / name)
    return TlsSettings(*(str(folder / name) for name in ("cert", "key", "root")), mutual=True)


def test_clients_need_a_certificate_only_where_tls_is_mutual(pem: TlsSettings) -> None:
    assert tls_context(pem).verify_mode is ssl.CERT_REQUIRED
    assert tls_context(TlsSettings(pem.certificate, pem.key)).verify_mode is ssl.CERT_NONE


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "nope.pem")
    with pytest.raises(InvalidArgument, match=r"cannot read .*nope\.pem for gRPC over TLS: No such file or directory"):
        tls_context(TlsSettings(certificate=missing, key=missing))


def test_a_key_that_is_not_the_certificates_is_named_with_its_flags(pem: TlsSettings) -> None:
    with pytest.raises(InvalidArgument, match=r"are no PEM certificate and its key; check --grpc-server-cert"):
        tls_context(TlsSettings(pem.certificate, pem.certificate))


def test_an_authority_that_is_none_is_named_with_its_flag(pem: TlsSettings, tmp_path: Path) -> None:
    (tmp_path / "root").write_text("no certificate")
    with pytest.raises(InvalidArgument, match=r"root holds no PEM certificate; check --grpc-root-cert"):
        tls_context(TlsSettings(pem.certificate, pem.key, str(tmp_path / "root"), mutual=True))
