"""`infer top` without a terminal prints one page: of the demo, of a server, of a Triton, or a sentence."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from infer.app.cli import top as module
from infer.app.cli.root import app
from infer.tui.demo import DemoServer

RUNNER = CliRunner()


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No file, variable or server of the user's takes part."""
    for name in [name for name in os.environ if name.startswith("INFER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("INFER_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.chdir(tmp_path)


def top(*words: str) -> Any:
    return RUNNER.invoke(app, ["top", "--interval", "0.05", *words])


def test_without_a_terminal_one_page_is_printed() -> None:
    result = top("--demo")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("server   demo")
    assert "whisper_small" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_the_page_takes_the_width_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    assert "BACKEND" in top("--demo", "--once").stdout


def test_json_has_a_schema_and_nothing_else_is_on_the_output() -> None:
    document = json.loads(top("--demo", "-o", "json").stdout)
    assert document["schema"] == 1
    assert document["interval_s"] >= 0.05
    assert {row["name"] for row in document["models"]} >= {"resnet50", "translate_de"}


def test_names_are_for_loops() -> None:
    names = top("--demo", "-o", "name").stdout.split()
    assert names == sorted(set(names))
    assert "bert_base" in names


def test_a_locale_without_unicode_gets_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFER_ASCII", "1")
    assert top("--demo").stdout.isascii()


def test_nobody_there_is_told_with_the_way_out() -> None:
    result = top("--url", "http://127.0.0.1:1")
    assert result.exit_code != 0
    assert "infer up" in str(result.exception)


@pytest.mark.parametrize("interval", ["0", "-1", "x"])
def test_an_interval_that_is_none_is_a_usage_error(interval: str) -> None:
    assert RUNNER.invoke(app, ["top", "--demo", "--interval", interval]).exit_code == 2


@pytest.mark.parametrize(
    ("words", "environment", "read_only"),
    [((), {}, False), (("--read-only",), {}, True), ((), {"INFER_READ_ONLY": "1"}, True)],
)
def test_on_a_terminal_the_dashboard_opens(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], environment: dict[str, str], read_only: bool
) -> None:
    opened: list[dict[str, Any]] = []

    def run_dashboard(source: Any, **options: Any) -> str:
        opened.append({"source": type(source), **options})
        return "detach"

    monkeypatch.setattr("infer.tui.app.run_dashboard", run_dashboard)
    monkeypatch.setattr(module, "_on_a_terminal", lambda: True)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert top("--demo", *words).exit_code == 0
    assert opened == [{"source": DemoServer, "owned": False, "read_only": read_only, "interval_s": 0.05}]


@pytest.mark.parametrize("words", [("--once",), ("-o", "table"), ("-o", "json")])
def test_on_a_terminal_a_page_must_be_asked_for(monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    monkeypatch.setattr(module, "_on_a_terminal", lambda: True)
    assert "resnet50" in top("--demo", *words).stdout


def test_a_page_needs_no_textual() -> None:
    script = (
        "import sys; sys.argv = ['infer', 'top', '--demo', '--interval', '0.05']\n"
        "from infer.app.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print('textual' in sys.modules, 'numpy' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr.split() == ["False", "False"]


def test_only_both_ends_together_make_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    parent, child = pty.openpty()
    try:
        with os.fdopen(child) as terminal, Path(os.devnull).open(encoding="utf-8") as nothing:
            for first, second, expected in ((terminal, terminal, True), (terminal, nothing, False)):
                monkeypatch.setattr("sys.stdin", first)
                monkeypatch.setattr("sys.stdout", second)
                assert module._on_a_terminal() is expected
    finally:
        os.close(parent)
