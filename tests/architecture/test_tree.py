"""The tree, the map, the metadata and the tests say the same."""

from __future__ import annotations

import ast
import re
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

import infer

if TYPE_CHECKING:
    from pathlib import Path

PACKAGE_FOLDERS = ("app", "backends", "server", "tui")
MAP_LINES = 80
ALIASES = {"pb_utils": "triton_python_backend_utils"}
"""Names under which users know a module."""


@pytest.fixture(scope="module")
def project(root: Path) -> dict[str, Any]:
    """pyproject.toml."""
    return tomllib.loads((root / "pyproject.toml").read_text())


def modules(root: Path) -> list[Path]:
    """Every Python file of the package."""
    inner = [path for folder in PACKAGE_FOLDERS for path in sorted((root / folder).rglob("*.py"))]
    return [root / "__init__.py", root / "__main__.py", *inner]


def rooms(root: Path) -> set[str]:
    """Every package below the root, as a path."""
    found = [path.parent for path in modules(root) if path.name == "__init__.py" and path.parent != root]
    return {path.relative_to(root).as_posix() for path in found}


def test_every_module_says_what_it_is_for(root: Path) -> None:
    silent = [path for path in modules(root) if not ast.get_docstring(ast.parse(path.read_text()))]
    assert not silent


def test_every_room_is_listed_for_the_wheel(root: Path, project: dict[str, Any]) -> None:
    listed = set(project["tool"]["setuptools"]["packages"])
    assert listed == {"infer"} | {f"infer.{room.replace('/', '.')}" for room in rooms(root)}


def test_the_map_has_one_row_a_room_and_fits_on_a_page(root: Path) -> None:
    text = (root / "ARCHITECTURE.md").read_text()
    assert set(re.findall(r"^\| `([a-z_/]+)` \|", text, re.MULTILINE)) == rooms(root)
    assert len(text.splitlines()) < MAP_LINES


def test_versions_agree(root: Path, project: dict[str, Any]) -> None:
    newest = re.search(r"^## (\S+)", (root / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert project["project"]["version"] == infer.__version__ == newest[1]


def test_every_dependency_has_its_reason_on_its_line(root: Path) -> None:
    text = (root / "pyproject.toml").read_text()
    block = text[text.index("dependencies = [") : text.index("[project.scripts]")]
    bare = [line for line in block.splitlines() if line.startswith('  "') and "#" not in line]
    assert not bare


def test_every_exception_from_a_lint_rule_has_its_reason_on_its_line(root: Path) -> None:
    bare = [
        f"{path.relative_to(root)}:{number}"
        for path in modules(root)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(r"# noqa(: [A-Z]+[0-9]+(, ?[A-Z]+[0-9]+)*)?$", line) or re.search(r"# type: ignore$", line)
    ]
    assert not bare


def test_tests_mirror_the_tree(root: Path) -> None:
    """A unit test lies where the module that it tests lies, or in the folder of the room around it."""
    unit = root / "tests" / "unit"
    astray: list[str] = []
    for path in sorted(unit.rglob("test_*.py")):
        name = path.stem.removeprefix("test_")
        room = root / path.relative_to(unit).parent
        known = {found.stem for found in room.rglob("*.py")} | {found.name for found in room.iterdir()}
        if ALIASES.get(name, name) not in known:
            astray.append(path.relative_to(root).as_posix())
    assert not astray


def test_the_lock_files_name_every_dependency_and_no_address(root: Path, project: dict[str, Any]) -> None:
    extras = project["project"]["optional-dependencies"]
    wanted = [*project["project"]["dependencies"], *extras["cpu"], *extras["torch"], *extras["dev"]]
    names = {_normal(re.split(r"[\[<>=!~ ]", line)[0]) for line in wanted}
    for lock in ("shipped", "newest"):
        text = (root / "packaging" / "locks" / f"{lock}.txt").read_text()
        assert names <= {_normal(line.partition("==")[0]) for line in text.splitlines()}, lock
        assert "://" not in text


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
