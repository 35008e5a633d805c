"""A load brings up what changed and nothing else; rules 210 to 216 of the reference."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING

import pytest

from infer.backends.api.errors import InferError, LoadFailed
from infer.server.lifecycle.overrides import LoadOverrides
from infer.server.lifecycle.sources import ModelSource
from infer.server.lifecycle.states import ModelState

if TYPE_CHECKING:
    from tests.unit.server.lifecycle.conftest import Rig

ALL_VERSIONS = "version_policy { all {} }\n"
ONE_VERSION = "version_policy { specific { versions: [1] } }\n"


async def test_a_load_of_what_did_not_change_does_nothing(rig: Rig) -> None:
    rig.add("m")
    await rig.engine.load("m")
    served = rig.engine.find("m")
    assert rig.opened() == [1]
    await rig.engine.load("m")
    await rig.engine.load("m", LoadOverrides())
    assert rig.opened() == []
    assert rig.engine.find("m") is served


async def test_a_newer_file_loads_the_model_anew_once(rig: Rig) -> None:
    rig.add("m")
    await rig.engine.load("m")
    rig.touch("m/1")
    await rig.engine.load("m")
    await rig.engine.load("m")
    assert rig.opened() == [1, 1]


async def test_a_load_that_failed_is_tried_again_with_the_next_one(rig: Rig) -> None:
    rig.add("m")
    await rig.engine.start()
    await rig.engine.load("m")
    rig.touch("m/1")
    rig.script.load[1] = LoadFailed("no room")
    for _ in range(3):
        assert "Internal: no room" in str(await rig.refusal("m"))
        assert rig.reasons() == {"1": "READY"}
        assert rig.engine.ready
    rig.script.load.clear()
    rig.opened()
    await rig.engine.load("m")
    assert rig.opened() == [1]


async def test_a_configuration_that_became_wrong_is_refused_every_time_and_the_old_one_serves(rig: Rig) -> None:
    rig.add("m")
    await rig.engine.load("m")
    rig.add("m", "nonsense")
    for _ in range(2):
        assert "config.pbtxt:5" in str(await rig.refusal("m"))
    assert rig.reasons() == {"1": "READY"}
    assert (await rig.send("m")).error is None


async def test_a_new_version_is_added_beside_the_one_that_serves(rig: Rig) -> None:
    rig.add("m", ALL_VERSIONS)
    await rig.engine.load("m")
    first = rig.engine.find("m", 1)
    assert (await rig.send("m")).error is None
    rig.add("m", ALL_VERSIONS, versions=(2,))
    rig.opened()
    await rig.engine.load("m")
    assert rig.opened() == [2]
    assert rig.engine.find("m", 1) is first
    assert rig.engine.statistics("m", "1")[0].success.count == 1
    assert rig.reasons() == {"1": "READY", "2": "READY"}


async def test_a_version_whose_file_changed_is_loaded_anew_and_the_others_stay(rig: Rig) -> None:
    rig.add("m", ALL_VERSIONS, versions=(1, 2, 3))
    await rig.engine.load("m")
    (rig.folder / "m" / "2" / "weights.bin").write_bytes(b"new")
    rig.opened()
    await rig.engine.load("m")
    assert rig.opened() == [2]


async def test_a_file_that_all_versions_share_loads_all_of_them_anew(rig: Rig) -> None:
    rig.add("m", ALL_VERSIONS, versions=(1, 2))
    await rig.engine.load("m")
    (rig.folder / "m" / "helper.py").touch()
    rig.opened()
    await rig.engine.load("m")
    assert rig.opened() == [1, 2]


async def test_another_version_policy_loads_and_unloads_just_what_it_is_about(rig: Rig) -> None:
    rig.add("m", versions=(1, 2))
    await rig.engine.load("m")
    assert rig.opened() == [2]
    second = rig.engine.find("m", 2)
    assert second.config.document["version_policy"] == {"latest": {"num_versions": 1}}
    rig.add("m", ALL_VERSIONS)
    await rig.engine.load("m")
    assert rig.opened() == [1]
    assert rig.engine.find("m", 2) is second
    assert second.config.document["version_policy"] == {"all": {}}
    rig.add("m", ONE_VERSION)
    await rig.engine.load("m")
    assert rig.opened() == []
    assert rig.engine.ready_versions("m") == (1,)


@pytest.mark.parametrize(
    "more", ["max_batch_size: 8\n", "instance_group [{ kind: KIND_CPU count: 2 }]\nmax_batch_size: 8\n"]
)
async def test_any_other_change_of_the_configuration_loads_every_version_anew(rig: Rig, more: str) -> None:
    rig.add("m", ALL_VERSIONS, versions=(1, 2))
    await rig.engine.load("m")
    rig.add("m", ALL_VERSIONS + more)
    rig.opened()
    await rig.engine.load("m")
    assert rig.opened() == [1, 2]


async def test_a_failed_new_version_keeps_the_others_as_they_were(rig: Rig) -> None:
    rig.add("m", ALL_VERSIONS)
    await rig.engine.load("m")
    first = rig.engine.find("m", 1)
    rig.add("m", ALL_VERSIONS, versions=(2,))
    rig.script.load[2] = LoadFailed("no room")
    for _ in range(2):
        assert "version 2 is at UNAVAILABLE state: Internal: no room" in str(await rig.refusal("m"))
        assert rig.engine.find("m") is first
    assert rig.reasons() == {"1": "READY", "2": "UNAVAILABLE Internal: no room"}


async def test_a_version_that_is_gone_from_the_folder_goes(rig: Rig) -> None:
    rig.add("m", ALL_VERSIONS, versions=(1, 2))
    await rig.engine.load("m")
    shutil.rmtree(rig.folder / "m" / "2")
    rig.opened()
    await rig.engine.load("m")
    assert rig.opened() == []
    assert rig.engine.ready_versions("m") == (1,)


async def test_a_version_that_is_down_is_brought_up_by_a_load_of_unchanged_files(rig: Rig) -> None:
    rig.add("m", ALL_VERSIONS, versions=(1, 2))
    await rig.engine.load("m")
    rig.engine.find("m", 1).record.state = ModelState.UNAVAILABLE
    rig.engine._table.publish()
    assert rig.reasons() == {"1": "UNAVAILABLE", "2": "READY"}
    rig.opened()
    await rig.engine.load("m")
    assert rig.opened() == [1]
    assert rig.reasons() == {"1": "READY", "2": "READY"}


async def test_a_model_that_moved_to_another_repository_is_loaded_anew(rig: Rig) -> None:
    first, second = rig.folder / "a", rig.folder / "b"
    first.mkdir()
    second.mkdir()
    rig.make_over(first, second)
    rig.folder = first
    rig.add("m")
    await rig.engine.load("m")
    (first / "m").rename(second / "m")
    rig.opened()
    await rig.engine.load("m")
    assert rig.opened() == [1]


async def test_a_name_that_two_repositories_hold_is_refused_and_the_one_that_serves_stays(rig: Rig) -> None:
    first, second = rig.folder / "a", rig.folder / "b"
    first.mkdir()
    second.mkdir()
    rig.make_over(first, second)
    rig.folder = first
    rig.add("m")
    await rig.engine.start()
    await rig.engine.load("m")
    shutil.copytree(first / "m", second / "m")
    error = await rig.refusal("m")
    assert str(error).startswith("failed to load 'm', failed to poll from model repository: model 'm' appears in two")
    assert (await rig.send("m")).error is None
    assert rig.engine.ready


async def test_a_model_that_serves_is_ready_all_the_while_it_is_loaded_anew(rig: Rig) -> None:
    rig.add("m")
    await rig.engine.start()
    await rig.engine.load("m")
    old = rig.engine.find("m")
    rig.touch("m/1")
    rig.script.loading.clear()
    rig.script.may_load.clear()
    loading = asyncio.ensure_future(rig.engine.load("m"))
    await rig.script.loading.wait()
    assert rig.reasons() == {"1": "READY"}
    assert rig.engine.ready
    assert rig.engine.find("m") is old
    assert (await rig.send("m")).error is None
    assert rig.engine.statistics("m")[0].success.count == 1
    rig.script.may_load.set()
    await loading
    assert rig.engine.find("m") is not old
    assert rig.engine.statistics("m")[0].success.count == 0


@pytest.mark.parametrize(("failures", "retries", "serves"), [(1, 1, True), (2, 3, True), (2, 1, False), (1, 0, False)])
async def test_a_version_is_tried_again_as_often_as_it_may_be(
    rig: Rig, failures: int, retries: int, serves: bool
) -> None:
    rig.make(retries=retries)
    rig.add("m")
    rig.script.fail_first = failures
    if serves:
        await rig.engine.load("m")
    else:
        with pytest.raises(InferError, match="not this time"):
            await rig.engine.load("m")
    assert rig.engine.is_model_ready("m") is serves
    assert rig.script.fail_first == max(failures - retries - 1, 0)


async def test_a_folder_that_goes_while_it_is_read_is_named(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    read_config = ModelSource.read_config

    def read_and_remove(source: ModelSource) -> object:
        config = read_config(source)
        shutil.rmtree(source.folder.path)
        return config

    rig.add("m")
    monkeypatch.setattr(ModelSource, "read_config", read_and_remove)
    message = str(await rig.refusal("m"))
    assert message.startswith("failed to load 'm', failed to poll from model repository: folder of model 'm' cannot be")
    assert message.endswith("m/1': No such file or directory")


async def test_a_name_that_two_repositories_hold_leaves_no_trace_of_its_refusal(rig: Rig) -> None:
    for name in ("a", "b"):
        (rig.folder / name / "m" / "1").mkdir(parents=True)
    rig.make_over(rig.folder / "a", rig.folder / "b")
    await rig.engine.start()
    before = rig.engine.index()
    assert "appears in two or more repositories" in str(await rig.refusal("m"))
    assert rig.engine.index() == before
    assert rig.engine.ready


async def test_a_model_whose_folder_is_gone_is_refused_and_what_serves_stays(rig: Rig) -> None:
    rig.add("m")
    await rig.engine.start()
    await rig.engine.load("m")
    shutil.rmtree(rig.folder / "m")
    assert "no folder 'm' in model repository" in str(await rig.refusal("m"))
    assert rig.engine.is_model_ready("m")
    await rig.engine.unload("m")
    await rig.refusal("m")
    assert rig.reasons() == {"1": "UNAVAILABLE unloaded"}
    assert rig.engine.ready
