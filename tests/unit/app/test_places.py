"""Where a user's servers keep their things, and what is refused there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from infer.app import places
from infer.app.failures import CommandError, ExitCode


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({}, "/tmp/infer-1000"),
        ({"INFER_RUN_DIR": "/run/mine"}, "/run/mine"),
        ({"INFER_RUN_DIR": ""}, "/tmp/infer-1000"),
        # It ends with the user's last session, and the server does not.
        ({"XDG_RUNTIME_DIR": "/run/user/1000"}, "/tmp/infer-1000"),
    ],
)
def test_the_run_folder_is_the_one_named_or_one_that_outlives_the_session(
    environment: dict[str, str], folder: str
) -> None:
    assert places.run_folder(environment, 1000) == Path(folder)


def test_a_relative_run_folder_is_the_same_for_a_server_that_is_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert places.run_folder({"INFER_RUN_DIR": "run"}, 0) == tmp_path / "run"
    assert places.state_folder({"INFER_STATE_DIR": "state"}) == tmp_path / "state"


@pytest.mark.parametrize(
    ("environment", "file"),
    [
        ({"INFER_STATE_DIR": "/var/log/mine"}, "/var/log/mine/blue.log"),
        ({"XDG_STATE_HOME": "/home/me/state"}, "/home/me/state/infer/blue.log"),
        ({"XDG_STATE_HOME": "not/absolute"}, "~/.local/state/infer/blue.log"),
        ({}, "~/.local/state/infer/blue.log"),
    ],
)
def test_the_log_is_in_the_state_folder(environment: dict[str, str], file: str) -> None:
    assert places.log_file(environment, "blue") == Path(file).expanduser()


@pytest.mark.parametrize("name", ["default", "serve-17", "a", "A.b_c-9", "x" * 64])
def test_a_name_of_letters_digits_dots_dashes_and_underscores_is_taken(name: str) -> None:
    assert places.check_name(name) == name


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".hidden", "-x", "a/b", "/etc", "../up", "a b", "a\n", "a\0b", "ä", "x" * 65, "a\\b"]
)
def test_a_name_that_is_no_folder_of_ours_is_a_usage_error(name: str) -> None:
    with pytest.raises(CommandError, match="cannot be the name of a server") as refused:
        places.check_name(name)
    assert refused.value.code == ExitCode.USAGE


def test_a_socket_path_of_107_bytes_fits_and_one_of_108_is_refused_with_both_numbers() -> None:
    fits = Path("/" + "ä" * 53)
    assert places.check_socket_path(fits) == fits
    with pytest.raises(CommandError) as refused:
        places.check_socket_path(Path("/" + "x" * 107))
    assert "108 bytes" in refused.value.why
    assert "107" in refused.value.why
    assert "INFER_RUN_DIR" in refused.value.fix


def test_the_folder_is_made_with_its_parents_for_its_user_only(tmp_path: Path) -> None:
    folder = places.make_private(tmp_path / "a" / "run", os.getuid())
    assert folder.stat().st_mode & 0o7777 == 0o700
    assert places.make_private(folder, os.getuid()) == folder


@pytest.mark.parametrize("mode", [0o701, 0o710, 0o720, 0o755, 0o777, 0o1777])
def test_a_folder_that_is_open_to_others_is_refused_with_its_mode(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(CommandError) as refused:
        places.make_private(folder, os.getuid())
    assert f"{mode:04o}" in refused.value.why
    assert refused.value.fix == f"close it: chmod 700 {folder}"
    assert refused.value.code == ExitCode.REFUSED


def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot be trusted") as refused:
        places.make_private(tmp_path, os.getuid() + 1)
    assert f"belongs to user {os.getuid()}" in refused.value.why


def test_a_symbolic_link_is_refused_whatever_it_points_to(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "run").symlink_to(tmp_path / "real")
    with pytest.raises(CommandError) as refused:
        places.make_private(tmp_path / "run", os.getuid())
    assert "symbolic link" in refused.value.why


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").touch(mode=0o600)
    with pytest.raises(CommandError) as refused:
        places.make_private(tmp_path / "run", os.getuid())
    assert refused.value.why == "it is no folder"


def test_a_folder_that_cannot_be_made_is_a_sentence_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CommandError) as refused:
        places.make_private(tmp_path / "file" / "down" / "run", os.getuid())
    assert refused.value.what == f"the folder {tmp_path / 'file' / 'down' / 'run'} cannot be made"
    assert refused.value.why == "Not a directory"
