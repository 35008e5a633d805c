"""Which server a command asks, with which key, and who may not change anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from infer.app.cli.output import Format
from infer.app.cli.target import open_target
from infer.app.failures import CommandError, ExitCode

if TYPE_CHECKING:
    from pathlib import Path

    from infer.app.cli.target import Target


@pytest.fixture
def config(home: Path) -> Path:
    (home / ".config" / "infer").mkdir(parents=True)
    (home / "key").write_text("of the file\n")
    return home / ".config" / "infer" / "config.toml"


def key(target: Target) -> str:
    return target.client.key


def test_nothing_said_is_the_usual_port() -> None:
    target = open_target(None, None, None)
    assert (target.client.url, target.where, key(target)) == ("http://127.0.0.1:8002", "http://127.0.0.1:8002", "")
    assert (target.client.timeout, target.output) == (30.0, Format.TABLE)


def test_a_commands_own_defaults_are_weaker_than_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    assert open_target(None, None, None, wait_s=600.0, form=Format.JSON).output is Format.JSON
    monkeypatch.setenv("INFER_TIMEOUT", "5")
    monkeypatch.setenv("INFER_OUTPUT", "name")
    target = open_target(None, None, None, wait_s=600.0, form=Format.JSON)
    assert (target.wait_s, target.output) == (5.0, Format.NAME)
    target = open_target(None, None, 7.0, Format.TABLE, wait_s=600.0)
    assert (target.wait_s, target.output) == (7.0, Format.TABLE)


def test_a_context_brings_its_address_and_its_key(config: Path, home: Path) -> None:
    config.write_text(f'[contexts.lab]\nurl = "http://lab:8002"\nkey_file = "{home / "key"}"\n')
    target = open_target(None, "lab", None)
    assert (target.client.url, key(target), target.context) == ("http://lab:8002", "of the file", "lab")
    assert target.where == "http://lab:8002 (context 'lab')"


def test_the_key_of_a_context_goes_to_no_other_address(config: Path, home: Path) -> None:
    config.write_text(f'context = "lab"\n[contexts.lab]\nurl = "http://lab:8002"\nkey_file = "{home / "key"}"\n')
    assert key(open_target("http://elsewhere:8002", None, None)) == ""
    (home / "work" / "infer.toml").write_text('url = "http://elsewhere:8002"\n')
    assert key(open_target(None, None, None)) == ""


def test_the_key_of_the_environment_goes_where_flags_and_the_user_say(
    monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    monkeypatch.setenv("INFER_CONTROL_KEY", "of the environment")
    assert key(open_target("http://lab:8002", None, None)) == "of the environment"
    project = home / "work" / "infer.toml"
    project.write_text('url = "http://evil:8002"\n')
    assert key(open_target(None, None, None)) == "", "a project may be anybody's"
    project.write_text('url = "http://127.0.0.1:8002"\n')
    assert key(open_target(None, None, None)) == "of the environment"


def test_the_environment_names_a_file_with_the_key(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    (home / "key").write_text("k\n")
    monkeypatch.setenv("INFER_KEY_FILE", "~/key")
    assert key(open_target("http://lab:8002", None, None)) == "k"


def test_a_key_file_that_cannot_be_read_is_named_and_by_whom(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setenv("INFER_KEY_FILE", str(home / "nowhere"))
    with pytest.raises(CommandError) as caught:
        open_target("http://lab:8002", None, None)
    assert "nowhere" in caught.value.what
    assert "INFER_KEY_FILE names it" in caught.value.why
    (home / "binary").write_bytes(b"\xff")
    monkeypatch.setenv("INFER_KEY_FILE", str(home / "binary"))
    with pytest.raises(CommandError, match="cannot be read"):
        open_target("http://lab:8002", None, None)


def test_read_only_says_who_set_it(config: Path) -> None:
    config.write_text('[contexts.prod]\nurl = "http://prod"\nread_only = true\n')
    open_target(None, None, None).check_changes("load")
    with pytest.raises(CommandError) as caught:
        open_target(None, "prod", None).check_changes("load")
    assert caught.value.code is ExitCode.REFUSED
    assert "context 'prod'" in caught.value.why
