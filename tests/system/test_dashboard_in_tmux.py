"""The dashboard in a terminal, as a person uses it: tmux types the keys and reads the screen."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.system.conftest import Terminal

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed here"),
]

INFER_UP = "infer up --http-address=127.0.0.1 --http-port=0 --grpc-port=0 --metrics-port=0"
ALL_READY = r"● ready +10/10 ready"


@pytest.fixture
def small(terminal: Terminal) -> Iterator[Terminal]:
    """A terminal of the smallest size that the dashboard takes; no server is left running in its run folder."""
    terminal.resize(80, 24)
    yield terminal
    terminal.new_window()
    terminal.type("clear; infer down --force; echo gone $?")
    terminal.wait_for(r"^gone 0$")


def status(terminal: Terminal, command: str) -> int:
    """The exit code of a command that is typed at the prompt."""
    terminal.type(f"clear; {command}; echo code=$?")
    return int(terminal.wait_for(r"^code=(\d+)$")[1])


def test_models_are_seen_unloaded_loaded_and_called_the_server_stays_is_attached_to_again_and_goes_down(
    small: Terminal,
) -> None:
    small.type(INFER_UP)
    small.wait_for(ALL_READY)
    small.wait_for(r"simple +● READY")

    small.press("G")  # the last row, square_int32
    small.press("k")
    small.wait_for(r"simple")
    small.press("u")
    small.wait_for(r"Unload simple\?")
    assert "infer model unload simple" in small.screen()
    small.press("y")
    small.wait_for(r"simple +. UNAVAILABLE")
    small.press("o")
    small.wait_for(r"Load simple\?")
    small.press("y")
    small.wait_for(r"simple +● READY")
    small.wait_for(ALL_READY)

    small.press("4")
    small.wait_for(r"INPUT0 +INT32")
    small.press("C-s")
    small.wait_for(r"answered in [\d.]+ .s")

    small.press("q")
    small.wait_for(r"Leave running")
    small.press("l")
    small.wait_for(r"come back: infer up")
    assert status(small, "infer status") == 0
    pid = small.wait_for(r"^pid +(\d+)$")[1]
    assert status(small, "infer model ready simple") == 0

    small.type("clear; infer up")
    small.wait_for(ALL_READY)
    small.press("q")
    small.wait_for(r"Leave running")
    small.press("l")
    small.wait_for(r"come back: infer up")
    assert status(small, "infer status") == 0
    assert small.wait_for(r"^pid +(\d+)$")[1] == pid
    assert status(small, "infer down") == 0
    assert status(small, "infer status") == 3


def test_stop_in_the_dialog_ends_the_server(small: Terminal) -> None:
    small.type(INFER_UP)
    small.wait_for(ALL_READY)
    small.press("q")
    small.wait_for(r"Stop the server")
    small.press("s")
    small.wait_for(r"stopped")
    assert status(small, "infer status") == 3


def test_a_terminal_that_goes_away_leaves_the_server_serving(small: Terminal) -> None:
    small.type(INFER_UP)
    small.wait_for(ALL_READY)
    small.new_window()
    small.close_previous_window()
    assert status(small, "infer model ready simple") == 0
    assert status(small, "infer status") == 0
