"""`infer up` is the server itself, starts one, or attaches to one: by where it runs and what it is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from infer.app import background
from infer.app.cli import down, root
from infer.app.cli import up as up_module
from infer.app.registry import Record

if TYPE_CHECKING:
    from collections.abc import Callable

RECORD = Record(name="default", pid=7, control_socket="/s", start_page="MODEL …")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(up_module, "_is_terminal", lambda: True)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], str]]:
    """What would have been served in the foreground: flags and name."""
    calls: list[tuple[list[str], str]] = []

    def serve(args: list[str], name: str) -> int:
        calls.append((args, name))
        return 0

    monkeypatch.setattr(up_module, "run_with_flags", serve)
    return calls


@pytest.fixture
def brought(monkeypatch: pytest.MonkeyPatch) -> Callable[[Record, bool], list[tuple[str, list[str]]]]:
    """Has a server be brought up; what was asked for."""

    def bring(record: Record, started: bool) -> list[tuple[str, list[str]]]:
        asked: list[tuple[str, list[str]]] = []

        def bring_up(name: str, args: list[str], *, enough: Any, tell: Any) -> tuple[Record, bool]:
            asked.append((name, args))
            assert enough(record)
            return record, started

        monkeypatch.setattr(background, "bring_up", bring_up)
        return asked

    return bring


def show(monkeypatch: pytest.MonkeyPatch, outcome: str) -> list[str]:
    """A dashboard that is left like this; the addresses that it was attached to."""
    shown: list[str] = []

    def dashboard(source: Any, *, owned: bool) -> str:
        assert owned
        shown.append(source.address)
        return outcome

    monkeypatch.setattr(up_module, "_dashboard", lambda: dashboard)
    return shown


def test_without_a_terminal_it_is_the_server_with_the_name_default(served: list[tuple[list[str], str]]) -> None:
    assert root.outcome(["up", "--http-port=0"]) == 0
    args, name = served[0]
    assert name == "default"
    assert args[-1] == "--http-port=0"
    assert "--load-model=*" in args


@pytest.mark.usefixtures("terminal")
def test_at_a_terminal_it_is_the_server_where_that_is_asked_for(served: list[tuple[list[str], str]]) -> None:
    assert root.outcome(["up", "--foreground", "--name", "blue"]) == 0
    assert served[0][1] == "blue"


@pytest.mark.usefixtures("terminal")
def test_at_a_terminal_it_starts_one_and_attaches_the_dashboard(
    brought: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = brought(RECORD, True)
    shown = show(monkeypatch, "leave")
    assert root.outcome(["up", "--http-port=0"]) == 0
    assert asked == [("default", ["--http-port=0"])]
    assert shown == ["unix:/s"]
    assert capsys.readouterr().out == (
        "'default' goes on serving. come back: infer up · see it: infer status · stop it: infer down\n"
    )


@pytest.mark.usefixtures("terminal")
def test_it_says_so_where_it_attaches_to_one_that_ran(
    brought: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    brought(Record(name="blue", pid=7, control_socket="/s"), False)
    show(monkeypatch, "detach")
    assert root.outcome(["up", "--name=blue"]) == 0
    said = capsys.readouterr().out
    assert "'blue' is running already, as process 7: attached to it." in said
    assert "infer down --name blue" in said


@pytest.mark.usefixtures("terminal")
def test_left_with_stop_it_is_stopped_as_down_does(brought: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    brought(RECORD, True)
    show(monkeypatch, "stop")
    stopped: list[Record] = []

    def stop(record: Record) -> int:
        stopped.append(record)
        return 0

    monkeypatch.setattr(down, "stop_and_tell", stop)
    assert root.outcome(["up"]) == 0
    assert stopped == [RECORD]


@pytest.mark.usefixtures("terminal")
def test_a_dashboard_that_fails_leaves_the_server_and_says_so(
    brought: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    brought(RECORD, True)

    def dashboard(_source: Any, *, owned: bool) -> str:
        raise RuntimeError("a widget broke")

    monkeypatch.setattr(up_module, "_dashboard", lambda: dashboard)
    assert root.outcome(["up"]) == 1
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("'default' goes on serving.")
    assert "a widget broke" in said[2]


@pytest.mark.usefixtures("terminal")
def test_a_dashboard_needs_the_operators_door(capsys: pytest.CaptureFixture[str]) -> None:
    assert root.outcome(["up", "--allow-metrics=false"]) == 2
    assert "--detach or --foreground" in capsys.readouterr().err


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("more", [[], ["--detach"]])
def test_a_mistyped_flag_starts_nothing_and_its_reason_comes_last(
    more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert root.outcome(["up", "--htp-port=1", *more]) == 1
    assert "did you mean --http-port?" in capsys.readouterr().err.splitlines()[-1]


def test_detached_it_prints_the_start_page_and_how_to_come_back(
    brought: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = brought(RECORD, True)
    assert root.outcome(["up", "--detach", "--id", "x"]) == 0
    assert asked == [("default", ["--id", "x"])]
    said = capsys.readouterr()
    assert said.out == "MODEL …\n"
    assert "infer down" in said.err


def test_detached_where_one_runs_it_says_so(brought: Any, capsys: pytest.CaptureFixture[str]) -> None:
    brought(RECORD, False)
    assert root.outcome(["up", "--detach"]) == 0
    assert "running already, as process 7; see it: infer status" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "phrase"),
    [
        (["--detach", "--foreground"], "exclude each other"),
        (["--name", "a/b"], "cannot be the name of a server"),
        (["--name"], "requires an argument"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(
    words: list[str], phrase: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert root.outcome(["up", *words]) == 2
    assert phrase in capsys.readouterr().err


@pytest.mark.parametrize(
    ("terminal", "term", "shown"), [(True, "xterm", True), (True, "dumb", False), (False, "", False)]
)
def test_progress_is_one_line_that_changes_where_somebody_sees_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], terminal: bool, term: str, shown: bool
) -> None:
    monkeypatch.setenv("TERM", term)
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal, raising=False)
    up_module._progress()("starting …")
    assert capsys.readouterr().err == ("\r\x1b[Kstarting …" if shown else "")
