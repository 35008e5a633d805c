"""`infer ps`: what serves, in seven columns."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from infer.app.cli import ps
from infer.app.cli.output import Format
from infer.tui.failure import ClientError

if TYPE_CHECKING:
    from tests.unit.app.cli.conftest import Door


@pytest.fixture(autouse=True)
def served(door: Door) -> Door:
    door.overview = {
        "models": [
            {
                "name": "a",
                "version": "1",
                "state": "READY",
                "instances": [
                    {"name": "a_0_0", "state": "busy", "memory_bytes": 30 << 20},
                    {"name": "a_0_1", "state": "idle", "memory_bytes": 10 << 20},
                ],
                "success": 10,
                "failures": {"REJECTED": 2},
                "in_flight": 3,
            },
            {"name": "b", "version": "2", "state": "READY", "instances": [{"name": "b_0_0", "state": "idle"}]},
            {"name": "c", "version": "1", "state": "UNAVAILABLE", "reason": "unloaded"},
            {"name": "d"},
        ]
    }
    return door


def test_what_serves_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    ps.ps()
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.startswith("MODEL ")
    assert len(ps.HEAD) <= 7
    assert first.split() == ["a", "1", "READY", "2", "(1", "busy)", "40.0", "MiB", "12", "3"]
    assert second.split() == ["b", "2", "READY", "1", "0"]


def test_what_is_not_loaded_is_shown_where_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    ps.ps(every=True)
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == ["a", "b", "c", "d"]


def test_programs_get_everything_or_names(capsys: pytest.CaptureFixture[str]) -> None:
    ps.ps(output=Format.NAME)
    assert capsys.readouterr().out == "a\nb\n"
    ps.ps(output=Format.JSON)
    first, _ = json.loads(capsys.readouterr().out)
    assert (first["name"], first["in_flight"], len(first["instances"])) == ("a", 3, 2)


def test_a_server_without_an_overview_is_a_failure(door: Door) -> None:
    door.overview = None
    with pytest.raises(ClientError):
        ps.ps()
