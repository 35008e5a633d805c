"""A terminal for tests: tmux types the keys and reads the screen."""

from __future__ import annotations

import re
import shlex
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LIMIT_S = 30
PROMPT = "ready>"


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

    def close_previous_window(self) -> None:
        """Close the window before, with what runs in it."""
        self._tmux("kill-window", "-t", "{previous}")

    def resize(self, columns: int, rows: int) -> None:
        """Make every window so large, in characters."""
        self._tmux("set-option", "-g", "default-size", f"{columns}x{rows}")
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

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

        self.eventually(f"a line like {pattern}", matches)
        return found[0]

    def eventually(self, what: str, true: Callable[[], bool]) -> None:
        """Wait until something that another process does has happened."""
        for _ in range(LIMIT_S * 25):
            if true():
                return
            threading.Event().wait(0.04)
        pytest.fail(f"not within {LIMIT_S} s: {what}; the screen:\n{self.screen()}")

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
