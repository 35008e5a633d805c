"""`infer down`, `infer status` and `infer logs`, of servers that are told of and of those that are not there."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from infer.app import standing, stopping
from infer.app.cli import logs, root
from infer.app.failures import CommandError, ExitCode
from infer.app.registry import Record, Registry
from infer.app.standing import Standing
from infer.tui.failure import ClientError, Kind
from infer.tui.snapshot import LogPage, LogRecord, ModelSnapshot, Overview, Server
from infer.tui.source import ServerSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    monkeypatch.setenv("INFER_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("INFER_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("INFER_URL", raising=False)
    return Registry(tmp_path / "run")


@pytest.fixture
def run(registry: Registry) -> Iterator[Callable[..., Record]]:
    """Registers servers, as this process, until the test ends."""
    held: list[Any] = []

    def running(name: str, **told: Any) -> Record:
        record = Record(name=name, pid=os.getpid(), control_socket="/s", **told)
        held.append(registry.take(name))
        held[-1].publish(record)
        return record

    yield running
    for each in held:
        each.release()


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Standing]:
    """How servers stand, by name."""
    known: dict[str, Standing] = {}
    monkeypatch.setattr(standing, "look", lambda record, _timeout: known.get(record.name, Standing(record, None, "no")))
    return known


def ready(record: Record, *models: ModelSnapshot, is_ready: bool = True) -> Standing:
    return Standing(record, Overview(Server(ready=is_ready, memory_bytes=3 << 20), models))


@pytest.mark.usefixtures("registry")
def test_down_where_nothing_runs_is_a_note_and_zero(capsys: pytest.CaptureFixture[str]) -> None:
    assert root.outcome(["down", "--name", "blue"]) == 0
    assert capsys.readouterr().err == "No server named 'blue' is running.\n"


def test_down_says_what_is_under_way_when_it_changes(
    run: Any, answers: dict[str, Standing], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = run("default")
    given: list[Any] = []

    def stop(found: Record, _registry: Registry, *, timeout_s: float, force: bool, waiting: Any) -> bool:
        given.extend([found, timeout_s, force])
        for in_flight in (3, 3, 1, 0):
            answers["default"] = ready(record, ModelSnapshot("a", "1", "READY", in_flight=in_flight))
            waiting()
        del answers["default"]
        waiting()
        return True

    monkeypatch.setattr(stopping, "stop", stop)
    assert root.outcome(["down", "--timeout", "7", "--force"]) == 0
    assert given == [record, 7.0, True]
    said = capsys.readouterr()
    assert said.err.splitlines()[1:] == ["3 requests under way", "1 request under way"]
    assert said.out == "'default' is stopped.\n"


def test_down_ends_with_four_where_it_is_still_there(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run("default")

    def stop(*_: Any, **__: Any) -> bool:
        raise CommandError("still there", "it drains", code=ExitCode.NOT_READY)

    monkeypatch.setattr(stopping, "stop", stop)
    assert root.outcome(["down"]) == 4


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize("words", [["status"], ["status", "--name", "blue"], ["status", "-o", "name"]])
def test_status_where_nothing_runs_is_three(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert root.outcome(words) == 3
    assert "fix: start one: infer up" in capsys.readouterr().err


@pytest.mark.usefixtures("registry")
def test_status_in_json_is_a_list_also_where_nothing_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert root.outcome(["status", "-o", "json"]) == 3
    assert json.loads(capsys.readouterr().out) == []


def test_status_of_one_server_is_a_line_a_fact_and_a_reason_a_model(
    run: Any, answers: dict[str, Standing], capsys: pytest.CaptureFixture[str]
) -> None:
    record = run("default", http="127.0.0.1:8000", start_page="M", log_file="/state/default.log")
    broken = ModelSnapshot("b", "1", "UNAVAILABLE", "no such file")
    answers["default"] = ready(record, ModelSnapshot("a", "1", "READY"), broken, is_ready=False)
    assert root.outcome(["status"]) == 4
    lines = capsys.readouterr().out.splitlines()
    facts = {line[:10].strip(): line[11:] for line in lines[:-1]}
    assert (facts["state"], facts["models"], facts["memory"]) == ("not ready", "1/2 ready", "3.0 MiB")
    assert (facts["http"], facts["grpc"], facts["log"]) == ("127.0.0.1:8000", "-", "/state/default.log")
    assert lines[-1] == "b version 1 UNAVAILABLE: no such file"


def test_status_of_several_is_a_row_each_the_default_first(
    run: Any, answers: dict[str, Standing], capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("blue", "default"):
        answers[name] = ready(run(name, start_page="M", started_at=1.0))
    assert root.outcome(["status"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["NAME", "PID", "STATE"]
    assert [row.split()[0] for row in rows] == ["default", "blue"]
    assert root.outcome(["status", "-o", "name"]) == 0
    assert capsys.readouterr().out.split() == ["default", "blue"]
    assert root.outcome(["status", "--name", "blue", "-o", "json"]) == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)] == ["blue"]


def test_status_of_a_server_that_does_not_answer_is_four_and_why(
    run: Any, answers: dict[str, Standing], capsys: pytest.CaptureFixture[str]
) -> None:
    run("default", start_page="M", operator="127.0.0.1:1")
    assert root.outcome(["status"]) == 4
    said = capsys.readouterr().out
    assert "no answer" in said
    assert said.splitlines()[-1] == "default: no"


class Log:
    """A server's log: pages in their order, then it is gone."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *pages: LogPage) -> None:
        self._pages = list(pages)
        self.asked: list[dict[str, Any]] = []
        monkeypatch.setattr(ServerSource, "log", lambda _source, **query: self._next(query))
        monkeypatch.setattr(logs, "_pause", lambda: None)

    def _next(self, query: dict[str, Any]) -> LogPage:
        self.asked.append(query)
        if not self._pages:
            raise ClientError("cannot reach a server", "refused", kind=Kind.NO_CONNECTION)
        return self._pages.pop(0)


