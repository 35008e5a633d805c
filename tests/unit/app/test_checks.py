"""The doctor's verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from infer.app import checks
from infer.app.checks import Result, Verdict
from infer.app.failures import CommandError
from infer.backends.catalog import BackendInfo

if TYPE_CHECKING:
    from collections.abc import Iterable

PASS, WARN, FAIL = Verdict.PASS, Verdict.WARN, Verdict.FAIL


def verdicts(results: Iterable[Result]) -> list[Verdict]:
    return [result.verdict for result in results]


@pytest.mark.parametrize(("version", "verdict"), [((3, 10, 9), FAIL), ((3, 11, 0), PASS), ((3, 14, 1), PASS)])
def test_python_must_be_new_enough(version: tuple[int, ...], verdict: Verdict) -> None:
    found = checks.python(version, "/usr/bin/python")
    assert (found.verdict, bool(found.fix)) == (verdict, verdict is FAIL)
    assert "/usr/bin/python" in found.text


@pytest.mark.parametrize(
    ("holder", "verdict", "phrase"),
    [
        (None, PASS, "free for gRPC"),
        ("infer 'default' (process 1)", PASS, "served by infer 'default'"),
        ("process 7 (nginx)", WARN, "taken by process 7 (nginx)"),
    ],
)
def test_a_port_is_free_ours_or_anothers(holder: str | None, verdict: Verdict, phrase: str) -> None:
    found = checks.port(8001, "gRPC", holder)
    assert (found.verdict, found.name) == (verdict, "port 8001")
    assert phrase in found.text
    assert ("--grpc-port" in found.fix) is (verdict is WARN)


@pytest.mark.parametrize(
    ("soft", "hard", "verdict", "fix"),
    [
        (-1, -1, PASS, ""),
        (8192, 8192, PASS, ""),
        (1024, 1 << 20, WARN, "ulimit -n 8192"),
        (1024, 4096, WARN, "ulimit -n 4096"),
        (1024, -1, WARN, "ulimit -n 8192"),
        (256, 256, FAIL, ""),
    ],
)
def test_few_open_files_are_told_of_with_what_is_allowed(soft: int, hard: int, verdict: Verdict, fix: str) -> None:
    found = checks.open_files(soft, hard)
    assert (found.verdict, found.fix) == (verdict, fix)


def test_shared_memory_is_there_and_large_enough_or_not() -> None:
    assert verdicts(checks.shared_memory(1 << 30, memfd=True)) == [PASS, PASS]
    assert verdicts(checks.shared_memory(1 << 20, memfd=True)) == [WARN, PASS]
    assert verdicts(checks.shared_memory(None, memfd=False)) == [WARN, FAIL]


def test_limits_of_the_control_group_are_told() -> None:
    none = checks.limits(None, None, 4)
    assert verdicts(none) == [PASS, PASS]
    assert none[1].text == "none, 4 cores"
    assert verdicts(checks.limits(4 << 30, 2.0, 4)) == [PASS, PASS]
    assert verdicts(checks.limits(100 << 20, 0.5, 4)) == [WARN, WARN]


def test_two_packages_of_one_module_are_a_failure_that_can_be_mended() -> None:
    assert checks.runtimes(["onnxruntime", "numpy"]) == []
    assert checks.runtimes(["onnxruntime-gpu"]) == []
    (found,) = checks.runtimes(["onnxruntime", "onnxruntime-gpu"])
    assert found.verdict is FAIL
    assert "pip uninstall onnxruntime" in found.fix


def test_a_backend_that_is_missing_is_a_warning_with_its_command() -> None:
    here, gone, odd = checks.backends(
        [
            BackendInfo("python", available=True),
            BackendInfo("pytorch", available=False, reason="needs torch; run `pip install 'x[torch]'`"),
            BackendInfo("odd", available=False, reason="nobody knows"),
        ]
    )
    assert here.verdict is PASS
    assert (gone.verdict, gone.fix) == (WARN, "pip install 'x[torch]'")
    assert (odd.verdict, odd.fix) == (WARN, "")


def test_no_gpu_is_no_fault() -> None:
    assert checks.gpu([], "no driver") == Result("gpu", PASS, "none: no driver")
    assert checks.gpu(["A", "B"], "").text == "A, B"


@pytest.mark.parametrize(
    ("there", "writable", "verdict", "phrase"),
    [
        (True, True, PASS, "/x"),
        (False, True, PASS, "made when it is needed"),
        (True, False, FAIL, "cannot be written"),
        (False, False, FAIL, "cannot be made"),
    ],
)
def test_folders_must_be_writable_or_possible(there: bool, writable: bool, verdict: Verdict, phrase: str) -> None:
    found = checks.folder("run folder", "/x", there=there, writable=writable)
    assert (found.verdict, bool(found.fix)) == (verdict, verdict is FAIL)
    assert phrase in found.text


@pytest.mark.parametrize(
    ("mode", "verdict", "fix"), [(0o600, PASS, ""), (0o644, WARN, "chmod 600 /k"), (None, WARN, "write the server's")]
)
def test_a_key_file_is_its_owners_alone(mode: int | None, verdict: Verdict, fix: str) -> None:
    found = checks.key_file("/k", mode)
    assert found.verdict is verdict
    assert found.fix.startswith(fix)


@pytest.mark.parametrize(("encoding", "verdict"), [("utf-8", PASS), ("UTF8", PASS), ("ascii", WARN), ("latin-1", WARN)])
def test_the_locale_should_be_utf_8(encoding: str, verdict: Verdict) -> None:
    assert checks.locale(encoding).verdict is verdict


@pytest.mark.parametrize(
    ("environment", "is_terminal", "verdict"),
    [
        ({}, False, PASS),
        ({}, True, WARN),
        ({"TERM": "dumb"}, True, WARN),
        ({"TERM": "xterm"}, True, WARN),
        ({"TERM": "xterm-256color"}, True, PASS),
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, True, PASS),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True, PASS),
    ],
)
def test_a_terminal_should_have_colours_unless_none_are_wanted(
    environment: dict[str, str], is_terminal: bool, verdict: Verdict
) -> None:
    assert checks.terminal(environment, is_terminal=is_terminal).verdict is verdict


def test_a_clock_behind_the_installation_is_wrong() -> None:
    assert checks.clock(1000.0, 2000.0).verdict is WARN
    assert checks.clock(2000.0, 2030.0).verdict is PASS


def test_the_servers_that_run_are_told() -> None:
    assert checks.servers([]).text == "none runs"
    assert checks.servers(["a", "b"]).text == "a, b"


def test_a_check_that_fails_is_a_result_of_its_own() -> None:
    def wrong() -> list[Result]:
        raise CommandError("the file is wrong", "line 3", "mend it")

    def unforeseen() -> list[Result]:
        raise OSError("gone")

    assert checks.made("x", wrong) == [Result("x", FAIL, "the file is wrong: line 3", "mend it")]
    (found,) = checks.made("x", unforeseen)
    assert (found.verdict, found.text) == (WARN, "could not be looked at: OSError: gone")
