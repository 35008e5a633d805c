"""`infer doctor` shows findings, and fails where one does."""

from __future__ import annotations

import json

import pytest

from infer.app import facts
from infer.app.checks import Result, Verdict
from infer.app.cli import doctor
from infer.app.cli.output import Format
from infer.app.failures import CommandError, ExitCode

FINE = Result("python", Verdict.PASS, "3.11")
ODD = Result("locale", Verdict.WARN, "ascii", "export LC_ALL=C.UTF-8")
BAD = Result("memfd", Verdict.FAIL, "none", "another kernel")


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[Result]:
    results = [FINE, ODD]
    monkeypatch.setattr(facts, "examine", lambda: results)
    return results


@pytest.mark.usefixtures("found")
def test_findings_are_lines_with_verdicts_and_fixes(capsys: pytest.CaptureFixture[str]) -> None:
    doctor.doctor()
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        ["CHECK", "FOUND"],
        ["python", "PASS", "3.11"],
        ["locale", "WARN", "ascii"],
        ["fix:", "export", "LC_ALL=C.UTF-8"],
    ]


@pytest.mark.usefixtures("found")
def test_what_passes_can_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    doctor.doctor(problems=True, output=Format.NAME)
    assert capsys.readouterr().out == "locale\n"


def test_a_failure_is_eight_after_the_findings(found: list[Result], capsys: pytest.CaptureFixture[str]) -> None:
    found.append(BAD)
    with pytest.raises(CommandError) as caught:
        doctor.doctor(output=Format.JSON)
    assert caught.value.code is ExitCode.CHECK_FAILED
    assert caught.value.what == "1 of 3 checks failed: memfd"
    documents = json.loads(capsys.readouterr().out)
    assert documents[2] == {"check": "memfd", "verdict": "FAIL", "found": "none", "fix": "another kernel"}
