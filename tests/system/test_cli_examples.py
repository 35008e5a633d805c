"""Every example in the help of every command and in the README does what it says: real servers, a real shell."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
import typer

from infer.app.cli import root as command_tree
from infer.app.cli.tree import split_help
from infer.app.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 60
PORTS = "--http-address=127.0.0.1 --http-port=0 --grpc-address=127.0.0.1 --grpc-port=0 --metrics-port=0"
LIFE = ("up", "down", "status", "logs", "serve")
"""Commands whose examples start, show and stop servers of their own."""

ECHO = """
backend: "identity"
input [{ name: "INPUT0" data_type: TYPE_FP32 dims: [-1] }]
output [{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [-1] }]
"""

MODELS = ("simple", "identity", "digits", "tmp-1")
CONTEXTS = ("prod", "lab", "gpu7")
OTHER_CODES = {"infer doctor --problems": {0, 8}, "infer doctor -o json": {0, 8}, "infer doctor": {0, 8}}
"""What may come of an example besides 0: the doctor tells what is wrong with the machine that the tests run on."""


def below(command: Any) -> Iterator[Any]:
    """A command and every one below it."""
    yield command
    for name in getattr(command, "commands", {}):
        yield from below(command.commands[name])


def from_help() -> list[str]:
    tree = typer.main.get_command(command_tree.app)
    return [example for command in below(tree) for example in split_help(command.help)[1]]


def from_readme() -> list[str]:
    blocks = re.findall(r"^```sh\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("\\\n", "").splitlines()
    return [line.partition("  #")[0].strip() for line in lines if "infer " in line]


def verb(example: str) -> str:
    found = re.search(r"\binfer (?:-\S+ )*(\S+)", example)
    return found[1] if found else ""


EXAMPLES = list(dict.fromkeys([*from_help(), *from_readme()]))
OF_ONE_SERVER = [example for example in EXAMPLES if verb(example) not in LIFE]
OF_LIFE = {name: [example for example in EXAMPLES if verb(example) == name] for name in LIFE}


class Shell(NamedTuple):
    """A machine of its own: a home, a working folder with the files that examples name, and a run folder."""

    folder: Path
    environment: dict[str, str]
    addresses: dict[str, str]

    def run(self, example: str) -> subprocess.CompletedProcess[str]:
        for written, real in self.addresses.items():
            example = example.replace(written, real)
        return subprocess.run(
            ["bash", "-c", f"set -o pipefail; {example}"],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    def write_contexts(self, without: str = "") -> None:
        """The contexts that examples name, but for one that an example adds; ``prod`` is in use."""
        path = Path(self.environment["HOME"]) / ".config" / "infer" / "config.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        url = self.addresses["http://127.0.0.1:8002"]
        tables = [f'[contexts.{name}]\nurl = "{url}"\n' for name in CONTEXTS if name != without]
        path.write_text("\n".join(['context = "prod"\n' if without != "prod" else "", *tables]))

    def holds(self, name: str) -> bool:
        """Whether a server of that name runs here."""
        return Registry(Path(self.environment["INFER_RUN_DIR"])).find(name) is not None

    def must(self, example: str) -> str:
        done = self.run(example)
        assert done.returncode in OTHER_CODES.get(example, {0}), f"{example}\n{done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stdout


def machine(folder: Path, run_folder: str) -> Shell:
    """A machine without a server."""
    (folder / "home").mkdir()
    work = folder / "work"
    work.mkdir()
    np.save(work / "second.npy", np.ones((1, 16), np.int32))
    (work / "echo.pbtxt").write_text(ECHO)
    (work / "model.onnx").write_bytes(b"")
    repository = work / "DIR"
    for sample in MODELS[:3]:
        shutil.copytree(ROOT / "model_repository" / sample, repository / sample)
    (repository / "tmp-1" / "1").mkdir(parents=True)
    (repository / "tmp-1" / "config.pbtxt").write_text(ECHO)
    (work / "models").symlink_to(repository)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("INFER_", "XDG_"))}
    environment |= {
        "HOME": str(folder / "home"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "INFER_RUN_DIR": run_folder,
        "INFER_STATE_DIR": str(folder / "state"),
    }
    return Shell(work, environment, {})


@pytest.fixture(scope="module")
def run_folders() -> Iterator[list[str]]:
    """Two run folders; the path of a socket in them may have 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="infer-") as one, tempfile.TemporaryDirectory(prefix="infer-") as two:
        yield [f"{one}/run", f"{two}/run"]


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory, run_folders: list[str]) -> Iterator[Shell]:
    """A machine on which one server runs, in the background, as `infer up` leaves it."""
    made = machine(tmp_path_factory.mktemp("examples"), run_folders[0])
    made.must(f"infer up --model-repository DIR {PORTS} --detach")
    (standing,) = json.loads(made.must("infer status -o json"))
    server = made._replace(
        addresses={
            "http://127.0.0.1:8002": f"http://{standing['operator']}",
            "http://gpu7:8002": f"http://{standing['operator']}",
            "http://127.0.0.1:8000": f"http://{standing['http']}",
        }
    )
    yield server
    made.run("infer down --force --timeout 5")


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory, run_folders: list[str]) -> Iterator[Shell]:
    """A machine on which nothing runs."""
    made = machine(tmp_path_factory.mktemp("life"), run_folders[1])
    yield made
    for name in ("default", "blue"):
        if made.holds(name):
            made.run(f"infer down --name {name} --force --timeout 5")


