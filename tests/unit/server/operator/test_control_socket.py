"""The control socket belongs to the server's user alone, from the moment it exists until the server stops."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from infer.backends.api.errors import Unavailable
from infer.server.operator.control_socket import ControlSocket
from infer.server.operator.service import OperatorService, OperatorSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.unit.server.operator.conftest import Door


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "control.sock"


@pytest.fixture
def settings(path: Path) -> OperatorSettings:
    return OperatorSettings(port=0, control_socket=path, control_key="the-key")


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def close(made: ControlSocket) -> None:
    made.listener.close()
    made.remove()


@pytest.mark.usefixtures("open_umask")
def test_only_the_own_user_can_reach_it_whatever_the_umask_is(path: Path) -> None:
    made = ControlSocket(path)
    assert stat.filemode(path.stat().st_mode) == "srw-------"
    close(made)


@pytest.mark.usefixtures("open_umask")
def test_there_is_no_moment_in_which_others_can(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    bind = socket.socket.bind

    class Watched(socket.socket):
        def bind(self, address: Any) -> None:
            bind(self, address)
            seen.append(stat.S_IMODE(Path(address).stat().st_mode))

    monkeypatch.setattr("infer.server.operator.control_socket.socket.socket", Watched)
    made = ControlSocket(path)
    assert seen == [0o600]
    close(made)


def test_what_a_killed_server_left_is_replaced(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(path))
    made = ControlSocket(path)
    made.listener.listen()
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
    close(made)
    assert not path.exists()


def test_a_socket_on_which_somebody_listens_is_left_alone(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        with pytest.raises(Unavailable, match=f"control socket '{path}' cannot be opened: another server listens"):
            ControlSocket(path)
        assert path.exists()


def test_a_file_of_that_name_is_left_alone(path: Path) -> None:
    path.write_text("mine")
    with pytest.raises(Unavailable, match="there is a file of that name that is no socket"):
        ControlSocket(path)
    assert path.read_text() == "mine"


def test_a_link_of_that_name_is_not_followed(path: Path) -> None:
    target = path.with_name("target")
    target.write_text("mine")
    path.symlink_to(target)
    with pytest.raises(Unavailable, match="that is no socket"):
        ControlSocket(path)
    assert target.read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "reason"),
    [("x" * 120, "longer than the 107 bytes"), ("none/control.sock", "No such file or directory")],
    ids=["long", "no folder"],
)
def test_a_path_that_cannot_be_had_is_named_with_the_reason(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(Unavailable, match=f"control socket '{tmp_path}/.*' cannot be opened: .*{reason}"):
        ControlSocket(tmp_path / name)


def test_what_another_server_has_put_there_meanwhile_is_not_removed(path: Path) -> None:
    made = ControlSocket(path)
    path.unlink()
    other = ControlSocket(path)
    close(made)
    assert path.exists()
    close(other)
    other.remove()


def test_the_door_takes_changes_over_it_without_a_key(door: Door) -> None:
    door.headers = {}
    answer = door.ask("POST", "/v2/repository/models/simple/load", connection=door.connect_to_socket())
    assert answer.status == 200
    assert door.post("/v2/repository/models/simple/load").status == 401
    assert door.engine.calls == [("load", "simple")]


def test_no_header_makes_a_request_over_tcp_one_over_the_socket(door: Door) -> None:
    door.headers = {}
    headers = {"infer.control_socket": "1", "Infer-Control-Socket": "1", "X-Forwarded-For": "unix", "Host": "unix"}
    assert door.post("/v2/repository/models/simple/load", headers=headers).status == 401


def test_a_page_in_a_browser_may_not_use_it_either(door: Door) -> None:
    answer = door.ask(
        "POST",
        "/v2/repository/models/simple/load",
        headers={"Origin": "null"},
        connection=door.connect_to_socket(),
    )
    assert answer.status == 403
    assert door.engine.calls == []


def test_everything_that_reads_is_there_too(door: Door) -> None:
    for path in ("/metrics", "/v2/health/live", "/v2/repository/index", "/v2/operator/overview", "/v2/operator/log"):
        assert door.ask("GET", path, connection=door.connect_to_socket()).status == 200


def test_it_is_gone_when_the_door_has_stopped(door: Door, path: Path) -> None:
    idle = door.connect_to_socket()
    idle.request("GET", "/v2/health/live")
    idle.getresponse().read()
    door.service.stop()
    door.service.stop()
    assert not path.exists()
    idle.close()


def test_a_door_without_its_socket_does_not_open_and_leaves_no_port_behind(door: Door, path: Path) -> None:
    service = OperatorService(door.engine, OperatorSettings(port=0, control_socket=path))
    with pytest.raises(Unavailable, match="another server listens on it"):
        service.start()
    with pytest.raises(RuntimeError, match="call start"):
        _ = service.address
    service.stop()
    assert path.exists()
