"""A load may bring its own configuration and files; rules 216 to 219 of the reference."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from infer.backends.api.errors import Code, Internal, LoadFailed, NotFound
from infer.server.lifecycle.overrides import LoadOverrides

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.server.lifecycle.conftest import Rig

NOT_POLLED = "failed to load 'm', failed to poll from model repository: "
ALL_VERSIONS = {"all": {}}


def left(folder: Path) -> list[str]:
    """What is in a folder."""
    return sorted(path.name for path in folder.iterdir())


def files(rig: Rig, *versions: int, **config: object) -> LoadOverrides:
    """A whole model: each version has a file that says which one it is."""
    contents = {f"{version}/which.txt": str(version).encode() for version in versions}
    return LoadOverrides(rig.config_text(**config), contents)


async def test_a_configuration_takes_the_place_of_the_files_until_that_changes(rig: Rig) -> None:
    rig.add("m")
    await rig.engine.load("m", LoadOverrides(rig.config_text(max_batch_size=2)))
    assert rig.engine.find("m").config.max_batch_size == 2
    await rig.engine.load("m")
    assert rig.engine.find("m").config.max_batch_size == 2, "a plain load of unchanged files keeps it"
    rig.touch("m/config.pbtxt")
    await rig.engine.load("m")
    assert rig.engine.find("m").config.max_batch_size == 0
    assert rig.opened() == [1, 1]


async def test_unload_and_load_go_back_to_the_repository(rig: Rig) -> None:
    rig.add("m")
    await rig.engine.load("m", LoadOverrides(rig.config_text(max_batch_size=2)))
    await rig.engine.unload("m")
    await rig.engine.load("m")
    assert rig.engine.find("m").config.max_batch_size == 0


async def test_a_configuration_is_looked_at_also_where_nothing_changed(rig: Rig) -> None:
    rig.add("m", versions=(1, 2))
    await rig.engine.load("m")
    rig.opened()
    await rig.engine.load("m", LoadOverrides(rig.config_text(max_batch_size=2)))
    await rig.engine.load("m", LoadOverrides(rig.config_text(max_batch_size=2, version_policy=ALL_VERSIONS)))
    assert rig.opened() == [1, 2], "the second one adds a version and keeps the other"
    assert rig.engine.ready_versions("m") == (1, 2)


@pytest.mark.parametrize(
    ("config", "phrase"),
    [
        ("", "Invalid config override: it is not JSON"),
        ("{", "Invalid config override: it is not JSON"),
        ('{"foo": 1}', 'Invalid config override: unknown field "foo"'),
        ('{"name": "n"}', "Invalid config override: unexpected directory name 'm' for model 'n'"),
    ],
)
@pytest.mark.parametrize("loaded", [False, True], ids=["never loaded", "loaded"])
async def test_a_bad_configuration_is_refused_and_changes_nothing(
    rig: Rig, config: str, phrase: str, loaded: bool
) -> None:
    rig.add("m")
    await rig.engine.start()
    if loaded:
        await rig.engine.load("m")
    before = rig.engine.index()
    error = await rig.refusal("m", LoadOverrides(config))
    assert isinstance(error, Internal)
    assert str(error).startswith(NOT_POLLED)
    assert phrase in str(error)
    assert rig.engine.index() == before
    assert rig.engine.ready


@pytest.mark.parametrize("loaded", [False, True], ids=["never loaded", "loaded"])
async def test_an_unknown_backend_is_an_invalid_argument_and_changes_nothing(rig: Rig, loaded: bool) -> None:
    rig.add("m")
    await rig.engine.start()
    if loaded:
        await rig.engine.load("m")
    before = rig.engine.index()
    error = await rig.refusal("m", LoadOverrides('{"backend": "nobody"}'))
    assert error.code is Code.INVALID_ARG
    assert "unable to find backend library for backend 'nobody'" in str(error)
    assert rig.engine.index() == before
    assert rig.engine.ready


async def test_a_field_that_breaks_a_rule_is_named_in_the_override_and_not_in_a_file(rig: Rig) -> None:
    rig.add("m")
    message = str(await rig.refusal("m", LoadOverrides(rig.config_text(max_batch_size=-1))))
    assert "Invalid config override: max_batch_size: 'max_batch_size' must be non-negative value for m" in message
    assert "config.pbtxt" not in message


async def test_a_configuration_for_a_model_that_is_nowhere_leaves_no_trace(rig: Rig) -> None:
    await rig.engine.start()
    error = await rig.refusal("m", LoadOverrides(rig.config_text()))
    assert str(error).startswith(f"{NOT_POLLED}no folder 'm' in model repository")
    assert rig.engine.index() == ()
    with pytest.raises(NotFound, match="'m' is not found"):
        rig.engine.find("m")


async def test_files_make_a_model_that_no_repository_holds(rig: Rig, private_folders: Path) -> None:
    await rig.engine.start()
    await rig.engine.load("m", files(rig, 1, 3, version_policy=ALL_VERSIONS))
    assert rig.reasons() == {"1": "READY", "3": "READY"}
    assert (rig.script.folders[3] / "which.txt").read_text() == "3"
    assert rig.script.folders[3].is_relative_to(private_folders)
    assert (await rig.send("m")).error is None
    assert rig.engine.ready
    error = await rig.refusal("m")
    assert str(error).startswith(f"{NOT_POLLED}no folder 'm'"), "there is nothing to go back to"
    assert rig.engine.ready_versions("m") == (1, 3)
    await rig.engine.unload("m")
    assert left(private_folders) == []
    assert rig.engine.index() == (), "what is in no repository is listed while it is there"


async def test_files_hide_the_repository_until_a_plain_load(rig: Rig, private_folders: Path) -> None:
    rig.add("m", versions=(1, 2))
    await rig.engine.load("m")
    await rig.engine.load("m", files(rig, 7))
    assert rig.engine.ready_versions("m") == (7,)
    await rig.engine.load("m")
    assert rig.engine.ready_versions("m") == (2,)
    assert rig.script.folders[2] == rig.folder / "m" / "2"
    await asyncio.gather(*rig.engine._loader._retirement._retiring)
    assert left(private_folders) == []


async def test_files_that_come_again_take_the_place_of_the_first_ones(rig: Rig, private_folders: Path) -> None:
    await rig.engine.load("m", files(rig, 1))
    first = rig.script.folders[1]
    rig.script.may_answer.clear()
    answer = rig.send("m")
    await rig.script.until_executing()
    await rig.engine.load("m", files(rig, 1))
    assert rig.script.folders[1] != first
    assert first.exists(), "the first one still answers a request"
    rig.script.may_answer.set()
    assert (await answer).error is None
    await asyncio.gather(*rig.engine._loader._retirement._retiring)
    assert not first.exists()
    assert len(left(private_folders)) == 1
    await rig.stop()
    assert left(private_folders) == []


@pytest.mark.parametrize(
    ("config", "paths", "phrase"),
    [
        (None, ["1/a"], "Load parameter 'config' must be specified for model file override"),
        ("{", ["1/a"], "Invalid config override: it is not JSON"),
        ('{"backend": "scripted"}', ["1/a", "../x"], "'../x' must stay within model directory"),
        ('{"backend": "scripted"}', ["1/a", "/../tmp/x"], "'/../tmp/x' must stay within model directory"),
        ('{"backend": "scripted"}', ["1/a", "1/" + "x" * 256], "File name too long"),
        ('{"backend": "scripted"}', ["1/a", ""], "names no file"),
    ],
)
async def test_files_that_cannot_be_are_refused_and_leave_nothing(
    rig: Rig, private_folders: Path, config: str | None, paths: list[str], phrase: str
) -> None:
    await rig.engine.start()
    error = await rig.refusal("m", LoadOverrides(config, dict.fromkeys(paths, b"")))
    assert isinstance(error, Internal)
    assert str(error).startswith(NOT_POLLED)
    assert phrase in str(error)
    assert left(private_folders) == []
    assert rig.engine.index() == ()
    assert rig.engine.ready


async def test_files_without_a_version_are_refused_and_leave_nothing(rig: Rig, private_folders: Path) -> None:
    error = await rig.refusal("m", LoadOverrides(rig.config_text(), {"labels.txt": b"cat"}))
    assert "at least one version must be available under the version policy of model 'm'" in str(error)
    assert isinstance(error, LoadFailed)
    assert left(private_folders) == []


async def test_files_whose_load_fails_leave_their_reason_and_no_folder(rig: Rig, private_folders: Path) -> None:
    rig.script.load[1] = LoadFailed("these are no weights")
    assert "Internal: these are no weights" in str(
        await rig.refusal("m", files(rig, 1, 2, version_policy=ALL_VERSIONS))
    )
    assert rig.reasons()["1"] == "UNAVAILABLE Internal: these are no weights"
    assert left(private_folders) == []
    await rig.engine.unload("m")
    assert rig.engine.index() == ()


async def test_files_whose_load_fails_leave_the_old_ones_serving(rig: Rig, private_folders: Path) -> None:
    await rig.engine.load("m", files(rig, 1))
    rig.script.load[1] = LoadFailed("these are no weights")
    await rig.refusal("m", files(rig, 1))
    assert len(left(private_folders)) == 1
    assert rig.reasons() == {"1": "READY"}
    assert (await rig.send("m")).error is None


async def test_the_end_comes_while_files_load_and_nothing_is_left(rig: Rig, private_folders: Path) -> None:
    rig.script.may_load.clear()
    loading = asyncio.ensure_future(rig.engine.load("m", files(rig, 1)))
    await rig.script.loading.wait()
    assert len(left(private_folders)) == 1
    await asyncio.wait_for(rig.engine.stop(), 20)
    with pytest.raises(asyncio.CancelledError):
        await loading
    assert left(private_folders) == []


async def test_the_end_closes_the_versions_that_were_up_before_the_others(rig: Rig, private_folders: Path) -> None:
    rig.script.hold = {2}
    rig.script.may_load.clear()
    loading = asyncio.ensure_future(rig.engine.load("m", files(rig, 1, 2, version_policy=ALL_VERSIONS)))
    await asyncio.wait_for(rig.script.instance_up.wait(), 20)
    for _ in range(10):
        await asyncio.sleep(0)
    await asyncio.wait_for(rig.engine.stop(), 20)
    with pytest.raises(asyncio.CancelledError):
        await loading
    assert rig.script.events[-3:-1] == ["end m_0", "close 1"]
    assert left(private_folders) == []


@pytest.mark.parametrize("name", ["..", "../m", "a/b", "a\\b", "", " ", "a\0"])
async def test_a_bad_name_is_refused_before_anything_is_written(rig: Rig, private_folders: Path, name: str) -> None:
    await rig.refusal(name, files(rig, 1))
    assert left(private_folders) == []
    assert rig.engine.index() == ()