@pytest.mark.parametrize("example", OF_ONE_SERVER)
def test_an_example_does_what_it_says(shell: Shell, example: str) -> None:
    shell.write_contexts(without=example.split()[3] if example.startswith("infer ctx add") else "")
    shell.must(example)
    if "unload" in example and "--dry-run" not in example:
        shell.must(f"infer model load {' '.join(MODELS)} --timeout 60")


@pytest.mark.parametrize("example", OF_LIFE["up"])
def test_an_example_of_up_starts_a_server(life: Shell, example: str) -> None:
    name = found[1] if (found := re.search(r"--name (\S+)", example)) else "default"
    if "--detach" not in example:
        example += " --detach"
    life.must(f"{example} {PORTS}")
    assert life.holds(name)
    life.must(f"infer down --name {name}")
    assert not life.holds(name)


def test_the_readmes_serve_serves_until_it_is_told_to_stop(life: Shell) -> None:
    assert OF_LIFE["serve"] == [], "the help of serve is the table of its flags"
    example = "infer serve --model-repository DIR"
    assert example in (ROOT / "README.md").read_text()
    assert_interrupted(life, f"{example} {PORTS}", "metrics")


@pytest.mark.parametrize("example", [*OF_LIFE["status"], *OF_LIFE["logs"], *OF_LIFE["down"]])
def test_an_example_of_status_logs_and_down_finds_the_servers_that_run(life: Shell, example: str) -> None:
    for name in ("default", "blue"):
        if not life.holds(name):
            life.must(f"infer up --name {name} --model-repository DIR {PORTS} --detach")
    if re.search(r" (-f|--follow)\b", example):
        assert_interrupted(life, example, "simple")
    else:
        life.must(example)


def assert_interrupted(shell: Shell, example: str, phrase: str) -> None:
    """An example runs until Ctrl-C, and has written the phrase before."""
    process = subprocess.Popen(
        ["bash", "-c", f"exec {example}"],
        cwd=shell.folder,
        env=shell.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        read = ""
        while phrase not in read and (line := process.stdout.readline()):
            read += line
        assert phrase in read
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert process.wait(LIMIT_S) in (0, 130), read + rest
        assert "Traceback" not in read + rest
    finally:
        process.kill()
        process.communicate()


def test_no_example_is_left_out() -> None:
    assert len(EXAMPLES) == len(OF_ONE_SERVER) + sum(len(examples) for examples in OF_LIFE.values())
    assert len(from_help()) > 40
    assert len(from_readme()) >= 10
    assert {verb(example) for example in EXAMPLES} >= {"up", "down", "status", "logs", "ps", "model", "call", "ctx"}
