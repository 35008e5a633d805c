"""A server that is started in the background is out of its terminal's reach, and heard of when it does not start."""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from infer.app import launch
from infer.app.failures import CommandError
from infer.app.launch import StartFailed, last_lines
from infer.app.registry import Record, Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PRELUDE = """
import json, os, signal, sys, time
from pathlib import Path
from infer.app.registry import Record, Registry
name = sys.argv[2].removeprefix("--name=")
def serve(**told):
    held = Registry(Path(os.environ["INFER_RUN_DIR"])).take(name)
    held.publish(Record(name=name, pid=os.getpid(), **told))
    return held
"""


class Program:
    """Starts a program of the test's in place of a server, and ends it with the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self._monkeypatch = monkeypatch
        self.registry = Registry(folder / "run")
        self.log_file = folder / "state" / "blue.log"
        self._started: list[launch.Launch] = []
        monkeypatch.setenv("INFER_RUN_DIR", str(self.registry.folder))

    def start(self, text: str, *arguments: str) -> launch.Launch:
        self._monkeypatch.setattr(launch, "helper_command", lambda _verb: (sys.executable, "-c", PRELUDE + text))
        started = launch.launch("blue", arguments, self.log_file)
        self._started.append(started)
        return started

    def wait(self, started: launch.Launch, waiting: Callable[[Record | None], None] = lambda _record: None) -> Record:
        return started.wait(self.registry, lambda record: bool(record.control_socket), waiting)

    def end(self) -> None:
        for started in self._started:
            started.process.kill()
            started.process.wait()


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Program]:
    program = Program(monkeypatch, tmp_path)
    yield program
    program.end()


def test_it_has_a_session_of_its_own_no_terminal_and_keeps_working_folder_words_and_file(
    program: Program, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    started = program.start(
        "print(json.dumps([os.getsid(0) == os.getpid(), os.getcwd(), sys.argv[1:], sys.stdin.read(),"
        " signal.getsignal(signal.SIGHUP) == signal.SIG_IGN, signal.getsignal(signal.SIGINT) != signal.SIG_IGN]))\n"
        "print('to stderr', file=sys.stderr)",
        "--http-port=0",
    )
    assert started.process.wait(20) == 0
    facts, said = program.log_file.read_text().splitlines()
    words = ["--foreground", "--name=blue", "--http-port=0"]
    assert json.loads(facts) == [True, str(tmp_path), words, "", True, True]
    assert said == "to stderr"
    assert program.log_file.stat().st_mode & 0o777 == 0o600
    assert program.log_file.parent.stat().st_mode & 0o777 == 0o700


def test_what_starts_it_still_hears_a_hang_up(program: Program) -> None:
    before = signal.getsignal(signal.SIGHUP)
    program.start("pass")
    assert signal.getsignal(signal.SIGHUP) == before


def test_it_is_waited_for_until_it_tells_enough(program: Program) -> None:
    seen: list[Record | None] = []
    started = program.start("held = serve(); input_seen = Path(sys.argv[3])\n"
                            "while not input_seen.exists(): time.sleep(0.01)\n"
                            "held.publish(Record(name=name, pid=os.getpid(), control_socket='/s'))\n"
                            "signal.pause()", str(program.log_file.with_name("go")))  # fmt: skip

    def waiting(record: Record | None) -> None:
        seen.append(record)
        if record is not None:
            program.log_file.with_name("go").touch()

    assert program.wait(started, waiting).control_socket == "/s"
    assert any(record is not None and record.control_socket is None for record in seen)


def test_a_server_that_ends_while_it_starts_is_told_of_with_its_reason_and_its_last_lines(program: Program) -> None:
    program.log_file.parent.mkdir(parents=True)
    program.log_file.write_text("of an earlier life\n")
    line = 'E1129 20:30:00.000000 7 run.py:1] "the server cannot start: port 8000 is taken"'
    started = program.start(f"print('first'); print({line!r}); sys.exit(1)")
    with pytest.raises(StartFailed) as failed:
        program.wait(started)
    assert failed.value.why == "the server cannot start: port 8000 is taken"
    assert str(failed.value).splitlines()[:3] == ["first", line, "error: the server 'blue' did not start"]
    assert str(program.log_file) in failed.value.fix
    assert failed.value.code == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [("sys.exit(3)", "it ended with status 3"), ("os.kill(0, signal.SIGKILL)", "it ended with signal SIGKILL")],
)
def test_a_server_that_ends_without_a_word_is_told_of_with_how_it_ended(program: Program, text: str, why: str) -> None:
    with pytest.raises(StartFailed) as failed:
        program.wait(program.start(text))
    assert failed.value.why == why
    assert str(failed.value).startswith("error: ")


def test_another_server_of_the_name_that_was_faster_is_taken(program: Program) -> None:
    with program.registry.take("blue") as held:
        held.publish(Record(name="blue", pid=os.getpid(), control_socket="/other"))
        record = program.wait(program.start("sys.exit(1)"))
    assert (record.pid, record.control_socket) == (os.getpid(), "/other")


def test_an_interrupt_while_it_starts_ends_it_too(program: Program) -> None:
    started = program.start("held = serve(); signal.pause()")

    def interrupt(record: Record | None) -> None:
        if record is not None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        program.wait(started, interrupt)
    assert started.process.returncode == -signal.SIGTERM
    assert not program.registry.holds("blue")


def test_a_server_that_does_not_listen_when_its_start_is_interrupted_is_killed(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "_STOP_S", 0.05)
    started = program.start("signal.signal(signal.SIGTERM, signal.SIG_IGN); held = serve(); signal.pause()")

    def interrupt(record: Record | None) -> None:
        if record is not None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        program.wait(started, interrupt)
    assert started.process.returncode == -signal.SIGKILL


def test_a_log_file_that_cannot_be_written_starts_nothing(program: Program, tmp_path: Path) -> None:
    program.log_file = tmp_path
    with pytest.raises(CommandError, match="cannot be started") as refused:
        program.start("pass")
    assert "Is a directory" in refused.value.why
    assert "--log-file" in refused.value.fix


def test_the_last_lines_are_those_behind_a_place_and_not_more_than_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a\nb\n\xff\nc\n")
    assert last_lines(path) == "a\nb\n\ufffd\nc"
    assert last_lines(path, 2) == "b\n\ufffd\nc"
    assert last_lines(path, 2, 1) == "c"
    assert last_lines(path, 1000) == "a\nb\n\ufffd\nc", "it was begun anew"
    assert last_lines(tmp_path / "nothing") == ""


@pytest.mark.parametrize(("status", "text"), [(0, "status 0"), (-9, "signal SIGKILL"), (-250, "signal 250")])
def test_an_ending_is_a_status_or_a_signal(status: int, text: str) -> None:
    assert launch.ending(status) == text
