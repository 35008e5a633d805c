"""`infer down` stops a server, says what it waits for, and minds none that is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from infer.app import stopping
from infer.app.cli import root
from infer.app.failures import CommandError, ExitCode
from infer.app.standing import Standing
from infer.tui.snapshot import ModelSnapshot, Overview, Server

if TYPE_CHECKING:
    from infer.app.registry import Record, Registry


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
            rows = (ModelSnapshot("a", "1", "READY", in_flight=in_flight),)
            answers["default"] = Standing(record, Overview(Server(), rows))
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