def page(*numbers: int, lost: int = 0) -> LogPage:
    records = tuple(LogRecord(number, 0.0, "INFO", f"line {number}", model="a") for number in numbers)
    return LogPage(numbers[-1] if numbers else 0, lost, records)


def test_logs_of_a_live_server_come_from_its_memory(
    run: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run("default")
    log = Log(monkeypatch, page(1, 2))
    assert root.outcome(["logs", "-n", "2", "--level", "warning", "--model", "a"]) == 0
    assert log.asked == [{"limit": 2, "level": "WARNING", "model": "a"}]
    assert capsys.readouterr().out.splitlines() == ["INFO    a: line 1", "INFO    a: line 2"]


def test_logs_are_followed_across_what_was_lost_until_the_server_ends(
    run: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run("blue")
    Log(monkeypatch, page(1), page(5, lost=3), page())
    assert root.outcome(["logs", "-f", "--name", "blue", "-o", "name"]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines() == ["line 1", "line 5"]
    assert said.err.splitlines() == ["… 3 lines lost", "the server at unix:/s has ended"]


def test_logs_in_json_are_an_object_a_line(
    run: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run("default")
    Log(monkeypatch, page(1, 2))
    assert root.outcome(["logs", "-o", "json"]) == 0
    assert [json.loads(line)["seq"] for line in capsys.readouterr().out.splitlines()] == [1, 2]


def test_an_interrupt_ends_logs_quietly_with_130(
    run: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run("default")
    Log(monkeypatch, page(1), page(2))

    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(logs, "_pause", interrupt)
    assert root.outcome(["logs", "-f"]) == 130
    assert capsys.readouterr().err == ""


def test_another_failure_while_following_is_a_failure(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run("default")
    log = Log(monkeypatch, page(1))

    def fail(_query: dict[str, Any]) -> LogPage:
        raise ClientError("refused", "it is no server of ours", kind=Kind.NOT_FOUND)

    def then_fail() -> None:
        monkeypatch.setattr(log, "_next", fail)

    log._pages.append(page(2))
    monkeypatch.setattr(logs, "_pause", then_fail)
    assert root.outcome(["logs", "-f"]) == 3


def test_logs_of_a_server_that_is_gone_come_from_its_file(
    registry: Registry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "default.log").write_text(
        'I1129 20:30:00.000000 7 a.py:1] "one"\nE1129 20:30:00.000000 7 a.py:1] "two"\n'
    )
    assert root.outcome(["logs", "-o", "name", "--level", "error"]) == 0
    said = capsys.readouterr()
    assert said.out == "two\n"
    assert "'default' is not running; this is the end of" in said.err
    assert root.outcome(["logs", "--name", "blue"]) == 3
    assert "blue.log: No such file" in capsys.readouterr().err


def test_logs_of_several_servers_want_a_name(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run("a")
    run("b")
    assert root.outcome(["logs"]) == 2
    assert "there are a, b" in capsys.readouterr().err


def test_logs_of_an_address_come_from_there(
    run: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run("default")
    seen: list[str] = []

    def log(source: ServerSource, **_query: Any) -> LogPage:
        seen.append(source.address)
        return page()

    monkeypatch.setattr(ServerSource, "log", log)
    assert root.outcome(["logs", "--url", "http://host:8002"]) == 0
    assert seen == ["http://host:8002"]
