"""A signal ends a server the way its user meant it."""

from __future__ import annotations

import logging
import os
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from infer.app import run, wiring
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

    def start(self) -> dict[str, Any]:
        self.calls.append("start")
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
    assert server.calls == ["start"]


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


def test_the_log_is_told_what_the_flags_say() -> None:
    assert run.log_settings(ServerSettings()) == LogSettings()
    made = ServerSettings(log_file="/tmp/x.log", log_file_max_size=1000, log_file_count=7, log_verbose=2)
    expected = LogSettings(log_file=Path("/tmp/x.log"), log_file_max_size=1000, log_file_count=7, log_verbose=2)
    assert run.log_settings(made) == expected
