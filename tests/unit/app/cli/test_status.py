"""`infer status` shows the servers that run, by their exit codes too."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from infer.app.cli import root
from infer.app.standing import Standing
from infer.tui.snapshot import ModelSnapshot, Overview, Server

if TYPE_CHECKING:
    from infer.app.registry import Record


def ready(record: Record, *models: ModelSnapshot, is_ready: bool = True) -> Standing:
    return Standing(record, Overview(Server(ready=is_ready, memory_bytes=3 << 20), models))


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
