"""A private folder is there while something holds it, and nowhere else."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from typing import TYPE_CHECKING, Any

import pytest

from infer.backends.api.errors import InvalidArgument
from infer.server.lifecycle.private_folder import PrivateFolder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def left(folders: Path) -> list[str]:
    return [path.name for path in folders.iterdir()]


async def run_blocking(function: Callable[..., Any], /, *args: Any) -> Any:
    return await asyncio.get_running_loop().run_in_executor(None, function, *args)


async def test_it_holds_the_files_for_its_owner_only(folders: Path) -> None:
    private = await PrivateFolder.build("m", {"1/model.py": b"pass", "1/deep/down/a.bin": b"\0"}, run_blocking)
    assert private.repository.parent == folders
    assert private.repository.stat().st_mode & 0o777 == 0o700
    assert (private.repository / "m" / "1" / "model.py").read_bytes() == b"pass"
    assert (private.repository / "m" / "1" / "deep" / "down" / "a.bin").read_bytes() == b"\0"
    await private.release()
    assert left(folders) == []


async def test_the_last_one_to_let_go_removes_it(folders: Path) -> None:
    private = (await PrivateFolder.build("m", {"1/a": b""}, run_blocking)).hold()
    await private.release()
    assert (private.repository / "m" / "1" / "a").exists()
    await private.release()
    assert left(folders) == []


@pytest.mark.parametrize(
    ("name", "files", "phrase"),
    [
        ("m", {"1/" + "x" * 256: b""}, "File name too long"),
        ("m" * 256, {"1/a": b""}, "File name too long"),
        ("m", {"1": b"", "1/a": b""}, "File exists"),
        ("m", {"1/a": b"", "1": b""}, "Is a directory"),
        ("m", {"1/\ud800": b""}, "the name holds characters that no file's can"),
    ],
    ids=["a long name", "a long model", "a file that is a folder", "a folder that is a file", "half a character"],
)
async def test_files_that_cannot_be_written_are_named_and_leave_nothing(
    folders: Path, name: str, files: dict[str, bytes], phrase: str
) -> None:
    with pytest.raises(InvalidArgument, match=r"^file override .* cannot be written: ") as caught:
        await PrivateFolder.build(name, files, run_blocking)
    assert phrase in str(caught.value)
    assert len(str(caught.value)) < 400
    assert left(folders) == []


async def test_without_a_place_for_it_the_reason_is_given(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(folders / "gone"))
    with pytest.raises(InvalidArgument, match="no temporary folder can be made for the files of model 'm': No such"):
        await PrivateFolder.build("m", {"1/a": b""}, run_blocking)


@pytest.mark.parametrize("name", ["m", "m" * 256], ids=["written", "failed"])
async def test_who_gives_up_while_it_is_written_leaves_nothing(folders: Path, name: str) -> None:
    reached, go = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def slowly(function: Callable[..., Any], *args: Any) -> Any:
        loop.call_soon_threadsafe(reached.set)
        assert go.wait(10)
        return function(*args)

    async def run_slowly(function: Callable[..., Any], /, *args: Any) -> Any:
        return await run_blocking(slowly, function, *args)

    building = asyncio.ensure_future(PrivateFolder.build(name, {"1/a": b""}, run_slowly))
    await reached.wait()
    building.cancel()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await building
    assert left(folders) == []


async def test_what_cannot_be_removed_is_told_in_the_log(folders: Path, caplog: pytest.LogCaptureFixture) -> None:
    private = await PrivateFolder.build("m", {"1/a": b""}, run_blocking)
    private.repository.rename(folders / "moved")
    await private.release()
    assert "could not be removed: No such file" in caplog.text
