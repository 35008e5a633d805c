"""Python models in interpreters of their own: folders, packed archives, requirements files, and what is refused."""

from __future__ import annotations

import io
import json
import logging
import os
import shutil
import tarfile
import tempfile
import time
import venv
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pytest

from infer.backends.api.backend import InstanceSpec, InstanceState
from infer.backends.api.errors import InferError, InvalidArgument, LoadFailed
from infer.backends.api.model_config import InstanceKind
from infer.backends.python.environments import kept, requirements
from infer.backends.python.environments.environment import Environment

if TYPE_CHECKING:
    Rig = Any

SHOW = """
import platform
class TritonPythonModel:
    def initialize(self, args):
        self.seen = {"python": sys.executable, "prefix": sys.prefix, "version": platform.python_version(),
                     "env": {key: os.environ.get(key) for key in WATCHED}, "cwd": os.getcwd(), "path": sys.path,
                     "argv": sys.argv, "module": __name__, "utils": pb_utils.__name__}
        try:
            import tiny
            self.seen["tiny"] = tiny.WHO
        except ImportError:
            self.seen["tiny"] = ""
    def execute(self, requests):
        return [Response([T("OUT", np.array([json.dumps(self.seen)], dtype=np.object_))]) for _ in requests]
WATCHED = ("VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT", "PATH", "LD_LIBRARY_PATH", "PYTHONHOME", "LATE")
"""
FOREIGN = [path for path in os.environ.get("INFER_TEST_PYTHONS", "").split(os.pathsep) if path]
"""Environments with numpy of other versions of Python, where a machine has them."""


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment of this interpreter that has numpy and nothing else."""
    root = tmp_path_factory.mktemp("environments")
    folder, lent = root / "plain", root / "lent"
    venv.create(folder, with_pip=False, symlinks=True)
    # numpy is where a file of the environment points to, so that archives of it are small.
    lent.mkdir()
    installed = Path(np.__file__).parent
    for each in (installed, installed.with_name("numpy.libs")):
        if each.exists():
            (lent / each.name).symlink_to(each)
    (site_packages(folder) / "lent.pth").write_text(f"{lent}\n")
    return folder


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder and a temporary folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path / "cache" / "infer"


def site_packages(folder: Path) -> Path:
    return next(folder.glob("lib/python*/site-packages"))


def parameters(path: str | Path, **more: str) -> dict[str, dict[str, str]]:
    named = {"EXECUTION_ENV_PATH": str(path), **more}
    return {key: {"string_value": value} for key, value in named.items()}


async def seen_by(rig: Rig, name: str, path: str | Path) -> dict[str, Any]:
    """What a model sees that runs in the environment at a path."""
    instance = await rig.load(name, SHOW, parameters=parameters(path))
    response = await rig.infer(instance, IN=np.zeros(1, np.int32))
    return json.loads(response.outputs["OUT"].as_numpy()[0])


async def refusal(rig: Rig, path: str | Path, error: type[InferError] = LoadFailed) -> str:
    """Why a model is not loaded whose environment is at a path; nothing of it is left open."""
    with pytest.raises(error) as raised:
        await rig.load("refused", SHOW, parameters=parameters(path))
    return str(raised.value)


def packed(path: Path, folder: Path, below: str = ".") -> Path:
    """The folder as a tar.gz."""
    with tarfile.open(path, "w:gz") as archive:
        archive.add(folder, below)
    return path


# -- folders ------------------------------------------------------------------------------------------------------


async def test_a_model_runs_in_the_interpreter_of_its_folder_with_the_environment_activated(
    rig: Rig, plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHOME", "/nowhere")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/some/libraries")
    seen = await seen_by(rig, "own", plain)
    assert (seen["python"], seen["prefix"]) == (str(plain / "bin" / "python"), str(plain))
    environment = seen["env"]
    assert (environment["VIRTUAL_ENV"], environment["VIRTUAL_ENV_PROMPT"]) == (str(plain), "plain")
    assert environment["PATH"] == f"{plain / 'bin'}:{os.environ['PATH']}"
    assert (environment["LD_LIBRARY_PATH"], environment["PYTHONHOME"]) == ("/some/libraries", None)
    assert (seen["cwd"], seen["module"], len(seen["argv"])) == (str(Path.cwd()), "1.model", 1)


async def test_in_an_environment_the_path_ends_as_everywhere_with_version_model_and_utilities(
    rig: Rig, plain: Path, cache: Path
) -> None:
    seen = await seen_by(rig, "path", plain)
    *_, version, model, utilities = seen["path"]
    assert (version, model) == (str(rig.folder / "path" / "1"), str(rig.folder / "path"))
    (code,) = (cache / "worker").glob("*/infer_worker")
    assert utilities == str(code)
    assert seen["utils"] == "infer_worker.triton_python_backend_utils"
    assert str(code.parent) not in seen["path"]


async def test_the_variable_of_the_models_folder_is_expanded_and_must_not_lead_out_of_it(rig: Rig, plain: Path) -> None:
    (rig.folder / "inside").mkdir()
    (rig.folder / "inside" / "env").symlink_to(plain)
    seen = await seen_by(rig, "inside", "$$TRITON_MODEL_DIRECTORY/env")
    assert seen["env"]["VIRTUAL_ENV"] == str(rig.folder / "inside" / "env")
    reason = await refusal(rig, "$$TRITON_MODEL_DIRECTORY/../inside/env", InvalidArgument)
    assert "leads out of the model's folder" in reason


async def test_a_folder_without_activate_or_interpreter_or_numpy_is_no_environment(rig: Rig, tmp_path: Path) -> None:
    folder = tmp_path / "env"
    assert f"execution environment '{folder}' of model 'refused'" in await refusal(rig, folder)
    (folder / "bin").mkdir(parents=True)
    assert "has no bin/activate" in await refusal(rig, folder)
    (folder / "bin" / "activate").touch()
    assert "has no bin/python" in await refusal(rig, folder)
    (folder / "bin" / "python").write_text("#!/bin/sh\necho I am no Python\n")
    (folder / "bin" / "python").chmod(0o755)
    assert "does not run: I am no Python" in await refusal(rig, folder)
    shutil.rmtree(folder)
    venv.create(folder, with_pip=False, symlinks=True)
    reason = await refusal(rig, folder)
    assert "cannot import numpy: ModuleNotFoundError: No module named 'numpy'" in reason
    assert "install numpy into the environment" in reason


async def test_a_python_that_is_too_old_is_named_with_its_version(rig: Rig, tmp_path: Path) -> None:
    folder = tmp_path / "env"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "activate").touch()
    (folder / "bin" / "python").write_text("#!/bin/sh\necho 3.7\necho 1.21\n")
    (folder / "bin" / "python").chmod(0o755)
    assert "is Python 3.7; workers need 3.8 or newer" in await refusal(rig, folder)


async def test_a_worker_in_an_environment_that_is_killed_is_started_again_there(rig: Rig, plain: Path) -> None:
    instance = await rig.load("phoenix", SHOW, parameters=parameters(plain))
    before = instance.pid
    psutil.Process(before).kill()
    await rig.until_state(InstanceState.READY)
    response = await rig.infer(instance, IN=np.zeros(1, np.int32))
    assert json.loads(response.outputs["OUT"].as_numpy()[0])["prefix"] == str(plain)
    assert instance.pid != before


async def test_the_zygote_of_an_environment_ends_with_its_last_model(rig: Rig, plain: Path) -> None:
    files = rig.write("gone", SHOW)
    model = await rig.backend.load(rig.config("gone", parameters=parameters(plain)), files)
    instance = model.create_instance(InstanceSpec("gone_0", InstanceKind.CPU))
    await instance.load()
    zygote = psutil.Process(instance.pid).parent()
    await instance.close()
    await model.close()
    assert zygote is not None
    assert not zygote.is_running()


async def test_auto_complete_runs_in_the_environment_too(rig: Rig, plain: Path) -> None:
    source = """
