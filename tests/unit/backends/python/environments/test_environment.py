"""What an environment means to a process, where things are cached, and how requirements are installed."""

from __future__ import annotations

import ast
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import infer.backends.python.worker as worker_package
from infer.backends.api.errors import LoadFailed
from infer.backends.python.environments import cache, requirements
from infer.backends.python.environments.commands import Job
from infer.backends.python.environments.environment import Environment

if TYPE_CHECKING:
    from collections.abc import Iterator

WORKER = Path(worker_package.__file__).parent
ENVIRONMENT = Environment(Path("/opt/env"))


# -- activation ---------------------------------------------------------------------------------------------------


def test_activating_an_environment_sets_what_its_script_would_set_and_removes_pythonhome() -> None:
    given = {"PATH": "/bin", "PYTHONHOME": "/x", "LD_LIBRARY_PATH": "/lib", "OTHER": "1"}
    assert ENVIRONMENT.activated(given) == {
        "PATH": "/opt/env/bin:/bin",
        "LD_LIBRARY_PATH": "/lib",
        "OTHER": "1",
        "VIRTUAL_ENV": "/opt/env",
        "VIRTUAL_ENV_PROMPT": "env",
    }
    assert given["PATH"] == "/bin"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "/opt/env/lib"),
        ({"LD_LIBRARY_PATH": "/lib"}, "/opt/env/lib:/lib"),
        ({"LD_LIBRARY_PATH": "/single/file", "LD_LIBRARY_PATH_ORIG": "/lib"}, "/opt/env/lib:/lib"),
        ({"LD_LIBRARY_PATH": "/single/file", "LD_LIBRARY_PATH_ORIG": ""}, "/opt/env/lib"),
    ],
)
def test_the_interpreter_itself_finds_the_libraries_of_its_environment_first(
    given: dict[str, str], expected: str
) -> None:
    assert ENVIRONMENT.activated(given, libraries=True)["LD_LIBRARY_PATH"] == expected
    assert ENVIRONMENT.activated({})["PATH"] == "/opt/env/bin"


def test_a_zygote_is_begun_by_the_environments_interpreter_with_the_copied_code() -> None:
    python, option, code = ENVIRONMENT.command(Path("/cache/worker/abc/infer_worker"))
    assert (python, option) == ("/opt/env/bin/python", "-c")
    assert "sys.path[0] = '/cache/worker/abc'" in code
    assert "from infer_worker import zygote" in code


# -- the worker's code --------------------------------------------------------------------------------------------


def test_the_cache_is_where_xdg_says() -> None:
    assert cache.cache_folder({"XDG_CACHE_HOME": "/x"}) == Path("/x/infer")
    home = Path("~/.cache/infer").expanduser()
    assert cache.cache_folder({"XDG_CACHE_HOME": "relative"}) == cache.cache_folder({}) == home


def test_the_workers_code_is_copied_once_into_a_folder_that_its_content_names(tmp_path: Path) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    place = cache.worker_code(environ)
    assert place.parent.parent == tmp_path / "infer" / "worker"
    assert {each.name for each in place.iterdir()} == {each.name for each in WORKER.glob("*.py")}
    (place / "sign").touch()
    assert cache.worker_code(environ) == place
    assert (place / "sign").exists()
    assert [each.name for each in place.parent.parent.iterdir()] == [place.parent.name]


def test_servers_that_copy_the_code_at_the_same_time_use_one_copy(tmp_path: Path) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    places: list[Path] = []
    threads = [threading.Thread(target=lambda: places.append(cache.worker_code(environ))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(places) == 8
    assert len(set(places)) == 1
    assert [each.name for each in (tmp_path / "infer" / "worker").iterdir()] == [places[0].parent.name]


def test_a_cache_that_cannot_be_made_or_belongs_to_another_user_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LoadFailed, match="cannot be made: Not a directory; name another one with XDG_CACHE_HOME"):
        cache.made(tmp_path / "file" / "x")
    monkeypatch.setattr(cache.os, "geteuid", lambda: 4711)
    with pytest.raises(LoadFailed, match="belongs to user"):
        cache.made(tmp_path)


def _newer_than_python_3_8(tree: ast.Module) -> Iterator[str]:
    """What of a module Python 3.8 does not know, as far as its text shows it."""
    future = any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body)
    if not future and len(tree.body) > 1:
        yield "annotations are evaluated"
    for node in ast.walk(tree):
        if isinstance(node, ast.Match):
            yield "match"
        if isinstance(node, ast.Call) and any(word.arg in ("strict", "slots") for word in node.keywords):
            yield f"strict= or slots= in line {node.lineno}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name = node.func.attr
            if name in ("removeprefix", "removesuffix", "waitstatus_to_exitcode", "pidfd_open", "add_note"):
                yield f"{name} in line {node.lineno}"
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            sides = (node.left, node.right)
            if any(isinstance(side, ast.Dict | ast.DictComp) for side in sides):
                yield f"a union of dicts in line {node.lineno}"


