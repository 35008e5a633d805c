"""A signal ends a server the way its user meant it."""

from __future__ import annotations

import logging
import os
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from infer.app import listing, run, wiring
from infer.app.registry import Record, Registry
from infer.app.settings import ServerSettings
from infer.backends.api.errors import LoadFailed, Unavailable
from infer.server.lifecycle.states import IndexEntry
from infer.server.observe.logs import LogSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


class FakeEngine:
    def index(self) -> list[IndexEntry]:
        return [IndexEntry("bad", "1", "UNAVAILABLE", "no such file")]


class FakeLoop:
    def run(self, coroutine: Any) -> dict[str, Any]:
        coroutine.close()
        return {}


@dataclass
class FakeServer:
    """Stands in for a running server; what happens inside start and drain is the test's."""

    on_start: Callable[[], dict[str, Any]] = dict
    on_drain: Callable[[], int] = int
    calls: list[str] = field(default_factory=list)
    engine: FakeEngine = field(default_factory=FakeEngine)
    serving_loop: FakeLoop = field(default_factory=FakeLoop)
    http_address: tuple[str, int] | None = None
    operator_address: tuple[str, int] | None = None
    grpc_address: tuple[str, int] | None = None
    control_key: str = "secret"

    def start(self, opened: Callable[[], None]) -> dict[str, Any]:
        self.calls.append("start")
        opened()
        return self.on_start()

    def drain(self, timeout_s: float) -> int:
        self.calls.append(f"drain {timeout_s}")
        return self.on_drain()

    def stop(self) -> None:
        self.calls.append("stop")


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """The handlers of this process, as they were."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def serve(monkeypatch: pytest.MonkeyPatch, server: FakeServer, **settings: Any) -> int:
    monkeypatch.setattr(wiring, "build", lambda _settings, _log: server)
    # The collector's settings and the C library's are this process's, which goes on.
    monkeypatch.setattr(run, "settle", lambda: None)
    monkeypatch.setattr(run, "keep_freed_memory", lambda: None)
    return run.serve(ServerSettings(model_repository=(Path("/models"),), **settings))


def signal_when_serving(monkeypatch: pytest.MonkeyPatch, send: Callable[[], None]) -> None:
    """Send a signal where the page has been printed and the server waits."""
    announce = run._announce

    def announce_and_send(*arguments: Any) -> None:
        announce(*arguments)
        send()

    monkeypatch.setattr(run, "_announce", announce_and_send)


@pytest.mark.parametrize("send", [interrupt, terminate])
def test_a_signal_drains_and_ends_with_zero(monkeypatch: pytest.MonkeyPatch, send: Callable[[], None]) -> None:
    signal_when_serving(monkeypatch, send)
    server = FakeServer()
    assert serve(monkeypatch, server, exit_timeout_secs=7) == 0
    assert server.calls == ["start", "drain 7", "stop"]


def test_requests_that_did_not_make_it_end_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    signal_when_serving(monkeypatch, terminate)
    server = FakeServer(on_drain=lambda: 3)
    assert serve(monkeypatch, server) == 1
    assert server.calls[-1] == "stop"


def test_a_second_signal_stops_a_drain_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def never_done() -> int:
        interrupt()
        pytest.fail("the drain went on")

    signal_when_serving(monkeypatch, interrupt)
    server = FakeServer(on_drain=never_done)
    assert serve(monkeypatch, server) == 130
    assert server.calls == ["start", "drain 30", "stop"]


def test_a_signal_while_starting_ends_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def never_started() -> dict[str, Any]:
        terminate()
        pytest.fail("the start went on")

    server = FakeServer(on_start=never_started)
    assert serve(monkeypatch, server) == 0
    assert server.calls == ["start", "stop"]


def sent_before(name: str, where: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Send a signal before something is called."""
    call = getattr(where, name)

    def send_and_call(*arguments: Any) -> Any:
        monkeypatch.setattr(where, name, call)
        terminate()
        return call(*arguments)

    monkeypatch.setattr(where, name, send_and_call)


@pytest.mark.parametrize(
    ("where", "name", "calls"),
    [
        pytest.param(run, "log_settings", [], id="before there is a log"),
        pytest.param(listing, "enter", [], id="before it has a name"),
        pytest.param(run, "_serve", [], id="before anything is built"),
        pytest.param(FakeServer, "start", ["stop"], id="between the building and the start"),
        pytest.param(FakeEngine, "index", ["start", "drain 30", "stop"], id="once the models are there"),
    ],
)
def test_a_signal_at_any_moment_of_the_start_ends_it_with_zero_and_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], where: Any, name: str, calls: list[str]
) -> None:
    server = FakeServer()
    sent_before(name, where, monkeypatch)
    assert serve(monkeypatch, server) == 0
    assert server.calls == calls
    said = capsys.readouterr().out
    assert ("SIGTERM while starting: stopped" in said) != ("SIGTERM: finishing requests under way" in said)


