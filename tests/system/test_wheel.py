"""The wheel holds the package, the samples, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

PACKAGE_FOLDERS = ("app", "backends", "server", "tui")


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of what git would commit."""
    source = tmp_path_factory.mktemp("source")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in filter(None, listed.stdout.split("\0")):
        if (root / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((root / name).read_bytes())
    target = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(target), str(source)],
        check=True,
        capture_output=True,
    )
    return next(target.glob("*.whl"))


def expected(root: Path) -> set[str]:
    """What the tree says belongs in the package."""
    files = [root / "__init__.py", root / "__main__.py", root / "py.typed", root / "tui" / "tui.tcss"]
    for folder in PACKAGE_FOLDERS:
        files += (root / folder).rglob("*.py")
    files += [path for path in (root / "model_repository").rglob("*") if path.is_file() and path.suffix != ".pyc"]
    return {f"infer/{path.relative_to(root).as_posix()}" for path in files}


def test_the_wheel_is_the_tree(wheel: Path, root: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == expected(root)


def test_the_wheel_claims_one_name_and_one_command(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        info = {name.rpartition("/")[2]: name for name in archive.namelist() if ".dist-info/" in name}
        assert archive.read(info["top_level.txt"]).split() == [b"infer"]
        assert b"infer = infer.app.cli:main" in archive.read(info["entry_points.txt"])
