"""`infer ctx`: servers get names, and one of them is in use."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from infer.app.cli import ctx
from infer.app.cli.output import Format
from infer.app.failures import CommandError, ExitCode

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.app.cli.conftest import Door


@pytest.fixture
def two(capsys: pytest.CaptureFixture[str]) -> None:
    """Two contexts, the first in use."""
    ctx.add("lab", url="http://lab:8002", use_it=True)
    ctx.add("prod", url="http://prod:8002", read_only=True, colour="red")
    capsys.readouterr()


def failure(command: object, *words: str, **options: object) -> CommandError:
    with pytest.raises(CommandError) as caught:
        command(*words, **options)  # type: ignore[operator]
    return caught.value


@pytest.mark.usefixtures("two")
def test_the_list_marks_the_one_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    ctx.list_contexts()
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows == [
        ["IN", "USE", "NAME", "URL", "KIND", "READ-ONLY"],
        ["*", "lab", "http://lab:8002", "own", "no"],
        ["prod", "http://prod:8002", "own", "yes"],
    ]
    ctx.list_contexts(Format.NAME)
    assert capsys.readouterr().out == "lab\nprod\n"
    ctx.list_contexts(Format.JSON)
    first, second = json.loads(capsys.readouterr().out)
    assert first == {"name": "lab", "in_use": True, "kind": "own", "read_only": False, "url": "http://lab:8002"}
    assert (second["in_use"], second["read_only"], second["colour"]) == (False, True, "red")


def test_an_empty_list_says_how_to_add_one(capsys: pytest.CaptureFixture[str]) -> None:
    ctx.list_contexts()
    assert "infer ctx add" in capsys.readouterr().err


@pytest.mark.usefixtures("two")
def test_the_one_in_use_is_what_commands_ask(door: Door, capsys: pytest.CaptureFixture[str]) -> None:
    from infer.app.cli import model

    model.list_models()
    model.list_models(context="prod")
    ctx.use("prod")
    model.list_models()
    assert door.asked == ["http://lab:8002", "http://prod:8002", "http://prod:8002"]


@pytest.mark.usefixtures("two")
def test_a_stronger_choice_is_told_of(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("INFER_CONTEXT", "lab")
    ctx.use("prod")
    captured = capsys.readouterr()
    assert captured.out == "prod\n"
    assert captured.err == "note: 'lab' stays in use here, because INFER_CONTEXT says so\n"


@pytest.mark.usefixtures("two")
def test_a_project_chooses_too(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    (home / "work" / "infer.toml").write_text('context = "prod"\n')
    ctx.show(output=Format.NAME)
    assert capsys.readouterr().out == "prod\n"


@pytest.mark.usefixtures("two")
def test_one_context_is_shown_field_by_field(capsys: pytest.CaptureFixture[str]) -> None:
    ctx.show("prod")
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["FIELD", "VALUE"],
        ["name", "prod"],
        ["url", "http://prod:8002"],
        ["read_only", "true"],
        ["colour", "red"],
    ]
    ctx.show(output=Format.JSON)
    assert json.loads(capsys.readouterr().out)["name"] == "lab"


def test_without_a_context_there_is_none_to_show() -> None:
    assert failure(ctx.show).code is ExitCode.NOT_FOUND


@pytest.mark.usefixtures("two")
def test_the_one_in_use_can_be_removed_and_then_none_is(capsys: pytest.CaptureFixture[str]) -> None:
    ctx.remove("lab")
    captured = capsys.readouterr()
    assert captured.out == "lab\n"
    assert "none is now" in captured.err
    ctx.remove("prod")
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("two")
def test_at_a_terminal_the_one_in_use_is_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("typer.confirm", lambda _question, err: False)
    assert failure(ctx.remove, "lab").what == "nothing was removed"
    ctx.remove("lab", yes=True)
    ctx.remove("prod")


@pytest.mark.usefixtures("two")
@pytest.mark.parametrize("command", [ctx.use, ctx.remove, ctx.show])
def test_an_unknown_one_is_not_found_with_the_nearest(command: object) -> None:
    caught = failure(command, "prd")
    assert caught.code is ExitCode.NOT_FOUND
    assert "did you mean 'prod'?" in caught.fix


@pytest.mark.parametrize(
    ("options", "phrase"),
    [
        ({}, "neither --url nor --http-url"),
        ({"url": "x", "kind": "tritn"}, "--kind"),
        ({"url": "x", "colour": "pink"}, "--colour"),
    ],
)
def test_a_context_that_leads_nowhere_or_has_a_wrong_field_is_a_usage_error(
    options: dict[str, str], phrase: str
) -> None:
    caught = failure(ctx.add, "x", **options)
    assert caught.code is ExitCode.USAGE
    assert phrase in str(caught)


def test_a_key_file_is_absolute_and_a_missing_one_is_told_of(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ctx.add("a", url="http://a", key_file="key")
    assert "there is no file key yet" in capsys.readouterr().err
    ctx.show("a")
    assert str(home / "work" / "key") in capsys.readouterr().out
    (home / "key").write_text("k")
    ctx.add("b", url="http://b", key_file="~/key")
    assert capsys.readouterr().err == ""


def test_a_context_that_is_gone_can_be_mended(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ctx.add("lab", url="http://lab")
    (home / ".config" / "infer" / "config.toml").write_text('context = "gone"\n[contexts.lab]\nurl = "http://lab"\n')
    ctx.list_contexts(Format.NAME)
    ctx.use("lab")
    ctx.show(output=Format.NAME)
    assert capsys.readouterr().out.split() == ["lab"] * 4
