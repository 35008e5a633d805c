"""Which versions a load may keep, as a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from infer.server.lifecycle.overrides import LoadOverrides
from infer.server.lifecycle.reload import Loaded, is_regrouped, is_unchanged, keepable, with_changes_of
from infer.server.lifecycle.sources import ModelSource
from infer.server.repository import config_reader
from infer.server.repository.changes import EntryStamp, FolderStamp
from infer.server.repository.layout import ModelFolder

if TYPE_CHECKING:
    from infer.backends.api.model_config import ModelConfig

HERE, ELSEWHERE = Path("/models/m"), Path("/more/m")
BEFORE = FolderStamp(5, {"1": EntryStamp(3, {"1": -1}), "2": EntryStamp(5, {"2": -1})})
LATER = FolderStamp(9, {"1": EntryStamp(3, {"1": -1}), "2": EntryStamp(9, {"2": -1})})


def config(**fields: Any) -> ModelConfig:
    return config_reader.from_document({"name": "m", "backend": "python", **fields}, source="m")


def source(path: Path = HERE, stamp: FolderStamp = BEFORE) -> ModelSource:
    return ModelSource(ModelFolder("m", path, (1, 2), path.parent), stamp, LoadOverrides())


LOADED = Loaded(HERE, BEFORE, config(), (1, 2))


@pytest.mark.parametrize(
    ("found", "given", "kept"),
    [
        (source(), config(), {1, 2}),
        (source(), config(version_policy={"all": {}}), {1, 2}),
        (source(), config(instance_group=[{"count": 3}]), {1, 2}),
        (source(stamp=LATER), config(instance_group=[{"count": 3}]), {1}),
        (source(stamp=LATER), config(), {1}),
        (source(ELSEWHERE), config(), set()),
        (source(), config(max_batch_size=1), set()),
        (source(), config(parameters={"a": {"string_value": "b"}}), set()),
    ],
    ids=[
        "nothing changed",
        "the policy",
        "groups",
        "groups and one version",
        "one version",
        "the place",
        "a field",
        "a parameter",
    ],
)
def test_a_version_is_kept_where_it_would_come_up_just_as_it_is(
    found: ModelSource, given: ModelConfig, kept: set[int]
) -> None:
    assert keepable(LOADED, found, given) == kept


def test_a_version_that_was_not_loaded_is_not_kept() -> None:
    assert keepable(Loaded(HERE, BEFORE, config(), (2,)), source(), config()) == {2}


def test_a_load_has_nothing_to_do_in_the_same_place_with_the_same_files() -> None:
    assert is_unchanged(LOADED, source())
    assert not is_unchanged(LOADED, source(stamp=LATER))
    assert not is_unchanged(LOADED, source(ELSEWHERE))


@pytest.mark.parametrize("regrouped", [False, True])
def test_a_kept_version_shows_the_policy_that_holds_now_and_the_groups_where_they_were_changed(regrouped: bool) -> None:
    kept = config(max_batch_size=3, version_policy={"all": {}}, instance_group=[{"count": 1}])
    now = config(version_policy={"latest": {"num_versions": 1}}, instance_group=[{"count": 2}])
    changed = with_changes_of(kept, now, regrouped=regrouped)
    assert changed.document["version_policy"] == {"latest": {"num_versions": 1}}
    assert changed.instance_groups[0].count == (2 if regrouped else 1)
    assert changed.max_batch_size == 3


def test_groups_count_as_changed_by_what_is_written_and_not_by_what_it_comes_to() -> None:
    assert not is_regrouped(LOADED, config(version_policy={"all": {}}))
    assert is_regrouped(LOADED, config(instance_group=[{"count": 1}]))