def test_a_signal_while_the_parts_are_built_ends_the_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def build(_settings: Any, _log: Any) -> FakeServer:
        interrupt()
        return pytest.fail("the building went on")

    monkeypatch.setattr(wiring, "build", build)
    assert run.serve(ServerSettings(model_repository=(Path("/models"),))) == 0
    assert "SIGINT while starting: stopped" in capsys.readouterr().out


def test_a_start_that_fails_ends_with_one(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse() -> dict[str, Any]:
        raise Unavailable("port 8000 is taken")

    assert serve(monkeypatch, FakeServer(on_start=refuse)) == 1
    assert "port 8000 is taken" in capsys.readouterr().err


def test_a_model_that_fails_ends_the_start_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server = FakeServer(on_start=lambda: {"bad": LoadFailed("no such file")})
    assert serve(monkeypatch, server) == 1
    assert server.calls == ["start", "stop"]
    assert "bad    1        UNAVAILABLE  no such file" in capsys.readouterr().err

    signal_when_serving(monkeypatch, terminate)
    server.calls.clear()
    assert serve(monkeypatch, server, exit_on_error=False) == 0
    assert server.calls == ["start", "drain 30", "stop"]


def test_the_page_is_printed_also_where_the_log_is_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    signal_when_serving(monkeypatch, terminate)
    log_file = tmp_path / "log"
    assert serve(monkeypatch, FakeServer(), exit_on_error=False, log_file=str(log_file)) == 0
    assert "UNAVAILABLE" in capsys.readouterr().out
    assert "stopped" in log_file.read_text()


def test_a_log_file_that_cannot_be_opened_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert serve(monkeypatch, FakeServer(), log_file="/no/such/folder/log") == 1
    assert "/no/such/folder/log" in capsys.readouterr().err


def test_notices_are_logged_as_warnings(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    signal_when_serving(monkeypatch, terminate)
    assert serve(monkeypatch, FakeServer(), notices=("accepted, but not acted on yet: --rate-limit",)) == 0
    assert "not acted on yet: --rate-limit" in capsys.readouterr().err
    assert not logging.getLogger("infer").handlers


def test_a_server_with_a_name_is_found_while_it_starts_and_serves_and_no_longer_than_that(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    registry = Registry(tmp_path)
    monkeypatch.setattr(Registry, "of_user", lambda: registry)
    seen: list[Record | None] = []

    def look() -> dict[str, Any]:
        seen.append(registry.find("blue"))
        return {}

    def look_and_stop() -> None:
        look()
        terminate()

    signal_when_serving(monkeypatch, look_and_stop)
    server = FakeServer(on_start=look, operator_address=("0.0.0.0", 7002), http_address=("::1", 7000))
    assert serve(monkeypatch, server, name="blue") == 0
    starting, serving = seen
    assert starting is not None
    assert serving is not None
    assert (starting.operator, starting.http, starting.grpc) == ("127.0.0.1:7002", "[::1]:7000", None)
    assert (starting.control_key, starting.start_page) == ("secret", "")
    assert "DOOR" in serving.start_page
    assert registry.live() == []


def test_a_name_that_is_taken_ends_the_start_with_one_and_the_holder(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    registry = Registry(tmp_path)
    monkeypatch.setattr(Registry, "of_user", lambda: registry)
    with registry.take("blue") as held:
        held.publish(Record(name="blue", pid=7))
        monkeypatch.setattr(registry, "take", lambda name: Registry(tmp_path).take(name, patience_s=0))
        server = FakeServer()
        assert serve(monkeypatch, server, name="blue") == 1
    assert server.calls == []
    assert "it is process 7; stop it: infer down --name blue" in capsys.readouterr().err


def test_a_server_that_cannot_be_registered_serves_and_says_so_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    tmp_path.chmod(0o777)
    monkeypatch.setattr(Registry, "of_user", lambda: Registry(tmp_path))
    signal_when_serving(monkeypatch, terminate)
    assert serve(monkeypatch, FakeServer(), name="blue") == 0
    said = [line for line in capsys.readouterr().err.splitlines() if "only its address finds this server" in line]
    assert len(said) == 1
    assert f"chmod 700 {tmp_path}" in said[0]


def test_the_log_is_told_what_the_flags_say() -> None:
    assert run.log_settings(ServerSettings()) == LogSettings()
    made = ServerSettings(log_file="/tmp/x.log", log_file_max_size=1000, log_file_count=7, log_verbose=2)
    expected = LogSettings(log_file=Path("/tmp/x.log"), log_file_max_size=1000, log_file_count=7, log_verbose=2)
    assert run.log_settings(made) == expected
