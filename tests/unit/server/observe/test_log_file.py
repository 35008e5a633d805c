"""A log file does not grow without end, loses no line, and survives what log rotators do to it."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

import pytest

from infer.backends.api.errors import InvalidArgument, Unavailable
from infer.server.observe.log_file import LogFile
from infer.server.observe.log_ring import LogQuery
from infer.server.observe.logs import LogSettings, configure

if TYPE_CHECKING:
    from pathlib import Path

log = logging.getLogger("infer.test")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "server.log"


def contents(path: Path) -> dict[str, str]:
    return {each.name: each.read_text() for each in sorted(path.parent.iterdir())}


def write(path: Path, lines: list[str], max_bytes: int = 0, count: int = 3) -> dict[str, str]:
    file = LogFile(path, max_bytes, count)
    for line in lines:
        file.write([f"{line}\n"])
    file.close()
    return contents(path)


def test_without_a_limit_it_only_grows(path: Path) -> None:
    assert write(path, ["one"] * 100) == {"server.log": "one\n" * 100}


def test_what_was_there_is_kept_and_counts_towards_the_limit(path: Path) -> None:
    path.write_text("old\n")
    assert write(path, ["new"]) == {"server.log": "old\nnew\n"}
    assert write(path, ["three"], max_bytes=10) == {"server.log": "three\n", "server.log.1": "old\nnew\n"}


def test_full_files_are_numbered_from_the_newest_and_the_oldest_goes(path: Path) -> None:
    assert write(path, ["a", "b", "c", "d", "e"], max_bytes=2, count=2) == {
        "server.log": "e\n",
        "server.log.1": "d\n",
        "server.log.2": "c\n",
    }


def test_a_file_may_be_as_large_as_the_limit_and_no_larger(path: Path) -> None:
    assert write(path, ["abc", "abc", "x"], max_bytes=8) == {"server.log": "x\n", "server.log.1": "abc\nabc\n"}


def test_the_limit_is_in_bytes(path: Path) -> None:
    assert write(path, ["öö", "ö"], max_bytes=7) == {"server.log": "ö\n", "server.log.1": "öö\n"}


def test_a_line_longer_than_the_limit_is_written_whole_into_a_file_of_its_own(path: Path) -> None:
    assert write(path, ["a", "x" * 50, "b"], max_bytes=10) == {
        "server.log": "b\n",
        "server.log.1": "x" * 50 + "\n",
        "server.log.2": "a\n",
    }


def test_none_are_kept_where_that_is_asked_for(path: Path) -> None:
    assert write(path, ["a", "b", "c"], max_bytes=2, count=0) == {"server.log": "c\n"}


def test_many_lines_at_once_are_divided_among_files_at_line_breaks(path: Path) -> None:
    file = LogFile(path, max_bytes=4, count=9)
    file.write([f"{number}\n" for number in range(5)])
    file.close()
    assert contents(path) == {"server.log": "4\n", "server.log.1": "2\n3\n", "server.log.2": "0\n1\n"}


def test_a_file_that_was_moved_away_is_begun_anew(path: Path) -> None:
    file = LogFile(path)
    file.write(["one\n"])
    path.rename(path.with_name("moved"))
    file.write(["two\n"])
    file.close()
    assert contents(path) == {"moved": "one\n", "server.log": "two\n"}


def test_a_file_that_was_removed_or_replaced_is_opened_anew(path: Path) -> None:
    file = LogFile(path)
    path.unlink()
    file.write(["one\n"])
    other = path.with_name("other")
    other.write_text("theirs\n")
    other.replace(path)
    file.write(["two\n"])
    file.close()
    assert contents(path) == {"server.log": "theirs\ntwo\n"}


def test_the_size_is_that_of_the_file_that_is_written_to(path: Path) -> None:
    file = LogFile(path, max_bytes=6)
    file.write(["12345\n"])
    path.unlink()
    file.write(["a\n", "b\n"])
    file.close()
    assert contents(path) == {"server.log": "a\nb\n"}


def test_a_folder_that_is_gone_is_an_error_and_its_return_mends_it(path: Path) -> None:
    folder = path.parent / "logs"
    folder.mkdir()
    file = LogFile(folder / "server.log")
    (folder / "server.log").unlink()
    folder.rmdir()
    with pytest.raises(FileNotFoundError):
        file.write(["lost\n"])
    folder.mkdir()
    file.write(["back\n"])
    file.close()
    assert (folder / "server.log").read_text() == "back\n"


def test_a_file_that_cannot_be_put_aside_goes_on_growing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    file = LogFile(path, max_bytes=2)
    monkeypatch.setattr("pathlib.Path.replace", refused)
    file.write(["a\n", "b\n"])
    file.write(["c\n"])
    file.close()
    assert contents(path) == {"server.log": "a\nb\nc\n"}


def test_a_pipe_is_written_to_and_never_put_aside(path: Path) -> None:
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        file = LogFile(path, max_bytes=2)
        file.write(["one\n", "two\n"])
        file.close()
        assert os.read(reader, 100) == b"one\ntwo\n"
        assert path.is_fifo()
    finally:
        os.close(reader)


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=f"log file '{tmp_path}' cannot be opened for appending: Is a directory"):
        LogFile(tmp_path)


def test_the_log_of_a_server_is_put_aside_as_its_settings_say(path: Path) -> None:
    service = configure(LogSettings(log_file=path, log_file_max_size=300, log_file_count=2))
    for number in range(50):
        log.info("line %d", number)
    service.stop()
    assert sorted(each.name for each in path.parent.iterdir()) == ["server.log", "server.log.1", "server.log.2"]
    assert all(each.stat().st_size <= 300 for each in path.parent.iterdir())
    assert '"line 49"' in path.read_text()
    assert service.ring.read(LogQuery()).last == 50


@pytest.mark.parametrize("name", ["log_file_max_size", "log_file_count"])
def test_the_limits_cannot_be_changed_while_the_server_runs(path: Path, name: str) -> None:
    service = configure(LogSettings(log_file=path))
    try:
        with pytest.raises(InvalidArgument, match=f"restart it with --{name.replace('_', '-')}"):
            service.update(**{name: 1})
    finally:
        service.stop()
