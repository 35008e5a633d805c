"""`infer config view`: every setting, and who set it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from infer.app.cli import config
from infer.app.cli.output import Format
from infer.app.client_settings import SETTINGS

if TYPE_CHECKING:
    import pytest


def test_every_setting_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    config.view()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["SETTING", "VALUE"]
    assert [line.split()[0] for line in lines[1:]] == [setting.name for setting in SETTINGS]


def test_origins_are_shown_where_asked_for(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFER_TIMEOUT", "5")
    config.view(origin=True)
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["SETTING", "VALUE", "ORIGIN"]
    assert ["timeout", "5", "INFER_TIMEOUT"] in rows
    assert ["interval", "1", "default"] in rows


def test_a_secret_is_masked_in_every_form(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFER_CONTROL_KEY", "s3cret")
    for form in Format:
        config.view(origin=True, output=form)
    captured = capsys.readouterr()
    assert "s3cret" not in captured.out + captured.err
    assert "********" in captured.out


def test_json_has_value_origin_and_variable(capsys: pytest.CaptureFixture[str]) -> None:
    config.view(output=Format.JSON)
    document = json.loads(capsys.readouterr().out)
    assert document["interval"]["value"] == 1.0
    assert document["url"] | {"help": ""} == {"value": None, "origin": "default", "env": "INFER_URL", "help": ""}


def test_the_form_itself_is_a_setting(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFER_OUTPUT", "name")
    config.view()
    assert capsys.readouterr().out.splitlines() == [setting.name for setting in SETTINGS]