class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.add_input({"name": sys.prefix.rsplit("/", 1)[1], "data_type": "TYPE_FP32", "dims": [1]})
        return config
    """
    files = rig.write("auto", source)
    completed = await rig.backend.auto_complete(rig.config("auto", (), (), parameters=parameters(plain)), files)
    assert [each.name for each in completed.inputs] == ["plain"]


@pytest.mark.skipif(not FOREIGN, reason="INFER_TEST_PYTHONS names no environments of other Pythons")
@pytest.mark.parametrize("folder", FOREIGN)
async def test_another_version_of_python_serves(rig: Rig, folder: str) -> None:
    seen = await seen_by(rig, "foreign", folder)
    assert seen["prefix"] == folder
    big = np.arange(300_000, dtype=np.int32)
    instance = await rig.load("echo", ECHO, outputs=["IN"], parameters=parameters(folder))
    response = await rig.infer(instance, IN=big)
    np.testing.assert_array_equal(response.outputs["IN"].as_numpy(), big)


ECHO = """
class TritonPythonModel:
    def execute(self, requests):
        return [Response(request.inputs()) for request in requests]
"""


# -- archives -----------------------------------------------------------------------------------------------------


def unpackings(caplog: pytest.LogCaptureFixture) -> int:
    return sum("Extracting Python execution env" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("below", [".", "packed-env"])
async def test_a_packed_environment_is_unpacked_once_and_again_when_it_changes_and_is_removed_at_the_end(
    rig: Rig, plain: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, below: str
) -> None:
    caplog.set_level(logging.INFO)
    archive = packed(tmp_path / "env.tar.gz", plain, below)
    first = await seen_by(rig, "first", archive)
    second = await seen_by(rig, "second", archive)
    assert first["prefix"] == second["prefix"]
    assert first["prefix"].startswith(str(tmp_path / "temporary"))
    assert unpackings(caplog) == 1
    os.utime(archive, (1, 1))
    third = await seen_by(rig, "third", archive)
    assert unpackings(caplog) == 2
    assert third["prefix"] != first["prefix"]
    for instance in rig.instances:
        await instance.close()
    await rig.backend.stop()
    assert list((tmp_path / "temporary").iterdir()) == []


async def test_what_a_killed_server_has_unpacked_is_removed_by_the_next_one(
    rig: Rig, plain: Path, tmp_path: Path
) -> None:
    left = tmp_path / "temporary" / "infer-environments-left"
    left.mkdir()
    (left / ".lock").touch()
    await refusal(rig, packed_entries(tmp_path / "bad.tar.gz", [("../evil", None)]))
    assert not left.exists()


def packed_entries(path: Path, entries: list[tuple[str, str | None]]) -> Path:
    """A tar.gz of files with these names, and of links to these targets."""
    with tarfile.open(path, "w:gz") as archive:
        for name, target in entries:
            member = tarfile.TarInfo(name)
            if target is not None:
                member.type, member.linkname = tarfile.SYMTYPE, target
                archive.addfile(member)
            else:
                member.size = 4
                archive.addfile(member, io.BytesIO(b"evil"))
    return path


def named(name: str, folder: Path) -> list[Path]:
    return list(folder.rglob(name))


@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("../evil", "Path contains '..': entry '../evil'"),
        ("{outside}/evil", "Path is absolute: entry '{outside}/evil'"),
    ],
)
async def test_an_archive_that_would_write_outside_is_refused_by_the_name_of_its_entry(  # CASE-12
    rig: Rig, tmp_path: Path, kind: str, entry: str, reason: str
) -> None:
    name = entry.format(outside=tmp_path)
    archive = tmp_path / f"evil.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(archive, "w") as made:
            made.writestr("bin/python", "x")
            made.writestr(name, "evil")
    else:
        packed_entries(archive, [("bin/python", None), (name, None)])
    assert reason.format(outside=tmp_path) in await refusal(rig, archive)
    assert not named("evil", tmp_path)
    (room,) = (tmp_path / "temporary").iterdir()
    assert [each.name for each in room.iterdir()] == [".lock"]


async def test_a_file_that_is_no_archive_or_only_half_of_one_is_named(rig: Rig, plain: Path, tmp_path: Path) -> None:
    path = tmp_path / "env.tar.gz"
    path.write_bytes(b"no archive at all")
    assert f"execution environment '{path}' cannot be unpacked" in await refusal(rig, path)
    packed(path, plain)
    path.write_bytes(path.read_bytes()[:-1000])
    assert f"execution environment '{path}' cannot be unpacked" in await refusal(rig, path)
    packed_entries(path, [("lib/x", None)])
    assert f"execution environment '{path}' has no bin/python; give a virtual or" in await refusal(rig, path)
    packed_entries(path, [("bin/python", None)])
    assert f"bin/python of the execution environment '{path}' does not run" in await refusal(rig, path)


# -- requirements -------------------------------------------------------------------------------------------------


@pytest.fixture
def wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A requirements file that wants a tiny package beside it, which needs no network to be installed."""
    project = tmp_path / "project"
    (project / "tiny").mkdir(parents=True)
    wheel = project / "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as made:
        made.writestr("tiny/__init__.py", "WHO = 'the tiny package'\n")
        made.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        made.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        made.writestr("tiny-1.0.dist-info/RECORD", "")
    path = project / "requirements.txt"
    want(path, f"./{wheel.name}")
    monkeypatch.setattr(requirements.shutil, "which", lambda *_, **__: None)  # pip, whatever this machine has
    return path


