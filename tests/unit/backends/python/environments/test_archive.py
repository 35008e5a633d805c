"""What is unpacked of an archive, and what is refused by the name of its entry."""

from __future__ import annotations

import io
import os
import stat
import tarfile
import zipfile
from typing import TYPE_CHECKING

import pytest

from infer.backends.api.errors import LoadFailed
from infer.backends.python.environments import archive
from infer.backends.python.environments.archive import Entry, Guard, RefusedEntry
from infer.backends.python.environments.commands import Job

if TYPE_CHECKING:
    from pathlib import Path


def admit(*entries: Entry, room: int = 1000) -> list[str]:
    guard = Guard(room)
    return [guard.admit(entry) for entry in entries]


def test_folders_files_and_links_that_stay_inside_are_admitted_with_their_plain_paths() -> None:
    assert admit(
        Entry("./", "folder"),
        Entry("./bin/", "folder"),
        Entry("./bin//tool", "file", size=10),
        Entry("lib64", "link", "lib"),
        Entry("share/man/x", "link", "../../lib/./y"),
        Entry("bin/other", "hard", "./bin/tool"),
        Entry("bin/python", "link", "/usr/bin/python3"),
        Entry("top/bin/python3.11", "link", "../../../elsewhere/python"),
    ) == [".", "bin", "bin/tool", "lib64", "share/man/x", "bin/other", "bin/python", "top/bin/python3.11"]


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ([Entry("../evil", "file")], "Path contains '..': entry '../evil'"),
        ([Entry("a/../../evil", "file")], "Path contains '..': entry 'a/../../evil'"),
        ([Entry("/etc/evil", "file")], "Path is absolute: entry '/etc/evil'"),
        ([Entry("lib/x", "link", "/etc")], "Link leads outside: entry 'lib/x' to '/etc'"),
        ([Entry("lib/x", "link", "../..")], "Link leads outside: entry 'lib/x' to '../..'"),
        ([Entry("x", "hard", "../etc/passwd")], "Link leads outside: entry 'x' to '../etc/passwd'"),
        ([Entry("x", "hard", "/etc/passwd")], "Path is absolute: entry 'x'"),
        ([Entry("dev/null", "other")], "Neither file, folder nor link: entry 'dev/null'"),
        ([Entry("a", "link", "b"), Entry("a/evil", "file")], "Path goes through a link: entry 'a/evil'"),
        ([Entry("a", "link", "b"), Entry("a", "file")], "Path goes through a link: entry 'a'"),
        (
            [Entry("bin/python", "link", "/etc"), Entry("bin/python/passwd", "file")],
            "Path goes through a link: entry 'bin/python/passwd'",
        ),
        (
            [Entry("bin/python", "link", "/etc/x"), Entry("y", "hard", "bin/python")],
            "Link leads to a link: entry 'y' to 'bin/python'",
        ),
        (
            [Entry("bin/python", "link", "/etc"), Entry("y", "hard", "bin/python/passwd")],
            "Link leads to a link: entry 'y' to 'bin/python/passwd'",
        ),
        (
            [Entry("a", "file", size=600), Entry("b", "file", size=600)],
            "Not enough room on the disk to unpack entry 'b'",
        ),
    ],
)
def test_an_entry_that_leads_outside_or_is_none_is_refused_by_its_name(entries: list[Entry], reason: str) -> None:
    with pytest.raises(RefusedEntry) as raised:
        admit(*entries)
    assert str(raised.value) == reason


