"""A server's entry says what there is to say at each moment of its life."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from infer.app import listing
from infer.app.registry import NameTaken, Record, Registry
from infer.app.settings import ServerSettings

if TYPE_CHECKING:
    from collections.abc import Mapping


def settings(**fields: Any) -> ServerSettings:
    return ServerSettings(model_repository=(Path("/models"),), name="blue", **fields)


def doors(**addresses: Any) -> Any:
    known: Mapping[str, Any] = {"http_address": None, "grpc_address": None, "operator_address": None}
    return SimpleNamespace(**{**known, "control_key": "secret", **addresses})


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(tmp_path)


def found(registry: Registry) -> Record:
    record = registry.find("blue")
    assert record is not None
    return record


def test_before_a_door_is_open_it_says_who_and_how(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    with listing.enter(settings(log_file="a.log"), ["--log-file=a.log"], registry):
        record = found(registry)
    assert (record.pid, record.log_file, record.folder) == (os.getpid(), "/a.log", "/")
    assert record.arguments == ("--log-file=a.log",)
    assert record.started_at > 0
    assert (record.http, record.control_socket, record.control_key) == (None, None, "")


def test_the_control_socket_is_in_the_entry_and_is_told_of_once_it_is_open(registry: Registry) -> None:
    with listing.enter(settings(), [], registry) as entry:
        socket = registry.folder / "blue" / "control.sock"
        assert entry.settings.control_socket == socket
        entry.opened(doors(operator_address=("127.0.0.1", 7002)))
        record = found(registry)
        assert (record.control_socket, record.control_key) == (str(socket), "secret")
        entry.started("MODEL …")
        assert found(registry) == replace(record, start_page="MODEL …")
    assert registry.live() == []


def test_a_server_without_an_operators_door_has_no_socket_and_no_key(registry: Registry) -> None:
    with listing.enter(settings(allow_metrics=False), [], registry) as entry:
        assert entry.settings.control_socket is None
        entry.opened(doors(http_address=("0.0.0.0", 7000)))
        record = found(registry)
        assert (record.http, record.control_socket, record.control_key) == ("127.0.0.1:7000", None, "")


def test_a_server_without_a_name_has_no_entry(registry: Registry) -> None:
    with listing.enter(replace(settings(), name=""), [], registry) as entry:
        entry.opened(doors())
        entry.started("MODEL …")
        assert entry.settings.control_socket is None
    assert not list(registry.folder.iterdir())


def test_a_name_that_is_taken_is_refused(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    with registry.take("blue"):
        monkeypatch.setattr(registry, "take", lambda name: Registry(registry.folder).take(name, patience_s=0))
        with pytest.raises(NameTaken):
            listing.enter(settings(), [], registry)


def test_a_disk_that_takes_no_record_costs_a_line_and_not_the_server(
    registry: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    with listing.enter(settings(), [], registry) as entry:
        # A folder of that name stands for every reason why the file cannot be replaced.
        (registry.folder / "blue" / "server.json").unlink()
        (registry.folder / "blue" / "server.json" / "in the way").mkdir(parents=True)
        entry.opened(doors())
    assert [record.message for record in caplog.records if "its record cannot be written" in record.message]
