"""A model's folder has changed where Triton says so, and where its times alone would not show it."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from infer.server.repository import changes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CONFIG_FILES = frozenset({"config.pbtxt", "configs"})
OLD, NEW, OLDER = 1_000, 2_000, 500


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Two versions, a configuration and a file that they share; everything is of one time."""
    folder = tmp_path / "m"
    for name in ("1", "2"):
        (folder / name / "weights").mkdir(parents=True)
        (folder / name / "model.py").write_text("pass")
        (folder / name / "weights" / "a.bin").write_bytes(b"1234")
    (folder / "config.pbtxt").write_text("")
    (folder / "labels.txt").write_text("cat")
    age(folder)
    return folder


def age(folder: Path) -> None:
    for path in (*folder.rglob("*"), folder):
        os.utime(path, (OLD, OLD))


def at(path: Path, seconds: int) -> None:
    os.utime(path, (seconds, seconds))


def grow(path: Path) -> None:
    """A longer file with the time that it had."""
    path.write_bytes(path.read_bytes() + b"x")
    at(path, OLD)


def drop(path: Path) -> None:
    """A file that goes, the folder's time put back."""
    path.unlink()
    at(path.parent, OLD)


@pytest.mark.parametrize(
    "change",
    [
        lambda model: at(model / "1" / "model.py", NEW),
        lambda model: at(model / "1" / "weights" / "a.bin", NEW),
        lambda model: at(model / "1" / "weights", NEW),
        lambda model: at(model, NEW),
        lambda model: (model / "3").mkdir(),
        lambda model: shutil.rmtree(model / "2"),
        lambda model: grow(model / "config.pbtxt"),
        lambda model: drop(model / "labels.txt"),
        lambda model: drop(model / "1" / "weights" / "a.bin"),
    ],
    ids=["a file", "a deep file", "a folder", "the folder itself", "a new version", "a version less", "a size",
         "a file less", "a deep file less"],
)  # fmt: skip
def test_what_is_newer_or_not_the_same_is_a_change(model: Path, change: Callable[[Path], None]) -> None:
    before = changes.take(model)
    change(model)
    assert changes.is_changed(before, changes.take(model))


@pytest.mark.parametrize(
    "change",
    [
        lambda model: None,
        lambda model: at(model / "1" / "model.py", OLDER),
        lambda model: (model / "1" / "__pycache__").mkdir(),
        lambda model: (model / "__pycache__").mkdir(),
    ],
    ids=["nothing", "a time that went backwards", "bytecode", "bytecode beside the versions"],
)
def test_what_is_no_newer_is_no_change(model: Path, change: Callable[[Path], None]) -> None:
    before = changes.take(model)
    change(model)
    assert not changes.is_changed(before, changes.take(model))


def test_anything_is_newer_than_the_oldest_stamp(model: Path) -> None:
    assert changes.is_changed(changes.OLDEST, changes.take(model))


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        (lambda model: None, {1, 2}),
        (lambda model: at(model / "2" / "weights" / "a.bin", NEW), {1}),
        (lambda model: grow(model / "1" / "model.py"), {2}),
        (lambda model: (model / "3").mkdir(), {1, 2}),
        (lambda model: shutil.rmtree(model / "2"), {1}),
        (lambda model: at(model / "config.pbtxt", NEW), {1, 2}),
        (lambda model: (model / "configs").mkdir(), {1, 2}),
        (lambda model: at(model / "labels.txt", NEW), set()),
        (lambda model: (model / "helper.py").touch(), set()),
        (lambda model: drop(model / "labels.txt"), set()),
        (lambda model: (model / "1" / "__pycache__").mkdir(), {1, 2}),
    ],
    ids=["nothing", "one version's file", "one version's size", "a new version", "a version less", "the configuration",
         "named configurations", "a shared file", "a new shared file", "a shared file less", "bytecode"],
)  # fmt: skip
def test_a_version_is_untouched_unless_it_or_what_all_share_changed(
    model: Path, change: Callable[[Path], None], kept: set[int]
) -> None:
    before = changes.take(model)
    change(model)
    assert changes.unchanged_versions(before, changes.take(model), config_files=CONFIG_FILES) == kept


def test_links_are_followed_and_one_that_leads_around_ends(model: Path, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.mkdir()
    (target / "model.py").write_text("pass")
    (model / "7").symlink_to(target)
    (model / "1" / "around").symlink_to(model)
    (model / "1" / "nowhere").symlink_to(tmp_path / "gone")
    before = changes.take(model)
    assert before.entries["7"].sizes["7/model.py"] == 4
    grow(target / "model.py")
    assert changes.unchanged_versions(before, changes.take(model), config_files=CONFIG_FILES) == {2}


def test_a_folder_that_is_gone_has_an_empty_stamp(tmp_path: Path) -> None:
    assert changes.take(tmp_path / "gone") == changes.OLDEST
