"""`infer env`: the environments that were made for models are shown, and those go that nobody uses."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING

import pytest
import typer

from infer.app.cli import env
from infer.app.cli.output import Format
from infer.app.failures import CommandError
from infer.backends.python.environments import kept

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def two(home: Path) -> list[Path]:
    """One environment that was used today, and one that was not for 100 days."""
    made = [home / ".cache" / "infer" / "environments" / name for name in ("fresh", "stale")]
    for folder, days in zip(made, (0, 100), strict=True):
        (folder / "bin").mkdir(parents=True)
        (folder / "bin" / "python").touch()
        mark = folder / kept.MARK
        mark.write_text(json.dumps({"requirements": f"/models/{folder.name}/requirements.txt", "version": "3.12.1 x"}))
        used = time.time() - days * env.DAY_S - 60
        os.utime(mark, (used, used))
    return made


@pytest.mark.usefixtures("two")
def test_the_list_shows_what_they_were_made_from_and_when_they_were_used(capsys: pytest.CaptureFixture[str]) -> None:
    env.list_environments()
    head, fresh, stale = (" ".join(line.split()) for line in capsys.readouterr().out.splitlines())
    assert head == "NAME MADE FROM PYTHON SIZE LAST USED IN USE"
    assert fresh.startswith("fresh /models/fresh/requirements.txt 3.12.1 ")
    assert stale.endswith(" 100d 0h ago no")
    env.list_environments(Format.NAME)
    assert capsys.readouterr().out == "fresh\nstale\n"
    env.list_environments(Format.JSON)
    _, document = json.loads(capsys.readouterr().out)
    assert (document["name"], document["in_use"]) == ("stale", False)
    assert document["folder"].endswith("/infer/environments/stale")


def test_an_empty_list_says_where_it_looked(capsys: pytest.CaptureFixture[str]) -> None:
    env.list_environments()
    assert "none is kept in " in capsys.readouterr().err
    env.prune()
    assert capsys.readouterr().err == "nothing to remove\n"


def test_what_no_model_has_used_for_long_is_removed(two: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    fresh, stale = two
    env.prune(dry_run=True)
    said = capsys.readouterr()
    assert said.out == "stale\n"
    assert said.err.startswith("would remove 1, ")
    assert stale.exists()
    env.prune()
    assert capsys.readouterr().out == "stale\n"
    assert (fresh.exists(), stale.exists()) == (True, False)


def test_what_a_server_uses_stays_however_old_it_is(two: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    share = kept.hold(two[1])
    assert share is not None
    os.utime(two[1] / kept.MARK, (1, 1))
    env.prune(unused_for=0)
    assert capsys.readouterr().out == "fresh\n"
    os.close(share)
    env.prune(unused_for=0)
    assert capsys.readouterr().out == "stale\n"


def test_one_that_comes_into_use_meanwhile_stays_and_is_named(
    two: list[Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "remove", lambda *_: False)
    env.prune()
    assert f"{two[1]} stays" in capsys.readouterr().err


@pytest.mark.parametrize("answer", [True, False])
def test_at_a_terminal_it_asks(two: list[Path], monkeypatch: pytest.MonkeyPatch, answer: bool) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    asked: list[str] = []
    monkeypatch.setattr(typer, "confirm", lambda text, **_: asked.append(text) or answer)
    if answer:
        env.prune()
    else:
        with pytest.raises(CommandError, match="nothing was removed"):
            env.prune()
    assert asked[0].startswith("Remove 1 with ")
    assert two[1].exists() is not answer
    env.prune(yes=True)
    assert len(asked) == 1
