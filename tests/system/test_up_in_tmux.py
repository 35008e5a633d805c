"""`infer up --foreground` in a terminal, as a person runs it: tmux types the keys and reads the screen."""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING

import psutil
import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.system.conftest import Terminal

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed here"),
]

LIMIT_S = 30
INFER_UP = "infer up --foreground --http-address=127.0.0.1 --http-port=0 --grpc-port=0 --metrics-port=0"
PROMPT = "ready>"


def test_up_shows_models_doors_and_a_command_that_works_when_it_is_pasted_and_ctrl_c_ends_it_with_zero(
    terminal: Terminal,
) -> None:
    terminal.type(INFER_UP)
    command = terminal.wait_for(r"^curl .*$")[0]
    screen = terminal.screen()
    assert re.search(r"^MODEL +VERSION +STATE", screen, re.MULTILINE)
    for name in ("digits", "identity", "simple"):
        assert re.search(rf"^{name} +1 +READY", screen, re.MULTILINE), screen
    assert re.search(r"^inference +http://127\.0\.0\.1:\d+/", screen, re.MULTILINE)
    assert re.search(r"^metrics +http://127\.0\.0\.1:\d+/", screen, re.MULTILINE)

    terminal.new_window()
    terminal.type(f"clear; {command}; echo; echo status $?")
    terminal.wait_for(r"^status 0$")
    answer = json.loads(terminal.wait_for(r'^\{"model_name.*\}$')[0])
    assert answer["model_name"] == "simple"
    assert [output["name"] for output in answer["outputs"]] == ["OUTPUT0", "OUTPUT1"]

    terminal.previous_window()
    family = terminal.below()
    assert len(family) > 2, "server, zygote and worker"
    terminal.press("C-c")
    terminal.wait_for(r"SIGINT: finishing requests under way.*$")
    terminal.wait_for(rf"stopped\"?\n+{PROMPT}")
    terminal.type("echo status $?")
    terminal.wait_for(r"^status 0$")
    assert "Traceback" not in terminal.screen()
    assert not psutil.wait_procs(family, timeout=LIMIT_S)[1]


def test_ctrl_c_while_it_starts_ends_it_with_zero_and_without_a_trace(terminal: Terminal, tmp_path: Path) -> None:
    version = tmp_path / "slow" / "1"
    version.mkdir(parents=True)
    (version / "model.py").write_text(
        "import pathlib, threading\n"
        "class TritonPythonModel:\n"
        "    def initialize(self, args):\n"
        "        (pathlib.Path(args['model_repository']) / 'initializing').touch()\n"
        "        threading.Event().wait()\n"
        "    def execute(self, requests):\n"
        "        return []\n"
    )
    terminal.type(f"{INFER_UP} --model-repository={tmp_path}")
    terminal.eventually("it loads", (tmp_path / "slow" / "initializing").exists)
    family = terminal.below()
    terminal.press("C-c")
    terminal.wait_for(rf"while starting: stopped\"?\n+{PROMPT}")
    terminal.type("echo status $?")
    terminal.wait_for(r"^status 0$")
    assert "Traceback" not in terminal.screen()
    assert not psutil.wait_procs(family, timeout=LIMIT_S)[1]


def test_a_terminal_that_is_closed_takes_the_server_and_its_workers_along(terminal: Terminal) -> None:
    terminal.type(INFER_UP)
    terminal.wait_for(r"^curl ")
    family = terminal.below()
    assert len(family) > 2, "server, zygote and worker"
    terminal.close()
    assert not psutil.wait_procs(family, timeout=LIMIT_S)[1]


def test_a_mistyped_flag_shows_the_reason_last_where_a_terminal_shows_it(terminal: Terminal) -> None:
    terminal.type(f"{INFER_UP} --htp-port=1; echo status $?")
    terminal.wait_for(r"^status 1$")
    lines = terminal.screen().splitlines()
    assert "did you mean --http-port?" in lines[lines.index("status 1") - 1]
