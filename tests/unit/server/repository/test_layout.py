from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from infer.backends.api.errors import InvalidArgument, NotFound
from infer.server.repository.layout import DuplicateName, ModelFolder, check_name, find, scan, version_entries

if TYPE_CHECKING:
    from pathlib import Path


def make(root: Path, *folders: str) -> Path:
    for folder in folders:
        (root / folder).mkdir(parents=True)
    return root


def test_every_folder_of_a_repository_is_a_model_with_its_versions_in_numeric_order(tmp_path: Path) -> None:
    make(tmp_path, "b/2", "b/10", "b/1", "a", ".git/1", "..data", "__pycache__")
    (tmp_path / "README.md").write_text("no model")
    assert scan([tmp_path]) == [
        ModelFolder("a", tmp_path / "a", (), tmp_path),
        ModelFolder("b", tmp_path / "b", (1, 2, 10), tmp_path),
    ]


def test_a_model_that_is_a_link_to_a_folder_is_found(tmp_path: Path) -> None:
    make(tmp_path, "elsewhere/1", "repository")
    (tmp_path / "repository" / "linked").symlink_to(tmp_path / "elsewhere")
    assert find([tmp_path / "repository"], "linked").versions == (1,)


@pytest.mark.parametrize(
    ("name", "remark"),
    [
        ("003", "contains leading zeros"),
        ("abc", "fails to convert to integral number"),
        ("-1", "fails to convert to integral number"),
        ("1.0", "fails to convert to integral number"),
        ("²", "fails to convert to integral number"),
        ("9223372036854775808", "is larger than 9223372036854775807"),
        ("00", "contains leading zeros"),
    ],
)
def test_a_folder_that_only_looks_like_a_version_is_ignored_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, remark: str
) -> None:
    make(tmp_path, f"m/{name}", "m/0")
    with caplog.at_level(logging.WARNING):
        assert find([tmp_path], "m").versions == (0,)
    assert f"ignore version directory '{name}' which {remark}" in caplog.text


def test_helper_folders_and_files_of_a_model_are_no_versions_and_no_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make(tmp_path, "m/1", "m/configs", "m/warmup", "m/initial_state", "m/__pycache__", "m/.ipynb_checkpoints")
    (tmp_path / "m" / "train.py").write_text("")
    (tmp_path / "m" / "2").write_text("a file named with a number")
    with caplog.at_level(logging.WARNING):
        assert find([tmp_path], "m").versions == (1,)
    assert not caplog.records


def fill(folder: Path, *names: str) -> None:
    """Files, and folders where a name ends with a slash."""
    folder.mkdir()
    for name in names:
        if name.endswith("/"):
            (folder / name).mkdir()
        else:
            (folder / name).write_text("")


@pytest.mark.parametrize(
    "names",
    [
        ("a.py",),
        ("a.sh", "b.py", "README.md", "notes.txt"),
        ("a.py", "__pycache__/", ".venv/", ".keep"),
        ("simple.py", "models.py"),
    ],
)
def test_a_folder_of_scripts_and_notes_beside_the_models_is_no_model(tmp_path: Path, names: tuple[str, ...]) -> None:
    make(tmp_path, "m/1")
    fill(tmp_path / "clients", *names)
    assert [entry.name for entry in scan([tmp_path])] == ["m"]
    with pytest.raises(
        NotFound, match=r"folder '.*clients' holds scripts and no model; .* such as 'clients/1/model.py'"
    ):
        find([tmp_path], "clients")


@pytest.mark.parametrize(
    "names",
    [
        (),
        ("labels.txt", "README.md"),
        ("model.py",),
        ("model.py", "README.md", "helper.py"),
        ("model.onnx", "train.py"),
        ("config.pbtxt", "train.py"),
        ("train.py", "1/"),
        ("train.py", "configs/"),
        (".keep",),
    ],
)
def test_a_folder_that_may_be_meant_as_a_model_is_one_so_that_its_load_says_what_is_missing(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    fill(tmp_path / "m", *names)
    assert [entry.name for entry in scan([tmp_path])] == ["m"]
    assert find([tmp_path], "m").path == tmp_path / "m"


def test_scripts_beside_the_models_of_one_repository_do_not_hide_a_model_of_that_name_in_another(
    tmp_path: Path,
) -> None:
    make(tmp_path, "one", "two/m/1")
    fill(tmp_path / "one" / "m", "a.py")
    repositories = [tmp_path / "one", tmp_path / "two"]
    model = ModelFolder("m", tmp_path / "two" / "m", (1,), tmp_path / "two")
    assert scan(repositories) == [model]
    assert find(repositories, "m") == model


def test_one_name_in_two_repositories_is_a_duplicate_that_names_both_places(tmp_path: Path) -> None:
    make(tmp_path, "one/m/1", "two/m/1", "two/n")
    repositories = [tmp_path / "one", tmp_path / "two"]
    duplicate, other = scan(repositories)
    assert isinstance(duplicate, DuplicateName)
    assert duplicate.paths == (tmp_path / "one" / "m", tmp_path / "two" / "m")
    assert duplicate.reason == "model appears in two or more repositories"
    assert other.name == "n"
    with pytest.raises(InvalidArgument, match=r"model 'm' appears in two or more repositories: .*one/m.*two/m"):
        find(repositories, "m")


def test_a_repository_given_twice_is_one_repository(tmp_path: Path) -> None:
    make(tmp_path, "m/1")
    (tmp_path / "link").symlink_to(tmp_path)
    assert find([tmp_path, tmp_path / ".", tmp_path / "link"], "m").versions == (1,)


def test_a_repository_that_is_no_folder_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"repository path is not a valid directory: .*nowhere"):
        scan([tmp_path / "nowhere"])


def test_an_unknown_model_is_not_found_and_the_places_looked_at_are_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=f"no folder 'ghost' in model repository '{tmp_path}'"):
        find([tmp_path], "ghost")


@pytest.mark.parametrize("name", ["../secret", "a/b", "..", "a\\b", "a\0b"])
def test_a_name_that_leads_out_of_the_repository_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match="must not contain path traversal characters"):
        check_name(name)


@pytest.mark.parametrize("name", ["", "  ", "\n"])
def test_an_empty_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match="Model name cannot be empty"):
        check_name(name)


def test_the_entries_of_the_lowest_version_tell_folders_from_files(tmp_path: Path) -> None:
    make(tmp_path, "m/10", "m/2/model.onnx", "none")
    (tmp_path / "m" / "2" / "labels.txt").write_text("")
    assert version_entries(find([tmp_path], "m")) == ("labels.txt", "model.onnx/")
    assert version_entries(find([tmp_path], "none")) == ()


def test_a_folder_that_cannot_be_read_is_named_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m" / "1").mkdir(parents=True)
    iterdir = type(tmp_path).iterdir

    def refuse(blocked: Path) -> None:
        def guarded(self: Path) -> object:
            if self == blocked:
                raise PermissionError(13, "Permission denied")
            return iterdir(self)

        monkeypatch.setattr(type(tmp_path), "iterdir", guarded)

    refuse(tmp_path)
    with pytest.raises(InvalidArgument, match=r"model repository '.*' cannot be read: Permission denied"):
        scan([tmp_path])
    refuse(tmp_path / "m")
    with pytest.raises(InvalidArgument, match=r"model folder '.*m' cannot be read: Permission denied"):
        find([tmp_path], "m")
