"""`infer model load|unload|reload`: what is chosen, when it asks, and what is said of each model."""

from __future__ import annotations

import json
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from infer.app import changing
from infer.app.cli import change, model_changes
from infer.app.cli.output import Format
from infer.app.failures import ExitCode, exit_code
from infer.tui.failure import ClientError, Failure, Kind

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.unit.app.cli.conftest import Door


@pytest.fixture(autouse=True)
def served(door: Door) -> Door:
    """Three models that serve and one that does not; changes do what they say."""
    door.index = [
        {"name": "a", "version": "1", "state": "READY"},
        {"name": "tmp-1", "version": "1", "state": "READY"},
        {"name": "tmp-2", "version": "1", "state": "READY"},
        {"name": "idle", "version": "1", "state": "UNAVAILABLE", "reason": "unloaded"},
        {"name": "new"},
    ]

    def on_change(verb: str, name: str) -> None:
        if name == "broken":
            raise ClientError("the server refused it", "no such file", "look: infer logs")
        if verb == "unload":
            door.set_state(name, "UNAVAILABLE", "unloaded")
        else:
            door.set_state(name, "READY")

    door.on_change = on_change
    return door


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes this process sit at a terminal where a person answers."""

    class Stdin:
        def __init__(self, answer: str) -> None:
            self._answer = answer

        def isatty(self) -> bool:
            return True

        def readline(self) -> str:
            return f"{self._answer}\n"

    def sit(answer: str) -> None:
        monkeypatch.setattr("sys.stdin", Stdin(answer))
        monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
        monkeypatch.setattr("typer.confirm", lambda question, err: answers(question, answer, err=err))

    def answers(question: str, answer: str, *, err: bool) -> bool:
        import sys

        print(question, file=sys.stderr if err else sys.stdout)
        return answer == "y"

    return sit


def changed(door: Door) -> list[tuple[str, str]]:
    return [(verb, name) for verb, name, _ in door.changes]


def refusal(command: Callable[..., None], *words: Any, **options: Any) -> Failure:
    with pytest.raises(Failure) as caught:
        command(*words, **options)
    return caught.value


def test_one_model_is_a_line(capsys: pytest.CaptureFixture[str], door: Door) -> None:
    model_changes.load(["new"])
    model_changes.unload(["a"])
    captured = capsys.readouterr()
    assert captured.out == "new  READY\na  version 1 UNAVAILABLE: unloaded\n"
    assert captured.err == ""
    assert changed(door) == [("load", "new"), ("unload", "a")]


def test_several_models_are_a_table_and_listed_before(capsys: pytest.CaptureFixture[str], door: Door) -> None:
    model_changes.load(["new", "idle"])
    captured = capsys.readouterr()
    assert captured.err.splitlines() == [
        "load at http://127.0.0.1:8002:",
        "  new  not loaded",
        "  idle  version 1 UNAVAILABLE: unloaded",
    ]
    assert captured.out.splitlines()[0].split() == ["MODEL", "LOAD", "STATE"]
    assert captured.out.splitlines()[2].split() == ["idle", "ok", "version", "1", "READY"]


def test_a_load_takes_globs_and_all_of_the_whole_index_without_a_question(door: Door) -> None:
    model_changes.load(["tmp-*", "i*"])
    assert changed(door) == [("load", "tmp-1"), ("load", "tmp-2"), ("load", "idle")]
    door.changes.clear()
    model_changes.load(every=True)
    assert len(changed(door)) == 5


def test_an_unload_takes_globs_of_what_is_loaded(door: Door) -> None:
    model_changes.unload(["*"], yes=True)
    assert [name for _, name in changed(door)] == ["a", "tmp-1", "tmp-2"]


def test_an_unload_of_what_is_not_loaded_is_no_failure_and_a_note(
    capsys: pytest.CaptureFixture[str], door: Door
) -> None:
    model_changes.unload(["idle"])
    model_changes.unload(["tmp-3"])
    captured = capsys.readouterr()
    assert captured.err.splitlines() == [
        "note: 'idle' is not loaded",
        "note: 'tmp-3' is not loaded; did you mean tmp-2?",
    ]
    assert changed(door) == []


@pytest.mark.parametrize("options", [{"names": ["tmp-*"]}, {"every": True}])
@pytest.mark.parametrize("command", [model_changes.unload, model_changes.reload])
def test_a_glob_without_a_terminal_wants_yes(command: Callable[..., None], options: dict[str, Any], door: Door) -> None:
    failure = refusal(command, **options)
    assert exit_code(failure) is ExitCode.USAGE
    assert "--yes" in failure.fix
    assert changed(door) == []


def test_names_that_are_spelt_out_need_no_yes_without_a_terminal(door: Door) -> None:
    model_changes.unload(["tmp-1", "tmp-2"])
    assert len(changed(door)) == 2


def test_a_person_is_asked_and_no_changes_nothing(
    terminal: Callable[[str], None], capsys: pytest.CaptureFixture[str], door: Door
) -> None:
    terminal("n")
    failure = refusal(model_changes.unload, ["tmp-*"])
    assert exit_code(failure) is ExitCode.FAILED
    assert failure.what == "nothing was unloaded"
    assert changed(door) == []
    error = capsys.readouterr().err
    assert "  tmp-1  version 1 READY" in error
    assert "unload at http://127.0.0.1:8002?" in error


def test_the_question_names_the_context(
    terminal: Callable[[str], None], capsys: pytest.CaptureFixture[str], home: Path, door: Door
) -> None:
    (home / ".config" / "infer").mkdir(parents=True)
    (home / ".config" / "infer" / "config.toml").write_text('[contexts.prod]\nurl = "http://prod:8002"\n')
    terminal("y")
    model_changes.unload(["tmp-*"], context="prod")
    assert "unload at http://prod:8002 (context 'prod')?" in capsys.readouterr().err
    assert len(changed(door)) == 2


def test_one_model_with_requests_in_flight_or_dependents_is_asked_about(
    terminal: Callable[[str], None], capsys: pytest.CaptureFixture[str], door: Door
) -> None:
    door.overview = {
        "models": [
            {"name": "a", "version": "1", "state": "READY", "in_flight": 2},
            {"name": "tmp-1", "version": "1", "state": "READY", "depends_on": ["a"]},
        ]
    }
    terminal("n")
    refusal(model_changes.unload, ["a"])
    error = capsys.readouterr().err
    assert "'a' has 2 requests in flight" in error
    assert "'a' is a step of tmp-1" in error
    model_changes.unload(["a"], yes=True)
    model_changes.unload(["tmp-1"])
    assert changed(door) == [("unload", "a"), ("unload", "tmp-1")]


def test_a_dry_run_says_what_it_would_do_and_does_nothing(capsys: pytest.CaptureFixture[str], door: Door) -> None:
    model_changes.unload(["tmp-*"], dry_run=True, output=Format.NAME)
    model_changes.load(every=True, dry_run=True, output=Format.JSON)
    captured = capsys.readouterr()
    assert captured.out.startswith("tmp-1\ntmp-2\n[")
    assert "this would unload at" in captured.err
    assert changed(door) == []


def test_one_failure_of_one_is_that_failure(door: Door) -> None:
    failure = refusal(model_changes.load, ["broken"])
    assert (failure.why, exit_code(failure)) == ("no such file", ExitCode.FAILED)


def test_some_failures_of_several_are_seven_with_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    failure = refusal(model_changes.load, ["new", "broken"])
    assert exit_code(failure) is ExitCode.PARTIAL
    assert failure.what == "load failed for 1 of 2 models"
    assert "no such file" in failure.why
    rows = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()]
    assert rows[2] == ["broken", "failed", "no such file"]


def test_all_failures_of_one_kind_end_with_its_code(door: Door) -> None:
    def gone(_verb: str, _name: str) -> None:
        raise ClientError("the server refused it", "not found", kind=Kind.NOT_FOUND)

    door.on_change = gone
    assert exit_code(refusal(model_changes.load, ["x", "y"])) is ExitCode.NOT_FOUND


def test_outcomes_are_json_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    refusal(model_changes.load, ["a", "broken"], output=Format.JSON)
    good, bad = json.loads(capsys.readouterr().out)
    assert (good["name"], good["ok"], good["error"]) == ("a", True, None)
    assert (bad["ok"], bad["error"]["why"]) == (False, "no such file")
    refusal(model_changes.load, ["a", "broken"], output=Format.NAME)
    assert capsys.readouterr().out == "a\n"


def test_a_load_sends_its_configuration_and_files(tmp_path: Path, door: Door) -> None:
    (tmp_path / "model.py").write_text("pass")
    model_changes.load(["a%2Fb"], config='{"backend": "python"}', files=[f"1/model.py={tmp_path / 'model.py'}"])
    parameters = {"config": '{"backend": "python"}', "file:1/model.py": "cGFzcw=="}
    assert door.changes[0][2] == {"parameters": parameters}


def test_a_configuration_is_for_one_model(door: Door) -> None:
    failure = refusal(model_changes.load, ["a", "new"], config="{}")
    assert exit_code(failure) is ExitCode.USAGE
    assert changed(door) == []


def test_a_reload_says_whether_something_changed(capsys: pytest.CaptureFixture[str], door: Door) -> None:
    row: dict[str, Any] = {"name": "a", "version": "1", "state": "READY", "load_duration_s": 0.25}
    door.overview = {"models": [row]}
    model_changes.reload(["a"])
    assert "'a' has not changed, so nothing was loaded" in capsys.readouterr().err

    def loaded_again(_verb: str, _name: str) -> None:
        door.overview = {"models": [{**row, "load_duration_s": 0.31}]}

    door.on_change = loaded_again
    model_changes.reload(["a"])
    assert capsys.readouterr().err == ""
    assert changed(door) == [("load", "a"), ("load", "a")]


def test_a_reload_of_what_is_not_loaded_is_refused_with_the_way(door: Door) -> None:
    failure = refusal(model_changes.reload, ["idle"])
    assert exit_code(failure) is ExitCode.NOT_READY
    assert failure.fix == "load it: infer model load idle"
    assert changed(door) == []


def test_nothing_to_do_is_a_note(capsys: pytest.CaptureFixture[str], door: Door) -> None:
    door.index = []
    model_changes.unload(every=True, yes=True)
    assert capsys.readouterr().err.endswith("note: there is nothing to unload\n")


@pytest.mark.parametrize("command", [model_changes.load, model_changes.unload, model_changes.reload])
def test_a_read_only_configuration_refuses_every_change(
    command: Callable[..., None], monkeypatch: pytest.MonkeyPatch, door: Door
) -> None:
    monkeypatch.setenv("INFER_READ_ONLY", "true")
    failure = refusal(command, ["a"])
    assert exit_code(failure) is ExitCode.REFUSED
    assert "INFER_READ_ONLY" in failure.why
    assert changed(door) == []


class TestWaiting:
    """A change that takes its time."""

    @pytest.fixture(autouse=True)
    def slow(self, door: Door, monkeypatch: pytest.MonkeyPatch) -> Any:
        self.release = threading.Event()
        monkeypatch.setattr(changing, "POLL_S", 0.01)

        def on_change(_verb: str, name: str) -> None:
            door.set_state(name, "LOADING")
            if self.late:
                raise ClientError("no answer", "too long", kind=Kind.NOT_READY, late=True)
            assert self.release.wait(20)
            door.set_state(name, "READY")

        door.on_change = on_change
        self.late = False
        yield
        self.release.set()

    def test_states_on_the_way_are_shown(self, door: Door) -> None:
        shown: list[str] = []

        def show(text: str) -> None:
            shown.append(text)
            self.release.set()

        from infer.tui.client import Client

        outcome = changing.change(Client("http://h:1"), "load", "idle", {}, wait_s=20.0, show=show)
        assert outcome.state == "version 1 READY"
        assert shown[0].startswith("idle  version 1 LOADING")

    def test_time_that_is_over_is_four_with_the_last_known_state(self) -> None:
        self.late = True
        failure = refusal(model_changes.load, ["idle"], timeout=5.0)
        assert exit_code(failure) is ExitCode.NOT_READY
        assert "last known state: version 1 LOADING" in failure.why
        assert "--wait" in failure.fix

    def test_what_is_not_waited_for_is_a_note(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.late = True
        model_changes.load(["idle"], wait=False)
        captured = capsys.readouterr()
        assert captured.out.startswith("idle  version 1 LOADING")
        assert "under way" in captured.err

    def test_models_that_the_time_is_over_for_are_left_as_they_are(
        self, door: Door, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        times = iter([0.0, 1.0, 100.0])
        monkeypatch.setattr(change, "time", SimpleNamespace(monotonic=lambda: next(times)))
        self.release.set()
        failure = refusal(model_changes.load, ["idle", "new"], timeout=50.0)
        assert exit_code(failure) is ExitCode.PARTIAL
        assert "the time was over" in failure.why
        assert [name for _, name in changed(door)] == ["idle"]
