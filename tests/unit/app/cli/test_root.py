"""How the command line ends."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from infer.app.cli import config, ps, root
from infer.app.failures import CommandError, ExitCode
from infer.tui.failure import ClientError, Kind

if TYPE_CHECKING:
    from tests.unit.app.cli.conftest import Door


def fail_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def load(**_options: object) -> None:
        raise error

    monkeypatch.setattr(config, "load", load)


@pytest.mark.parametrize("words", [[], ["model"], ["ctx"], ["config"]])
def test_a_group_alone_shows_its_help_and_is_two(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert root.outcome(words) == 2
    assert capsys.readouterr().out.startswith(f"Usage: {' '.join(['infer', *words])} ")


@pytest.mark.parametrize("flag", ["-h", "--help"])
@pytest.mark.parametrize("words", [[], ["model"], ["model", "load"], ["call"], ["up"]])
def test_help_is_zero_and_on_standard_output(words: list[str], flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert root.outcome([*words, flag]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("Usage: infer")
    assert captured.err == ""


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (Kind.FAILED, 1),
        (Kind.USAGE, 2),
        (Kind.NOT_FOUND, 3),
        (Kind.NOT_READY, 4),
        (Kind.REFUSED, 5),
        (Kind.NO_CONNECTION, 6),
    ],
)
def test_a_clients_failure_has_the_exit_code_of_its_kind(
    kind: Kind, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fail_with(monkeypatch, ClientError("what", "why", "fix", kind=kind))
    assert root.outcome(["config", "view"]) == code
    assert capsys.readouterr().err == "error: what\n  why: why\n  fix: fix\n"


@pytest.mark.parametrize("code", list(ExitCode))
def test_a_commands_failure_has_the_exit_code_that_it_says(code: ExitCode, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, CommandError("what", "why", code=code))
    assert root.outcome(["config", "view"]) == code


def test_every_exit_code_is_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    root.outcome(["--help"])
    said = " ".join(capsys.readouterr().out.split())
    for code in ExitCode:
        assert f"· {code.value} " in said or f"codes: {code.value} " in said


def test_an_interrupt_is_130_and_silent(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    fail_with(monkeypatch, KeyboardInterrupt())
    assert root.outcome(["config", "view"]) == 130
    assert capsys.readouterr().err.strip() == ""


def test_what_nobody_foresaw_is_three_lines_and_with_debug_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fail_with(monkeypatch, ZeroDivisionError("by accident"))
    assert root.outcome(["config", "view", "--origin"]) == 1
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    assert "ZeroDivisionError: by accident" in captured.err
    assert "fix: see where: infer --debug config view --origin" in captured.err
    for words in (["--debug", "config", "view"], ["config", "view", "--debug"]):
        with pytest.raises(ZeroDivisionError):
            root.outcome(words)


def test_a_reader_that_has_had_enough_is_no_failure(monkeypatch: pytest.MonkeyPatch, door: Door) -> None:
    door.overview = {"models": []}
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stream:
        monkeypatch.setattr("sys.stdout", stream)
        assert root.outcome(["ps"]) == 0
    assert ps.HEAD
