"""What a file holds is told by what is in it."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import pytest
import torch

from infer.backends.torch.worker.archive import ArchiveError, Format, format_of, package_models

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_a_torchscript_module_is_known_by_its_code(add_sub: Path) -> None:
    assert format_of(add_sub) is Format.TORCHSCRIPT


def test_a_state_dict_is_known_whatever_its_name(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    torch.save({"weight": torch.ones(2)}, path)
    assert format_of(path) is Format.WEIGHTS


def test_an_exported_program_is_known(exported_file: Callable[..., Path]) -> None:
    assert format_of(exported_file()) is Format.EXPORTED


def test_a_package_is_known_and_names_its_models(aoti_package: Path) -> None:
    assert format_of(aoti_package) is Format.PACKAGE
    assert package_models(aoti_package) == ("model",)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("serialized_exported_program.json", Format.EXPORTED),
        ("data/aotinductor/first/a.so", Format.PACKAGE),
    ],
)
def test_files_of_older_releases_are_known(tmp_path: Path, entry: str, expected: Format) -> None:
    path = tmp_path / "old.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(entry, "")
    assert format_of(path) is expected


@pytest.mark.parametrize("content", [b"", b"garbage"])
def test_a_file_that_is_no_archive_is_refused_with_its_path(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.pt"
    path.write_bytes(content)
    with pytest.raises(ArchiveError, match=r"model\.pt' is not a PyTorch archive: .*cut off, or it was saved"):
        format_of(path)


def test_a_file_that_is_cut_off_is_refused(add_sub: Path) -> None:
    add_sub.write_bytes(add_sub.read_bytes()[:500])
    with pytest.raises(ArchiveError, match="is not a PyTorch archive"):
        format_of(add_sub)


def test_an_archive_of_something_else_is_refused_with_the_ways_to_save(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "")
    with pytest.raises(ArchiveError, match=r"is neither a TorchScript module, .* save it with torch\.jit\.save"):
        format_of(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=r"cannot read .*No such file"):
        format_of(tmp_path / "none.pt")
