"""What the README shows works."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import typer

from infer.app.cli import root as command_tree

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import ServerProcess, StartServer

pytestmark = pytest.mark.slow

SUMS = "[[ 0  2  4  6  8 10 12 14 16 18 20 22 24 26 28 30]]"
SUMS_WITH_ONES = "[[ 1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16]]"


@pytest.fixture(scope="module")
def programs(root: Path) -> list[str]:
    """The Python blocks of the README, in order."""
    return re.findall(r"^```python\n(.*?)^```", (root / "README.md").read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def samples(start_module_server: StartServer) -> ServerProcess:
    """A server on the sample models."""
    return start_module_server(verb="up")


def printed(program: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_client_program_prints_the_sums(programs: list[str], samples: ServerProcess, root: Path) -> None:
    address = samples.http.removeprefix("http://")
    assert "127.0.0.1:8000" in programs[0]
    assert printed(programs[0].replace("127.0.0.1:8000", address), root) == SUMS_WITH_ONES


def test_the_program_without_ports_prints_the_sums(programs: list[str], root: Path) -> None:
    assert printed(programs[1], root) == SUMS


def test_every_command_of_the_table_exists_and_every_command_is_in_it(root: Path) -> None:
    rows = re.findall(r"^\| (`infer .*?) \|", (root / "README.md").read_text(), re.MULTILINE)
    named = {command for row in rows for command in re.findall(r"`infer (.*?)`", row)}
    assert named == set(commands(typer.main.get_command(command_tree.app)))


def commands(group: Any, path: str = "") -> list[str]:
    """Every command that does something, by the words that call it."""
    found: list[str] = []
    for name in group.commands:
        below = group.commands[name]
        found += commands(below, f"{path}{name} ") if hasattr(below, "commands") else [f"{path}{name}"]
    return found
