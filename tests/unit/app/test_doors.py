"""Where a call goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from infer.app import doors
from infer.app.configuration import Configuration, Layer
from infer.app.doors import Doors, beside, door, find_doors, seen_from_here
from infer.app.failures import CommandError
from infer.app.finding import Wanted
from infer.app.registry import Record, Registry
from infer.tui.client import Client
from infer.tui.failure import ClientError, Kind

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(tmp_path / "run")


def configured(**values: str) -> Configuration:
    return Configuration((Layer("environment", values, dict.fromkeys(values, "x")),), None, {})


def found(registry: Registry, url: str = "", http: str | None = None, grpc: str | None = None, **values: str) -> Doors:
    return find_doors(configured(**values), Wanted(url), registry, http=http, grpc=grpc)


def test_nothing_said_and_nobody_there_is_the_usual_ports(registry: Registry) -> None:
    assert found(registry) == Doors("http://127.0.0.1:8000", "127.0.0.1:8001")


def test_flags_win_over_the_configuration(registry: Registry) -> None:
    assert found(registry, http="http://a:1", grpc="b:2", http_url="x", grpc_url="y") == Doors("http://a:1", "b:2")
    assert found(registry, http_url="http://a:1", grpc_url="b:2") == Doors("http://a:1", "b:2")


def test_an_http_port_alone_has_its_grpc_port_beside_it(registry: Registry) -> None:
    assert found(registry, http="http://a:9000").grpc == "a:9001"
    assert found(registry, http="127.0.0.1:9000").grpc == "127.0.0.1:9001"
    assert beside("[::1]:9") == "[::1]:10"
    assert beside("http://a") == "a:8001"
    assert beside("http://a:99999") == "a:8001"


def test_an_http_port_of_a_server_that_runs_here_has_that_servers_grpc_port(registry: Registry) -> None:
    with registry.take("other") as registration:
        registration.publish(Record(name="other", pid=1, http="127.0.0.1:81", grpc="127.0.0.1:7"))
        assert found(registry, http="http://localhost:81").grpc == "127.0.0.1:7"
        assert found(registry, http="http://127.0.0.1:80").grpc == "127.0.0.1:81"
        assert found(registry, http="http://far:81").grpc == "far:82"
        registration.publish(Record(name="other", pid=1, http="127.0.0.1:81"))
        assert found(registry, http="http://localhost:81").grpc == ""


def test_the_server_that_runs_here_tells_its_doors(registry: Registry) -> None:
    with registry.take("default") as registration:
        registration.publish(Record(name="default", pid=1, http="127.0.0.1:81", grpc="127.0.0.1:82"))
        assert found(registry) == Doors("http://127.0.0.1:81", "127.0.0.1:82")
        assert found(registry, grpc="x:1").grpc == "x:1"
        registration.publish(Record(name="default", pid=1))
        assert found(registry) == Doors("", "")


@pytest.mark.parametrize(
    ("url", "told", "expected"),
    [
        ("http://far:8002", {"http": "127.0.0.1:81", "grpc": "127.0.0.1:82"}, Doors("http://far:81", "far:82")),
        ("http://127.0.0.1:1", {"http": "127.0.0.1:81", "grpc": None}, Doors("http://127.0.0.1:81", "")),
        ("unix:/s", {"http": None, "grpc": "127.0.0.1:82"}, Doors("", "127.0.0.1:82")),
        ("http://far:8002", {"http": "10.0.0.1:81"}, Doors("http://10.0.0.1:81", "")),
    ],
)
def test_a_server_that_is_named_is_asked_and_its_loopback_is_its_own(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, url: str, told: dict[str, Any], expected: Doors
) -> None:
    monkeypatch.setattr(Client, "get", lambda _self, _path: {"server": told})
    assert found(registry, url) == expected


def test_a_real_triton_tells_nothing_and_its_url_is_its_http_port(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(_self: Client, _path: str) -> None:
        raise ClientError("no", "not found", kind=Kind.NOT_FOUND)

    monkeypatch.setattr(Client, "get", unknown)
    assert found(registry, "http://triton:8000") == Doors("http://triton:8000", "triton:8001")


def test_a_named_server_that_is_not_there_is_a_failure(registry: Registry) -> None:
    with pytest.raises(ClientError) as caught:
        found(registry, "http://127.0.0.1:9")
    assert caught.value.kind is Kind.NO_CONNECTION


def test_an_ipv6_host_keeps_its_brackets() -> None:
    assert seen_from_here("127.0.0.1:81", "http://[fe80::1]:8002") == "[fe80::1]:81"
    assert seen_from_here(None, "http://far:1") == ""


def test_a_door_that_is_not_there_is_named_with_the_flag() -> None:
    assert door("a:1", "gRPC", "--grpc-url") == "a:1"
    with pytest.raises(CommandError) as caught:
        door("", "gRPC", "--grpc-url")
    assert "no gRPC port" in caught.value.what
    assert "--grpc-url" in caught.value.fix
    assert doors.GRPC_ADDRESS
