"""Contexts come and go in a file that people write too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from infer.app.contexts import ContextFile, write_atomically
from infer.app.failures import CommandError, ExitCode

if TYPE_CHECKING:
    from pathlib import Path

WRITTEN = """\
# my servers
timeout = 10  # slow line

[contexts.lab]  # under the desk
url = "http://lab:8002"
"""


@pytest.fixture
def file(tmp_path: Path) -> ContextFile:
    return ContextFile(tmp_path / "infer" / "config.toml")


def mode(file: ContextFile) -> int:
    return file.path.stat().st_mode & 0o777


def test_without_a_file_there_is_no_context(file: ContextFile) -> None:
    assert file.contexts() == {}
    assert file.current == ""


def test_a_context_is_added_used_and_removed(file: ContextFile) -> None:
    file.add("lab", {"url": "http://lab:8002", "read_only": True})
    file.add("prod", {"url": "http://prod:8002"})
    assert list(file.contexts()) == ["lab", "prod"]
    assert file.get("lab").values == {"url": "http://lab:8002", "read_only": True}
    file.use("prod")
    assert file.current == "prod"
    assert file.remove("prod")
    assert file.current == ""
    assert not file.remove("lab")
    assert file.contexts() == {}


def test_what_a_person_wrote_stays(file: ContextFile) -> None:
    file.path.parent.mkdir()
    file.path.write_text(WRITTEN)
    file.add("prod", {"url": "http://prod:8002"})
    file.use("lab")
    text = file.path.read_text()
    for line in WRITTEN.splitlines():
        assert line in text
    assert file.current == "lab"
    assert list(file.contexts()) == ["lab", "prod"]


def test_a_context_is_replaced_only_where_that_is_said(file: ContextFile) -> None:
    file.add("lab", {"url": "http://one", "kind": "triton"})
    with pytest.raises(CommandError) as caught:
        file.add("lab", {"url": "http://two"})
    assert caught.value.code is ExitCode.USAGE
    assert "--replace" in caught.value.fix
    file.add("lab", {"url": "http://two"}, replace=True)
    assert file.get("lab").values == {"url": "http://two"}


@pytest.mark.parametrize("name", ["", "-x", "a b", "a/b", ".hidden", "ä", "x" * 65, "a\nb"])
def test_a_bad_name_is_refused(file: ContextFile, name: str) -> None:
    with pytest.raises(CommandError) as caught:
        file.add(name, {"url": "http://lab:8002"})
    assert caught.value.code is ExitCode.USAGE
    assert not file.path.exists()


def test_a_name_with_a_dot_is_one_name(file: ContextFile) -> None:
    file.add("lab.eu-1", {"url": "http://lab"})
    assert list(file.contexts()) == ["lab.eu-1"]


@pytest.mark.parametrize("verb", ["use", "remove", "get"])
def test_an_unknown_context_is_not_found_and_the_nearest_is_named(file: ContextFile, verb: str) -> None:
    file.add("production", {"url": "http://prod"})
    with pytest.raises(CommandError) as caught:
        getattr(file, verb)("prodction")
    assert caught.value.code is ExitCode.NOT_FOUND
    assert "did you mean 'production'?" in caught.value.fix
    with pytest.raises(CommandError) as caught:
        getattr(file, verb)("zzz")
    assert caught.value.fix == "see what is there: infer ctx list"


def test_a_file_that_names_a_key_is_its_owners_alone(file: ContextFile) -> None:
    file.add("lab", {"url": "http://lab"})
    assert mode(file) == 0o644
    file.add("prod", {"url": "http://prod", "key_file": "/keys/prod"})
    assert mode(file) == 0o600
    file.remove("prod")
    assert mode(file) == 0o600, "what was made private stays so"


def test_a_link_stays_a_link(file: ContextFile, tmp_path: Path) -> None:
    file.path.parent.mkdir()
    (tmp_path / "dotfiles.toml").write_text("# mine\n")
    file.path.symlink_to(tmp_path / "dotfiles.toml")
    file.add("lab", {"url": "http://lab"})
    assert file.path.is_symlink()
    assert (tmp_path / "dotfiles.toml").read_text().startswith("# mine")


def test_a_wrong_file_is_not_written_over(file: ContextFile) -> None:
    file.path.parent.mkdir()
    file.path.write_text("nonsense = 3\n")
    with pytest.raises(CommandError, match=r"config\.toml:1"):
        file.add("lab", {"url": "http://lab"})
    assert file.path.read_text() == "nonsense = 3\n"


def test_a_write_that_fails_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "\udcff", 0o600)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "infer").write_text("a file")
    file = ContextFile(tmp_path / "infer" / "config.toml")
    with pytest.raises(CommandError) as caught:
        file.add("lab", {"url": "http://lab"})
    assert "cannot be written" in caught.value.what
    assert "XDG_CONFIG_HOME" in caught.value.fix
