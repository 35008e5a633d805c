"""The parts of a server are put together as the settings and the environment say."""

from __future__ import annotations

import json
import logging
import socket
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from infer.app import wiring
from infer.app.settings import ServerSettings
from infer.backends.api.errors import InvalidArgument, Unavailable
from infer.server.grpc.options import GrpcSettings, TlsSettings
from infer.server.observe.log_ring import LogRing

if TYPE_CHECKING:
    from infer.server.operator.service import OperatorSettings


def settings(repository: Path, **fields: Any) -> ServerSettings:
    ports = {"http_address": "127.0.0.1", "http_port": 0, "grpc_address": "127.0.0.1", "grpc_port": 0}
    return ServerSettings(model_repository=(repository,), metrics_port=0, **(ports | fields))


def grpc_settings(**fields: Any) -> GrpcSettings:
    made = ServerSettings(model_repository=(Path("/models"),), **fields)
    return wiring._grpc_service(made, SimpleNamespace())._settings  # type: ignore[arg-type]


def test_the_grpc_door_has_tritons_defaults() -> None:
    assert grpc_settings() == GrpcSettings()


def test_every_flag_of_the_grpc_door_reaches_it() -> None:
    made = grpc_settings(
        grpc_address="::1",
        grpc_port=1,
        reuse_grpc_port=True,
        grpc_infer_response_compression_level="low",
        grpc_use_ssl_mutual=True,
        grpc_server_cert="c",
        grpc_server_key="k",
        grpc_root_cert="r",
        grpc_keepalive_time=2,
        grpc_keepalive_timeout=3,
        grpc_keepalive_permit_without_calls=True,
        grpc_http2_max_pings_without_data=4,
        grpc_http2_min_recv_ping_interval_without_data=5,
        grpc_http2_max_ping_strikes=6,
        grpc_max_connection_age=7,
        grpc_max_connection_age_grace=8,
    )
    assert made == GrpcSettings("::1", 1, True, "low", TlsSettings("c", "k", "r", True), 2, 3, True, 4, 5, 6, 7, 8)


def test_one_way_tls_asks_clients_for_nothing() -> None:
    tls = grpc_settings(grpc_use_ssl=True, grpc_server_cert="c", grpc_server_key="k").tls
    assert tls == TlsSettings("c", "k")


def test_each_door_has_an_address_of_its_own(tmp_path: Path) -> None:
    server = wiring.build(settings(tmp_path))
    server.start()
    try:
        addresses = [server.http_address, server.grpc_address, server.operator_address]
        assert all(address is not None and address[1] for address in addresses)
        assert len(set(addresses)) == 3
    finally:
        server.stop()


def test_a_server_that_was_never_started_is_stopped_and_one_that_was_stopped_is_once(tmp_path: Path) -> None:
    server = wiring.build(settings(tmp_path))
    server.stop()
    assert server.serving_loop.loop.is_closed()
    started = wiring.build(settings(tmp_path))
    started.start()
    started.stop()
    started.stop()
    assert not started.serving_loop.runs


def operator_settings(server: wiring.RunningServer) -> OperatorSettings:
    assert server.operator is not None
    return server.operator._settings


def test_a_server_without_a_key_makes_one_that_nobody_can_guess(tmp_path: Path) -> None:
    keys = {wiring.build(settings(tmp_path)).control_key for _ in range(3)}
    assert len(keys) == 3
    assert all(len(key) >= 40 for key in keys)


def test_key_socket_name_and_log_file_reach_the_operators_door(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    made = settings(tmp_path, control_key="k", control_socket=path, name="default", log_file="/tmp/x.log")
    server = wiring.build(made)
    assert server.control_key == "k"
    found = operator_settings(server)
    assert (found.control_key, found.control_socket, found.name, found.log_file) == ("k", path, "default", "/tmp/x.log")
    assert operator_settings(wiring.build(settings(tmp_path))).control_key != ""


def test_the_overview_says_where_the_doors_are_and_what_the_log_keeps(tmp_path: Path) -> None:
    ring = LogRing()
    ring.extend([logging.LogRecord("infer", logging.INFO, "f.py", 1, "hello", None, None)])
    server = wiring.build(settings(tmp_path, allow_grpc=False), ring)
    server.start()
    try:
        address, http = server.operator_address, server.http_address
        assert address is not None
        assert http is not None
        with urllib.request.urlopen(f"http://127.0.0.1:{address[1]}/v2/operator/overview", timeout=20) as answer:
            overview = json.loads(answer.read())
        assert overview["server"]["http"] == f"127.0.0.1:{http[1]}"
        assert overview["server"]["operator"] == f"127.0.0.1:{address[1]}"
        assert overview["server"]["grpc"] is None
        assert overview["log_last"] == 1
    finally:
        server.stop()


def test_a_control_socket_that_cannot_be_had_stops_the_start(tmp_path: Path) -> None:
    server = wiring.build(settings(tmp_path, control_socket=tmp_path / "none" / "control.sock"))
    with pytest.raises(Unavailable, match=r"control socket .* cannot be opened"):
        server.start()
    assert not server.serving_loop._thread.is_alive()


def test_a_door_that_is_not_wanted_is_not_there(tmp_path: Path) -> None:
    server = wiring.build(settings(tmp_path, allow_http=False, allow_grpc=False, allow_metrics=False))
    assert (server.http_address, server.grpc_address, server.operator_address) == (None, None, None)


@pytest.mark.parametrize("door", ["http", "grpc"])
def test_a_port_that_is_taken_stops_the_start_and_all_that_has_begun(tmp_path: Path, door: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = wiring.build(settings(tmp_path, **{f"{door}_port": port}))
        with pytest.raises(Unavailable, match=rf"127\.0\.0\.1:{port} .* already in use.*--{door}-port"):
            server.start()
    assert not server.serving_loop._thread.is_alive()


@pytest.mark.parametrize("text", ["many", "-1", "1.5", ""])
@pytest.mark.parametrize("variable", ["TRITONSERVER_DELAY_SCHEDULER", "TRITONSERVER_BACKLOG_DELAY_SCHEDULER"])
def test_a_delay_of_the_scheduler_that_is_no_number_of_requests_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, text: str
) -> None:
    monkeypatch.setenv(variable, text)
    with pytest.raises(InvalidArgument, match=f"{variable}={text} is not a number of requests"):
        wiring.build(ServerSettings(model_repository=(tmp_path,)))
