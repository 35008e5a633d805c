"""`infer version`: of the command and of the server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from infer import __version__
from infer.app.cli import version
from infer.app.cli.output import Format

if TYPE_CHECKING:
    import pytest

    from tests.unit.app.cli.conftest import Door


def test_without_a_server_it_is_the_commands_alone(door: Door, capsys: pytest.CaptureFixture[str]) -> None:
    version.version()
    captured = capsys.readouterr()
    assert captured.out.startswith(f"infer {__version__} (Python ")
    assert captured.err == ""


def test_the_name_form_asks_nobody(door: Door, capsys: pytest.CaptureFixture[str]) -> None:
    version.version(output=Format.NAME)
    assert capsys.readouterr().out == f"{__version__}\n"
    assert door.asked == []


def test_a_server_of_another_version_is_a_warning(door: Door, capsys: pytest.CaptureFixture[str]) -> None:
    door.documents = {"/v2": {"name": "triton", "version": "0.0.1", "extensions": ["statistics"]}}
    version.version()
    captured = capsys.readouterr()
    assert captured.out.splitlines()[1] == "server 0.0.1 at http://127.0.0.1:8002"
    assert f"warning: the server is 0.0.1 and this command {__version__}" in captured.err
    door.documents["/v2"]["version"] = __version__
    version.version()
    assert capsys.readouterr().err == ""


def test_json_is_what_a_report_of_a_fault_needs(door: Door, capsys: pytest.CaptureFixture[str]) -> None:
    version.version(output=Format.JSON)
    document = json.loads(capsys.readouterr().out)
    assert set(document) == {
        "infer", "python", "platform", "server", "server_reason", "backends", "gpu", "gpu_reason"
    }  # fmt: skip
    assert document["server"] is None
    assert document["server_reason"]
    assert document["backends"]["identity"] == "available"
    assert document["gpu"] or document["gpu_reason"]
