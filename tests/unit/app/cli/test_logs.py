"""`infer logs` shows what was logged, from a live server or from a file, and goes on with it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from infer.app.cli import logs, root
from infer.tui.failure import ClientError, Kind
from infer.tui.snapshot import LogPage, LogRecord
from infer.tui.source import ServerSource

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


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


def test_logs_of_a_server_that_is_gone_come_from_its_file(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "state").mkdir()
    (home / "state" / "default.log").write_text(
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