def add(packed: tarfile.TarFile, name: str, content: bytes = b"", **fields: object) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    for field, value in fields.items():
        setattr(member, field, value)
    packed.addfile(member, io.BytesIO(content))


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "target").mkdir()
    return tmp_path / "target"


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_a_tar_of_any_compression_is_unpacked_with_times_permissions_and_links(
    tmp_path: Path, target: Path, mode: str
) -> None:
    path = tmp_path / "env"
    with tarfile.open(path, mode) as packed:
        add(packed, "bin", type=tarfile.DIRTYPE)
        add(packed, "bin/tool", b"#!/bin/sh", mode=0o6777, mtime=1000)
        add(packed, "deep/down/data", b"x" * 3_000_000, mode=0o400)
        add(packed, "lib64", type=tarfile.SYMTYPE, linkname="lib")
        add(packed, "bin/same", type=tarfile.LNKTYPE, linkname="bin/tool")
    archive.unpack(path, target, Job())
    tool = (target / "bin" / "tool").stat()
    assert (stat.S_IMODE(tool.st_mode), tool.st_mtime, tool.st_uid) == (0o755, 1000, os.geteuid())
    assert (target / "deep" / "down" / "data").read_bytes() == b"x" * 3_000_000
    assert str((target / "lib64").readlink()) == "lib"
    assert (target / "bin" / "same").samefile(target / "bin" / "tool")


def test_a_zip_is_unpacked_with_permissions_and_links(tmp_path: Path, target: Path) -> None:
    path = tmp_path / "env.zip"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("bin/plain", "x")
        run = zipfile.ZipInfo("bin/tool")
        run.external_attr = (stat.S_IFREG | 0o750) << 16
        packed.writestr(run, "#!/bin/sh")
        link = zipfile.ZipInfo("lib64")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        packed.writestr(link, "lib")
    archive.unpack(path, target, Job())
    assert stat.S_IMODE((target / "bin" / "tool").stat().st_mode) == 0o750
    assert str((target / "lib64").readlink()) == "lib"


@pytest.mark.parametrize(("kind", "where"), [(stat.S_IFLNK, "/etc"), (stat.S_IFIFO, "")])
def test_a_zip_with_a_link_outside_or_a_pipe_is_refused(tmp_path: Path, target: Path, kind: int, where: str) -> None:
    path = tmp_path / "env.zip"
    with zipfile.ZipFile(path, "w") as packed:
        member = zipfile.ZipInfo("odd")
        member.external_attr = (kind | 0o777) << 16
        packed.writestr(member, where)
    with pytest.raises(LoadFailed, match=f"'{path}' is refused: .*entry 'odd'"):
        archive.unpack(path, target, Job())
    assert list(target.iterdir()) == []


def test_an_archive_larger_than_the_disk_is_refused_before_it_fills_it(
    tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bomb.tar.gz"
    with tarfile.open(path, "w:gz") as packed:
        add(packed, "zeros", bytes(5_000_000))
    monkeypatch.setattr(archive, "RESERVE", archive.shutil.disk_usage(target).free - 1_000_000)
    with pytest.raises(LoadFailed, match="Not enough room on the disk to unpack entry 'zeros'"):
        archive.unpack(path, target, Job())
    assert list(target.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"text", b"\x1f\x8b\x08\x00broken", b"PK\x03\x04broken"])
def test_what_is_no_archive_is_named(tmp_path: Path, target: Path, content: bytes) -> None:
    path = tmp_path / "env.tar.gz"
    path.write_bytes(content)
    with pytest.raises(LoadFailed, match=f"execution environment '{path}' cannot be unpacked: .") as raised:
        archive.unpack(path, target, Job())
    assert str(raised.value).endswith(
        "; pack a virtual or conda environment with conda-pack, or with tar -C FOLDER -czf FILE ."
    )
    assert "\n" not in str(raised.value)


def test_unpacking_stops_when_nobody_waits_any_more(tmp_path: Path, target: Path) -> None:
    path = tmp_path / "env.tar"
    with tarfile.open(path, "w") as packed:
        add(packed, "file", b"x")
    job = Job()
    job.stop()
    with pytest.raises(LoadFailed, match="was broken off"):
        archive.unpack(path, target, job)
    assert list(target.iterdir()) == []


def test_an_environment_may_lie_in_the_only_folder_of_its_archive(target: Path) -> None:
    assert archive.root_of(target) == target
    (target / "env" / "bin").mkdir(parents=True)
    assert archive.root_of(target) == target / "env"
    (target / "bin").mkdir()
    assert archive.root_of(target) == target
