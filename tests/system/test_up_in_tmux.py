"""`infer up --foreground` in a terminal, as a person runs it: tmux types the keys and reads the screen."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed here")

LIMIT_S = 30
INFER_UP = "infer up --foreground --http-address=127.0.0.1 --http-port=0 --grpc-port=0 --metrics-port=0"
PROMPT = "ready>"


def eventually(what: str, true: Callable[[], bool], screen: Callable[[], str]) -> None:
    """Wait until something that another process does has happened."""
    for _ in range(LIMIT_S * 25):
        if true():
            return
        threading.Event().wait(0.04)
    pytest.fail(f"not within {LIMIT_S} s: {what}; the screen:\n{screen()}")


class Terminal:
    """A tmux server of its own, with one window after another, each a plain shell."""

    def __init__(self, folder: Path, commands: Path) -> None:
        self._socket = str(folder / "s")
        self._folder = folder
        self._commands = commands
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", "230", "-y", "60", self._shell())
        self._tmux("set-option", "-g", "history-limit", "5000")
        self.server = psutil.Process(int(self._tmux("display-message", "-p", "#{pid}")))

    def _shell(self) -> str:
        # tmux reads one string; the `infer` under test comes first on the path.
        path = f"{self._commands}:/usr/local/bin:/usr/bin:/bin"
        own = [f"INFER_RUN_DIR={self._folder / 'run'}", f"INFER_STATE_DIR={self._folder / 'state'}"]
        return shlex.join(["env", *own, f"PATH={path}", f"PS1={PROMPT} ", "bash", "--norc", "--noprofile"])

    def _tmux(self, *words: str) -> str:
        command = ["tmux", "-S", self._socket, *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=True).stdout.strip()

    def screen(self) -> str:
        """What the window in front has shown so far, broken lines joined."""
        return self._tmux("capture-pane", "-p", "-J", "-S", "-")

    def new_window(self) -> None:
        """Open another shell, in front."""
        self._tmux("new-window", self._shell())

    def previous_window(self) -> None:
        """Back to the window before."""
        self._tmux("previous-window")

    def type(self, text: str) -> None:
        """Type a line and Return."""
        self._tmux("send-keys", "-l", text)
        self._tmux("send-keys", "Enter")

    def press(self, key: str) -> None:
        """Press a key, in tmux's spelling (C-c)."""
        self._tmux("send-keys", key)

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Wait until a line of the screen matches."""
        found: list[re.Match[str]] = []

        def matches() -> bool:
            found.extend(re.finditer(pattern, self.screen(), re.MULTILINE))
            return bool(found)

        eventually(f"a line like {pattern}", matches, self.screen)
        return found[0]

    def below(self) -> list[psutil.Process]:
        """What runs in its shells."""
        if not self.server.is_running():
            return []
        return [child for shell in self.server.children() for child in shell.children(recursive=True)]

    def close(self) -> None:
        """Close every window, as closing a terminal does."""
        if self.server.is_running():
            self._tmux("kill-server")
        psutil.wait_procs([self.server], timeout=LIMIT_S)


@pytest.fixture
def terminal(root: Path) -> Iterator[Terminal]:
    # Not tmp_path: the path of a socket may have 107 characters.
    with tempfile.TemporaryDirectory() as folder:
        terminal = Terminal(Path(folder), root / ".venv" / "bin")
        yield terminal
        family = terminal.below()
        terminal.close()
        assert not psutil.wait_procs(family, timeout=LIMIT_S)[1]


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
    eventually("it loads", (tmp_path / "slow" / "initializing").exists, terminal.screen)
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