def want(path: Path, *lines: str) -> None:
    path.write_text("\n".join(["--no-index", *lines, ""]))


@pytest.mark.slow
async def test_a_requirements_file_becomes_an_environment_once_and_is_reused_by_the_next_server(
    rig: Rig, wanted: Path, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    seen = await seen_by(rig, "resolved", wanted)
    assert seen["tiny"] == "the tiny package"
    assert seen["prefix"].startswith(str(cache / "environments"))
    assert any("tiny-1.0-py3" in record.getMessage() for record in caplog.records)
    installed = wanted.parent / "tiny-1.0-py3-none-any.whl"
    installed.unlink()  # nothing is installed again, so nothing is missed
    await rig.backend.stop()
    again = await seen_by(rig, "again", wanted)
    assert (again["prefix"], again["tiny"]) == (seen["prefix"], seen["tiny"])


@pytest.mark.slow
async def test_requirements_that_cannot_be_installed_fail_the_load_with_the_last_lines(
    rig: Rig, wanted: Path, cache: Path
) -> None:
    want(wanted, "no-such-package==7")
    reason = await refusal(rig, wanted)
    assert f"'{wanted}' could not be installed (exit status 1)" in reason
    assert "No matching distribution found for no-such-package==7" in reason
    assert [each.suffix for each in (cache / "environments").iterdir()] == [".lock"]


@pytest.fixture
def made(wanted: Path, plain: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The environments that were made; each is a copy of the plain one, because nothing here is about installing."""
    found: list[Path] = []

    def make(_: Path, folder: Path, *__: Any) -> Environment:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(plain, folder, symlinks=True)
        (folder / kept.MARK).touch()
        found.append(folder)
        return Environment(folder)

    monkeypatch.setattr(requirements, "_make", make)
    return found


async def test_an_environment_is_removed_by_nobody_while_a_model_uses_it_and_made_anew_once_it_was(
    rig: Rig, wanted: Path, made: list[Path]
) -> None:
    files = rig.write("user", SHOW)
    for times in (1, 2):
        models = [await rig.backend.load(rig.config("user", parameters=parameters(wanted)), files) for _ in range(2)]
        for model in models:
            instance = model.create_instance(InstanceSpec("user_0", InstanceKind.CPU))
            await instance.load()
            response = await rig.infer(instance, IN=np.zeros(1, np.int32))
            assert json.loads(response.outputs["OUT"].as_numpy()[0])["prefix"] == str(made[-1])
            assert not kept.remove(made[-1], time.time() + 1)
            await instance.close()
            assert kept.listed(os.environ)[0].in_use
            await model.close()
        assert len(made) == times
        assert not kept.listed(os.environ)[0].in_use
        assert kept.remove(made[-1], time.time() + 1)


async def test_an_environment_that_is_removed_before_its_model_has_it_is_made_once_more(
    rig: Rig, wanted: Path, made: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = kept.hold

    def late(folder: Path) -> int | None:
        if len(made) == 1:
            assert kept.remove(folder, time.time() + 1)
        return hold(folder)

    monkeypatch.setattr(kept, "hold", late)
    assert (await seen_by(rig, "late", wanted))["prefix"] == str(made[-1])
    assert len(made) == 2


async def test_requirements_that_are_not_there_are_named(rig: Rig, tmp_path: Path) -> None:
    assert f"'{tmp_path / 'requirements.txt'}' of model 'refused'" in await refusal(rig, tmp_path / "requirements.txt")


async def test_an_environment_whose_interpreter_was_removed_by_hand_is_made_anew(
    rig: Rig, wanted: Path, made: list[Path]
) -> None:
    first = await seen_by(rig, "first", wanted)
    await rig.backend.stop()
    (made[0] / "bin" / "python").unlink()
    second = await seen_by(rig, "second", wanted)
    assert second["prefix"] == first["prefix"]
    assert len(made) == 2
