"""A name means one server: the one that runs, or a new one, and never one with other flags."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from infer.app import background, launch
from infer.app.arguments import BadOption
from infer.app.failures import CommandError, ExitCode
from infer.app.registry import Record, Registry
from infer.app.standing import Standing
from infer.app.up_flags import with_defaults
from infer.tui.snapshot import ModelSnapshot, Overview, Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STARTS = """
import os, signal, sys
from pathlib import Path
from infer.app.registry import Record, Registry
held = Registry(Path(os.environ["INFER_RUN_DIR"])).take(sys.argv[2].removeprefix("--name="))
held.publish(Record(name=held.name, pid=os.getpid(), start_page="MODEL", arguments=tuple(sys.argv[3:])))
signal.pause()
"""


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    monkeypatch.setenv("INFER_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("INFER_STATE_DIR", str(tmp_path / "state"))
    return Registry(tmp_path / "run")


@contextmanager
def running(registry: Registry, *args: str, name: str = "default") -> Iterator[Record]:
    record = Record(name=name, pid=os.getpid(), start_page="M", arguments=tuple(with_defaults(args)))
    with registry.take(name) as held:
        held.publish(record)
        yield record


def bring_up(*args: str, name: str = "default", told: list[str] | None = None) -> tuple[Record, bool]:
    tell = (told if told is not None else []).append
    return background.bring_up(name, args, enough=lambda record: bool(record.start_page), tell=tell)


def test_a_server_that_runs_with_the_same_flags_is_the_one(registry: Registry) -> None:
    with running(registry, "--http-port=0") as record:
        assert bring_up() == (record, False)
        assert bring_up("--http-port", "0") == (record, False)


def test_a_server_that_runs_with_other_flags_is_refused_with_them_and_the_ways_out(registry: Registry) -> None:
    with running(registry, "--http-port=0"), pytest.raises(CommandError) as refused:
        bring_up("--http-port=1", "--id=x")
    assert refused.value.code == ExitCode.REFUSED
    assert refused.value.why == "--http-port is 0 there, not 1; --id is triton there, not x"
    assert refused.value.fix == "stop it first: infer down   or have a second one: --name NAME"
    with running(registry, name="blue"), pytest.raises(CommandError) as refused:
        bring_up("--id=x", name="blue")
    assert "infer down --name blue " in refused.value.fix


def test_a_mistyped_flag_is_no_other_flag(registry: Registry) -> None:
    with running(registry), pytest.raises(BadOption):
        bring_up("--htp-port=1")


def test_without_one_it_is_started_with_a_log_file_of_its_own(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(launch, "helper_command", lambda _verb: (sys.executable, "-c", STARTS))
    started: list[launch.Launch] = []
    start = launch.launch

    def starting(*words: Any) -> launch.Launch:
        started.append(start(*words))
        return started[0]

    monkeypatch.setattr(background, "launch", starting)
    told: list[str] = []
    record, new = bring_up("--http-port=0", name="blue", told=told)
    started[0].process.kill()
    started[0].process.wait()
    assert new
    assert record.pid == started[0].process.pid
    log_file = tmp_path / "state" / "blue.log"
    assert record.arguments == ("--log-file-max-size=10485760", f"--log-file={log_file}", "--http-port=0")
    assert told[0] == "starting 'blue' …"
    assert told[-1] == "", "the line is cleared"


def test_a_folder_that_cannot_be_trusted_starts_nothing(registry: Registry) -> None:
    registry.folder.mkdir()
    registry.folder.chmod(0o755)
    with pytest.raises(CommandError, match="cannot be trusted"):
        bring_up()


def test_a_start_tells_how_many_models_are_ready_and_asks_now_and_then_only(monkeypatch: pytest.MonkeyPatch) -> None:
    models = (ModelSnapshot("a", "1", "READY"), ModelSnapshot("b", "1", "LOADING"))
    asked: list[Record] = []

    def look(record: Record, timeout_s: float) -> Standing:
        asked.append(record)
        return Standing(record, Overview(Server(), models))

    monkeypatch.setattr(background, "look", look)
    told: list[str] = []
    progress = background._Progress("blue", told.append)
    for _ in range(3):
        progress.show(Record(name="blue", pid=1, control_socket="/s"))
    assert told == ["starting 'blue': 1 of 2 models are ready …"]
    assert len(asked) == 1