@pytest.mark.parametrize("path", sorted(WORKER.glob("*.py")), ids=lambda path: path.name)
def test_the_workers_code_is_such_that_python_3_8_can_run_it(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 8))
    assert list(_newer_than_python_3_8(tree)) == []


# -- requirements -------------------------------------------------------------------------------------------------


def test_uv_installs_where_it_is_and_pip_where_not() -> None:
    folder, python = Path("/cache/e"), Path("/usr/bin/python3")
    make, install = requirements.installer(folder, python, None)
    assert make == ["/usr/bin/python3", "-m", "venv", "/cache/e"]
    assert install[:4] == ["/cache/e/bin/python", "-m", "pip", "install"]
    make, install = requirements.installer(folder, python, "/bin/uv")
    assert make == ["/bin/uv", "venv", "--quiet", "--python", "/usr/bin/python3", "/cache/e"]
    assert install == ["/bin/uv", "pip", "install", "--python", "/cache/e/bin/python"]


def test_an_environment_is_named_by_its_requirements_what_they_include_and_the_interpreter(tmp_path: Path) -> None:
    path, more = tmp_path / "requirements.txt", tmp_path / "more.txt"
    path.write_text("numpy\n-r more.txt\n--constraint=more.txt\n-c https://elsewhere/x.txt\n")
    more.write_text("a==1\n-r requirements.txt\n")
    key = requirements.key_of(path, "3.11")
    assert key == requirements.key_of(path, "3.11")
    assert key != requirements.key_of(path, "3.12")
    more.write_text("a==2\n")
    assert key != requirements.key_of(path, "3.11")
    more.unlink()
    with pytest.raises(LoadFailed, match=f"requirements file '{more}' cannot be read"):
        requirements.key_of(path, "3.11")


def test_a_single_file_server_takes_the_python_of_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert requirements.interpreter_of({}) == Path(sys.executable)
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    with pytest.raises(LoadFailed, match="there is no python3 on the path"):
        requirements.interpreter_of({"PATH": str(tmp_path)})
    (tmp_path / "python3").touch(mode=0o755)
    assert requirements.interpreter_of({"PATH": str(tmp_path)}) == tmp_path / "python3"


# -- programs -----------------------------------------------------------------------------------------------------


def test_a_program_is_run_to_its_end_with_its_lines_and_status() -> None:
    told: list[str] = []
    job = Job(told.append)
    assert job.run(["/bin/sh", "-c", "echo one; echo two >&2; exit 3"], logged=True) == (3, ["one", "two"])
    assert told == ["one", "two"]
    assert job.run(["/does/not/exist"]) == (127, ["cannot run '/does/not/exist': No such file or directory"])


def test_a_program_that_runs_is_ended_with_its_children_when_the_job_is_stopped() -> None:
    begun = threading.Event()
    job = Job(lambda _: begun.set())
    failures: list[str] = []

    def run() -> None:
        try:
            job.run(["/bin/sh", "-c", "echo up; sleep 1000 & wait"], logged=True)
        except LoadFailed as exc:
            failures.append(str(exc))

    thread = threading.Thread(target=run)
    thread.start()
    assert begun.wait(10)
    job.stop()
    thread.join(10)
    assert failures == ["the preparation of the execution environment was broken off"]
    with pytest.raises(LoadFailed):
        job.run(["/bin/true"])
