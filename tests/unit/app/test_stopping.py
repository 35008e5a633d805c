"""A server is stopped, and nothing else is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from infer.app import stopping
from infer.app.failures import CommandError, ExitCode
from infer.app.registry import Record, Registry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOLD = """
import os, signal, sys
from pathlib import Path
from infer.app.registry import Record, Registry
signal.signal(signal.SIGTERM, {handler})
held = Registry(Path(sys.argv[1])).take("blue")
held.publish(Record(name="blue", pid=os.getpid()))
print("held", flush=True)
while True:
    signal.pause()
"""
ENDS = "lambda *_: sys.exit(0)"
STAYS = "signal.SIG_IGN"


class Server:
    """A process that is registered as 'blue' and hears SIGTERM, or does not."""

    def __init__(self, registry: Registry, handler: str) -> None:
        words = [sys.executable, "-c", HOLD.format(handler=handler), str(registry.folder)]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"held\n"
        found = registry.find("blue")
        assert found is not None
        self.record = found

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(tmp_path)


@pytest.fixture
def server(registry: Registry, request: pytest.FixtureRequest) -> Iterator[Server]:
    server = Server(registry, request.param)
    yield server
    server.end()


def nothing() -> None:
    """What to do while waiting."""


@pytest.mark.parametrize("server", [ENDS], indirect=True)
def test_it_is_asked_and_waited_for(registry: Registry, server: Server) -> None:
    assert stopping.stop(server.record, registry, timeout_s=20, waiting=nothing)
    assert server.process.wait() == 0
    assert registry.live() == []


@pytest.mark.parametrize("server", [STAYS], indirect=True)
def test_one_that_is_still_there_is_left_stopping_and_said_to_be(registry: Registry, server: Server) -> None:
    calls: list[None] = []
    with pytest.raises(CommandError, match=r"still there after 0\.7 s") as refused:
        stopping.stop(server.record, registry, timeout_s=0.7, waiting=lambda: calls.append(None))
    assert refused.value.code == ExitCode.NOT_READY
    assert "--force" in refused.value.fix
    assert calls
    assert server.process.poll() is None


@pytest.mark.parametrize("server", [STAYS], indirect=True)
def test_force_kills_it_when_the_time_is_over(registry: Registry, server: Server) -> None:
    assert stopping.stop(server.record, registry, timeout_s=0, force=True, waiting=nothing)
    assert server.process.wait() == -signal.SIGKILL


@pytest.mark.parametrize("server", [STAYS], indirect=True)
def test_one_that_hangs_in_the_kernel_is_said_to_be(
    registry: Registry, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopping, "_KILLED_WITHIN_S", 0.0)
    monkeypatch.setattr(stopping, "_send", lambda *_: None)
    with pytest.raises(CommandError, match="was killed and is still there"):
        stopping.stop(server.record, registry, timeout_s=0, force=True, waiting=nothing)


@pytest.mark.parametrize("server", [ENDS], indirect=True)
def test_one_that_has_ended_is_no_error(registry: Registry, server: Server) -> None:
    server.end()
    assert not stopping.stop(server.record, registry, timeout_s=0, waiting=nothing)


def test_a_process_that_got_the_number_of_a_dead_server_is_left_alone(registry: Registry) -> None:
    """Were it signalled, this very process would end."""
    assert not stopping.stop(Record(name="blue", pid=os.getpid()), registry, timeout_s=0, waiting=nothing)


@pytest.mark.parametrize("server", [ENDS], indirect=True)
def test_a_server_that_took_the_name_since_is_left_alone(registry: Registry, server: Server) -> None:
    assert not stopping.stop(Record(name="blue", pid=os.getpid()), registry, timeout_s=0, waiting=nothing)
    assert server.process.poll() is None


def test_a_live_server_whose_number_is_another_process_here_is_not_mistaken(registry: Registry) -> None:
    """A run folder that containers share has numbers of theirs. Were this one signalled, it would end."""
    bystander = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with registry.take("blue") as held:
        record = Record(name="blue", pid=bystander.pid)
        held.publish(record)
        assert not stopping.stop(record, registry, timeout_s=0, waiting=nothing)
    bystander.communicate(b"\n")
    assert bystander.returncode == 0


@pytest.mark.parametrize("server", [ENDS], indirect=True)
def test_a_process_that_may_not_be_looked_at_is_refused(
    registry: Registry, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_name: str, _pid: int) -> bool:
        raise PermissionError

    monkeypatch.setattr(registry, "is_held_by", refuse)
    with pytest.raises(CommandError, match="may not be stopped by you"):
        stopping.stop(server.record, registry, timeout_s=0, waiting=nothing)


@pytest.mark.parametrize("server", [ENDS], indirect=True)
def test_a_server_of_another_user_is_refused(
    registry: Registry, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_descriptor: int, _number: int) -> None:
        raise PermissionError

    monkeypatch.setattr(signal, "pidfd_send_signal", refuse)
    with pytest.raises(CommandError, match="may not be stopped by you") as refused:
        stopping.stop(server.record, registry, timeout_s=0, waiting=nothing)
    assert refused.value.code == ExitCode.REFUSED


@pytest.mark.parametrize("server", [ENDS], indirect=True)
def test_one_that_ends_before_the_signal_is_gone(
    registry: Registry, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_late(_descriptor: int, _number: int) -> None:
        server.end()
        raise ProcessLookupError

    monkeypatch.setattr(signal, "pidfd_send_signal", too_late)
    assert stopping.stop(server.record, registry, timeout_s=20, waiting=nothing)
