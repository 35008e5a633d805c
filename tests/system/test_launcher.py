"""The text in front of the binary unpacks it once and becomes it, and says in a sentence why it cannot."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = '#!/bin/sh\necho "$0" "$@"\nexit "${EXIT:-0}"\n'


@pytest.fixture(scope="module")
def binary(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A single file that holds a small program in place of the real one."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "infer").mkdir()
    program = folder / "infer" / "infer"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    (folder / "infer" / "filling").write_bytes(os.urandom(200_000))
    target = folder / "single"
    pack = root / "packaging" / "pyinstaller" / "pack"
    subprocess.run([pack, folder, "1.2.3", target], check=True, timeout=60)
    return target


def start(binary: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run it to its end with a bare environment."""
    return subprocess.run(
        [binary, *words], check=False, capture_output=True, text=True, timeout=60,
        env={"PATH": os.environ["PATH"], **environment},
    )  # fmt: skip


def unpacked(cache: Path) -> list[str]:
    """What lies in its folder of the cache."""
    return sorted(path.name for path in (cache / "infer").iterdir())


def test_the_first_start_unpacks_into_a_folder_named_after_version_and_contents(binary: Path, tmp_path: Path) -> None:
    done = start(binary, "version", XDG_CACHE_HOME=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    (name,) = unpacked(tmp_path)
    assert name.startswith("binary-1.2.3-")
    assert done.stdout == f"{tmp_path}/infer/{name}/infer version\n"


def test_later_starts_use_what_the_first_has_unpacked(binary: Path, tmp_path: Path) -> None:
    start(binary, XDG_CACHE_HOME=str(tmp_path))
    (name,) = unpacked(tmp_path)
    (tmp_path / "infer" / name / "infer").write_text("#!/bin/sh\necho seen\n")
    assert start(binary, XDG_CACHE_HOME=str(tmp_path)).stdout == "seen\n"


def test_without_a_cache_folder_named_it_is_below_the_home_folder(binary: Path, tmp_path: Path) -> None:
    assert start(binary, HOME=str(tmp_path)).returncode == 0
    assert len(unpacked(tmp_path / ".cache")) == 1


def test_without_a_home_folder_it_is_one_of_the_user_s_among_temporary_files(binary: Path, tmp_path: Path) -> None:
    assert start(binary, TMPDIR=str(tmp_path)).returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == [f"infer-cache-{os.getuid()}"]


def test_only_its_user_may_look_into_what_is_unpacked(binary: Path, tmp_path: Path) -> None:
    start(binary, TMPDIR=str(tmp_path))
    (folder,) = tmp_path.iterdir()
    assert folder.stat().st_mode & 0o077 == 0


def test_words_and_exit_status_are_those_of_the_program(binary: Path, tmp_path: Path) -> None:
    done = start(binary, "call", "a model", "-i", "x=[1, 2]", "", "*", XDG_CACHE_HOME=str(tmp_path), EXIT="6")
    assert done.returncode == 6
    assert done.stdout.endswith("/infer call a model -i x=[1, 2]  *\n")


def test_it_is_found_by_its_name_and_by_a_link(binary: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "infer").symlink_to(binary)
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-c", "infer found"], check=True, capture_output=True, text=True, timeout=60, cwd="/",
        env={"PATH": path, "XDG_CACHE_HOME": str(tmp_path / "cache")},
    )  # fmt: skip
    assert done.stdout.endswith("/infer found\n")


def test_starts_at_the_same_time_unpack_one_program(binary: Path, tmp_path: Path) -> None:
    begin = threading.Barrier(4)

    def first(_: int) -> int:
        begin.wait()
        return start(binary, XDG_CACHE_HOME=str(tmp_path)).returncode

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(first, range(4))) == [0, 0, 0, 0]
    assert len(unpacked(tmp_path)) == 1


def test_the_program_takes_the_launcher_s_place_so_signals_reach_it(binary: Path, tmp_path: Path) -> None:
    start(binary, XDG_CACHE_HOME=str(tmp_path))
    (name,) = unpacked(tmp_path)
    (tmp_path / "infer" / name / "infer").write_text("#!/bin/sh\necho $$\nread line\n")
    process = subprocess.Popen(
        [binary],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PATH": os.environ["PATH"], "XDG_CACHE_HOME": str(tmp_path)},
    )
    with process:
        assert process.stdout is not None
        assert int(process.stdout.readline()) == process.pid
        process.send_signal(signal.SIGTERM)
    assert process.returncode == -signal.SIGTERM


def test_a_file_that_was_cut_short_says_so_and_leaves_nothing(binary: Path, tmp_path: Path) -> None:
    short = tmp_path / "short"
    short.write_bytes(binary.read_bytes()[:-100_000])
    short.chmod(0o755)
    done = start(short, XDG_CACHE_HOME=str(tmp_path))
    assert done.returncode == 1
    assert "infer: cannot unpack into" in done.stderr
    assert unpacked(tmp_path) == []


def test_a_cache_folder_that_cannot_be_made_is_named_with_the_way_out(binary: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = start(binary, XDG_CACHE_HOME=str(tmp_path / "file"))
    assert done.returncode == 1
    assert f"infer: cannot make {tmp_path}/file/infer; set XDG_CACHE_HOME to a folder of yours" in done.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
@pytest.mark.parametrize("planted", [False, True], ids=["empty", "with a program in it"])
def test_a_folder_of_another_user_is_not_trusted(binary: Path, tmp_path: Path, planted: bool) -> None:
    start(binary, TMPDIR=str(tmp_path))
    (folder,) = tmp_path.iterdir()
    if not planted:
        shutil.rmtree(next(folder.iterdir()))
    os.chown(folder, 12345, 12345)
    done = start(binary, TMPDIR=str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert f"infer: {folder} belongs to another user; set XDG_CACHE_HOME to a folder of yours" in done.stderr
