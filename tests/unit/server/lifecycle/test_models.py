"""The table answers look-ups with Triton's sentences and publishes frozen views."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from infer.backends.api.backend import InstanceSpec
from infer.backends.api.errors import Code, InferError
from infer.backends.api.model_config import InstanceGroup, InstanceKind, ModelConfig
from infer.server.lifecycle.models import ModelTable, ServedModel, VersionRecord
from infer.server.lifecycle.states import UNLOADED, IndexEntry, ModelState

CONFIG = ModelConfig(
    name="m",
    instance_groups=(
        InstanceGroup("m_0", InstanceKind.GPU, count=2, gpus=(1,)),
        InstanceGroup("p", InstanceKind.CPU, count=1, passive=True),
    ),
)


def add(
    table: ModelTable, name: str, version: int, state: ModelState, reason: str = "", *, ready: bool = True
) -> VersionRecord:
    record = VersionRecord(name, version, state, reason)
    record.served = ServedModel(
        record,
        config=CONFIG,
        signature=None,
        statistics=None,
        scheduler=SimpleNamespace(instances=SimpleNamespace(all_ready=ready)),
        model=None,
    )
    table.entry(name).versions[version] = record
    table.publish()
    return record


@pytest.fixture
def table() -> ModelTable:
    return ModelTable()


def test_no_version_means_the_highest_ready_one(table: ModelTable) -> None:
    add(table, "m", 2, ModelState.READY)
    add(table, "m", 10, ModelState.READY)
    add(table, "m", 11, ModelState.UNAVAILABLE)
    assert table.find("m").version == 10
    assert table.find("m", 2).version == 2
    assert table.ready_versions("m") == (2, 10)


@pytest.mark.parametrize(
    ("name", "version", "code", "sentence"),
    [
        ("nope", None, Code.NOT_FOUND, "Request for unknown model: 'nope' is not found"),
        ("m", 9, Code.NOT_FOUND, "Request for unknown model: 'm' version 9 is not found"),
        ("m", 1, Code.UNAVAILABLE, "Request for unknown model: 'm' version 1 is not at ready state"),
        ("m", None, Code.NOT_FOUND, "Request for unknown model: 'm' has no available versions"),
    ],
)
def test_a_failed_look_up_says_why(
    table: ModelTable, name: str, version: int | None, code: Code, sentence: str
) -> None:
    add(table, "m", 1, ModelState.LOADING)
    with pytest.raises(InferError) as caught:
        table.find(name, version)
    assert (caught.value.code, str(caught.value)) == (code, sentence)


def test_the_index_lists_loaded_failed_and_merely_present_models(table: ModelTable) -> None:
    add(table, "b", 1, ModelState.READY)
    add(table, "b", 2, ModelState.UNAVAILABLE, "Internal: boom")
    table.list_repository(["a", "b"], ["twice"])
    assert table.index == (
        IndexEntry("a"),
        IndexEntry("b", "1", "READY"),
        IndexEntry("b", "2", "UNAVAILABLE", "Internal: boom"),
        IndexEntry("twice", state="UNAVAILABLE", reason="model appears in two or more repositories"),
    )


def test_a_model_that_is_in_no_repository_is_listed_until_it_is_unloaded(table: ModelTable) -> None:
    record = add(table, "m", 1, ModelState.READY)
    add(table, "n", 1, ModelState.UNAVAILABLE, UNLOADED)
    table.entry("asked for and refused")
    table.note_listed("n")
    table.publish()
    assert [entry.name for entry in table.index] == ["m", "n"]
    record.state, record.reason = ModelState.UNAVAILABLE, "Internal: boom"
    table.publish()
    assert [entry.name for entry in table.index] == ["m", "n"]
    record.reason = UNLOADED
    table.publish()
    assert table.index == (IndexEntry("n", "1", "UNAVAILABLE", UNLOADED),)
    assert table.entry("m").is_gone


@pytest.mark.parametrize(
    ("state", "instances", "ready"),
    [(ModelState.READY, True, True), (ModelState.READY, False, False), (ModelState.UNLOADING, True, False)],
)
def test_a_version_is_ready_with_all_its_instances(
    table: ModelTable, state: ModelState, instances: bool, ready: bool
) -> None:
    record = add(table, "m", 1, state, ready=instances)
    assert table.entry("m").ready(1) is (record.served if ready else None)
    assert table.entry("m").ready(2) is None


def test_a_model_whose_configuration_is_bad_shows_its_reason(table: ModelTable) -> None:
    table.entry("m").reason = "Invalid argument: config.pbtxt:3:1"
    table.publish()
    assert table.index == (IndexEntry("m", "", "UNAVAILABLE", "Invalid argument: config.pbtxt:3:1"),)
    assert not table.all_ready


@pytest.mark.parametrize(
    ("state", "reason", "instances", "ready"),
    [
        (ModelState.READY, "", True, True),
        (ModelState.READY, "instance 'm_0_0' was killed", False, False),
        (ModelState.LOADING, "", True, False),
        (ModelState.UNLOADING, "", True, False),
        (ModelState.UNAVAILABLE, UNLOADED, True, True),
        (ModelState.UNAVAILABLE, "Internal: boom", True, False),
    ],
)
def test_readiness_follows_states_and_instances(
    table: ModelTable, state: ModelState, reason: str, instances: bool, ready: bool
) -> None:
    add(table, "m", 1, state, reason, ready=instances)
    assert table.all_ready is ready


@pytest.mark.parametrize(
    ("any_ready", "state", "shown"),
    [
        (True, ModelState.READY, "READY"),
        (False, ModelState.READY, "UNAVAILABLE"),
        (True, ModelState.UNAVAILABLE, "READY"),
        (False, ModelState.UNLOADING, "UNLOADING"),
    ],
)
def test_what_an_instance_says_of_itself_shows_at_once(
    table: ModelTable, any_ready: bool, state: ModelState, shown: str
) -> None:
    record = add(table, "m", 1, state)
    assert record.served is not None
    record.served.scheduler.instances.any_ready = any_ready
    record.served.scheduler.instances.reason = "instance 'm_0_0' was killed"
    table.health_changed(record)
    assert table.index[0].state == shown
    assert (table.index[0].reason != "") is (state is not ModelState.UNLOADING)


def test_a_version_whose_workers_are_all_down_is_unavailable_with_its_reason(table: ModelTable) -> None:
    add(table, "m", 1, ModelState.UNAVAILABLE, "instance 'm_0_0' was killed by signal 9")
    for version in (None, 1):
        with pytest.raises(InferError, match=r"'m' version 1 is not at ready state: .*signal 9") as caught:
            table.find("m", version)
        assert caught.value.code is Code.UNAVAILABLE


def test_rows_are_the_index_with_what_is_loaded_for_it_whether_it_serves_or_not(table: ModelTable) -> None:
    ready = add(table, "m", 1, ModelState.READY)
    down = add(table, "m", 2, ModelState.UNAVAILABLE, "instance 'm_0_0' died")
    leaving = add(table, "m", 3, ModelState.UNLOADING)
    gone = add(table, "m", 4, ModelState.UNAVAILABLE, UNLOADED)
    gone.served = None
    table.list_repository(["m", "other"])
    assert [entry for entry, _ in table.rows] == list(table.index)
    assert [served for _, served in table.rows] == [ready.served, down.served, leaving.served, None, None]


def test_a_version_knows_where_its_instances_run(table: ModelTable) -> None:
    served = add(table, "m", 1, ModelState.READY).served
    assert served is not None
    assert served.placement == {
        "m_0_0": InstanceSpec("m_0_0", InstanceKind.GPU, 1),
        "m_0_1": InstanceSpec("m_0_1", InstanceKind.GPU, 1),
    }
