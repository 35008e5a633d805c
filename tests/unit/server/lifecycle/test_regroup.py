"""Other instance groups: which instances stay, as a table; and a version that is changed while it serves."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from infer.backends.api.errors import Code
from infer.backends.api.model_config import ModelConfig
from infer.server.lifecycle.overrides import LoadOverrides
from infer.server.lifecycle.placement import places
from infer.server.lifecycle.regroup import change

if TYPE_CHECKING:
    from tests.unit.server.lifecycle.conftest import Rig

LIMIT_S = 20


def cpu(count: int, name: str = "m", **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": "KIND_CPU", "count": count, **more}


def gpu(count: int, *gpus: int, name: str = "m", **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": "KIND_GPU", "count": count, "gpus": list(gpus), **more}


def outcome(now: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> tuple[list[str], list[str], list[str]]:
    """The names of what stays, is missing and is too many."""
    before, after = (places(ModelConfig.from_document({"name": "m", "instance_group": each})) for each in (now, wanted))
    found = change(before, after)
    kept, missing, surplus = ([place.spec.name for place in each] for each in found)
    assert sorted(kept + surplus) == sorted(place.spec.name for place in before)
    assert len(set(kept + missing)) == len(after), "every name is its own"
    return kept, missing, surplus


@pytest.mark.parametrize(
    ("now", "wanted", "kept", "missing", "surplus"),
    [
        ([cpu(1)], [cpu(3)], ["m_0"], ["m_1", "m_2"], []),
        ([cpu(3)], [cpu(2)], ["m_0", "m_1"], [], ["m_2"]),
        ([cpu(2)], [cpu(2)], ["m_0", "m_1"], [], []),
        ([cpu(2, "a")], [cpu(3, "b")], ["a_0", "a_1"], ["b_2"], []),
        ([cpu(2, "a")], [cpu(1, "b")], ["a_0"], [], ["a_1"]),
        ([cpu(2)], [cpu(1), cpu(1, "n")], ["m_0", "m_1"], [], []),
        ([cpu(1)], [gpu(1, 0)], [], ["m_0"], ["m_0"]),
        ([gpu(1, 0)], [gpu(1, 1)], [], ["m_0"], ["m_0"]),
        ([gpu(1, 0)], [gpu(1, 0, 1)], ["m_0"], ["m_0_gpu1"], []),
        ([gpu(1, 0, 1)], [gpu(1, 1)], ["m_0_gpu1"], [], ["m_0_gpu0"]),
        ([cpu(1)], [cpu(1, host_policy="near")], [], ["m_0"], ["m_0"]),
        ([gpu(1, 0, profile=["1"])], [gpu(2, 0, profile=["1"])], ["m_0"], ["m_1"], []),
        ([cpu(1, profile=[])], [cpu(1)], ["m_0"], [], []),
        ([cpu(2)], [cpu(1), cpu(1, "passive", passive=True)], ["m_0"], [], ["m_1"]),
        ([cpu(1, "a")], [gpu(1, 0, name="a"), cpu(1, "b")], ["a_0"], ["b_0"], []),
        (
            [cpu(1, "a"), gpu(1, 0, name="b")],
            [gpu(1, 1, name="a"), cpu(1, "b"), gpu(1, 0, name="c")],
            ["a_0", "b_0"],
            ["c_0"],
            [],
        ),
    ],
    ids=[
        "more", "fewer", "the same", "renamed and more", "renamed and fewer", "divided", "another kind",
        "another device", "one device more", "one device less", "another setting", "more with a setting",
        "a setting that says nothing", "some passive", "a name that is taken", "a name that is taken in turn",
    ],
)  # fmt: skip
def test_what_both_groups_ask_for_stays(
    now: list[dict[str, Any]], wanted: list[dict[str, Any]], kept: list[str], missing: list[str], surplus: list[str]
) -> None:
    assert outcome(now, wanted) == (kept, missing, surplus)


def test_a_kept_instance_that_bears_an_old_name_is_recognised_by_the_next_change() -> None:
    first = places(ModelConfig.from_document({"name": "m", "instance_group": [cpu(1, "a")]}))
    wanted = places(ModelConfig.from_document({"name": "m", "instance_group": [cpu(2, "b")]}))
    found = change(first, wanted)
    again = change((*found.kept, *found.missing), wanted)
    assert (again.missing, again.surplus) == ((), ())


def count(number: int, more: str = "") -> str:
    return f"instance_group [{{ kind: KIND_CPU count: {number} }}]\n" + more


def names(rig: Rig) -> list[str]:
    return [picture.name for picture in rig.engine.find("m").scheduler.instances.pictures()]


async def closed(rig: Rig) -> None:
    """Wait until the instances are gone that were left over."""
    await asyncio.wait_for(rig.engine.find("m").scheduler.leaving.finish(), LIMIT_S)


async def test_instances_are_added_and_removed_and_the_rest_is_not_touched(rig: Rig) -> None:
    rig.add("m", count(1))
    await rig.engine.load("m")
    served, slot = rig.engine.find("m"), rig.engine.find("m").scheduler.instances.slots[0]
    assert (await rig.send("m")).error is None
    rig.script.events.clear()
    rig.add("m", count(3))
    await rig.engine.load("m")
    assert sorted(rig.script.events) == ["instance m_0_1", "instance m_0_2"]
    assert rig.engine.find("m") is served
    assert served.scheduler.instances.slots[0] is slot
    assert names(rig) == list(served.placement) == ["m_0_0", "m_0_1", "m_0_2"]
    assert served.config.instance_groups[0].count == served.model.config.instance_groups[0].count == 3
    rig.script.events.clear()
    rig.add("m", count(2))
    await rig.engine.load("m")
    await closed(rig)
    assert rig.script.events == ["end m_0_2"]
    assert names(rig) == list(served.placement) == ["m_0_0", "m_0_1"]
    assert (await rig.send("m")).error is None
    assert rig.engine.statistics("m", "1")[0].success.count == 2, "statistics go on"
    assert rig.reasons() == {"1": "READY"}


async def test_an_override_changes_the_groups_and_a_plain_load_leaves_them_so(rig: Rig) -> None:
    rig.add("m", count(1))
    await rig.engine.load("m")
    rig.script.events.clear()
    text = rig.config_text(instance_group=[{"kind": "KIND_CPU", "count": 2}])
    for overrides in (LoadOverrides(config=text), None, LoadOverrides(config=text)):
        await rig.engine.load("m", overrides)
        assert names(rig) == ["m_0_0", "m_0_1"]
    assert rig.script.events == ["instance m_0_1"]


@pytest.mark.parametrize("wrong", ["instance", "creation", "passive"])
async def test_an_instance_that_does_not_come_up_fails_the_load_and_leaves_all_as_it_was(
    rig: Rig, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.add("m", count(1))
    await rig.engine.load("m")
    served = rig.engine.find("m")
    rig.script.events.clear()
    rig.add("m", count(3))
    reason, events = "Internal: RuntimeError: no licence", ["instance m_0_1", "end m_0_1", "end m_0_2"]
    if wrong == "instance":
        rig.script.instance["m_0_2"] = RuntimeError("no licence")
    elif wrong == "creation":

        def refuse(spec: object) -> None:
            raise RuntimeError("no licence")

        monkeypatch.setattr(served.model, "create_instance", refuse)
        events = []
    else:
        rig.add("m", "instance_group [{ kind: KIND_CPU count: 1 passive: true }]")
        reason, events = "Invalid argument: model 'm' has no instance that executes", []
    for _ in range(2):
        error = await rig.refusal("m")
        assert error.code is Code.INVALID_ARG
        assert f"load failed for model 'm': version 1 is at UNAVAILABLE state: {reason}" in str(error)
        assert rig.script.events == events
        rig.script.events.clear()
    assert rig.reasons() == {"1": "READY"}
    assert rig.engine.find("m") is served
    assert names(rig) == list(served.placement) == ["m_0_0"]
    assert served.config.instance_groups[0].count == served.model.config.instance_groups[0].count == 1
    assert (await rig.send("m")).error is None


async def test_a_version_that_fails_beside_a_changed_one_ends_the_change_too(rig: Rig) -> None:
    policy = "version_policy { all {} }\n"
    rig.add("m", count(1, policy))
    await rig.engine.load("m")
    rig.script.events.clear()
    rig.script.load[2] = RuntimeError("no room")
    rig.add("m", count(2, policy), versions=(1, 2))
    assert "version 2 is at UNAVAILABLE state" in str(await rig.refusal("m"))
    assert rig.script.events == ["instance m_0_1", "end m_0_1"]
    assert names(rig) == ["m_0_0"]
    rig.script.load.clear()
    await rig.engine.load("m")
    assert names(rig) == ["m_0_0", "m_0_1"], "of version 2"
    assert len(rig.engine.find("m", 1).scheduler.instances.slots) == 2


async def test_an_instance_that_is_too_many_answers_what_it_executes_and_what_waits_goes_to_the_others(
    rig: Rig,
) -> None:
    rig.add("m", count(2))
    await rig.engine.load("m")
    rig.script.may_answer.clear()
    rig.script.events.clear()
    answers = [rig.send("m") for _ in range(7)]
    await rig.script.until_executing()
    rig.add("m", count(1))
    await rig.engine.load("m")
    assert rig.script.events == [], "it executes"
    assert names(rig) == ["m_0_0"]
    rig.script.may_answer.set()
    for answer in answers:
        assert (await asyncio.wait_for(answer, LIMIT_S)).error is None
    await closed(rig)
    assert rig.script.events == ["end m_0_1"]
    assert rig.engine.statistics("m", "1")[0].success.count == 7


async def test_an_unload_waits_for_an_instance_that_leaves(rig: Rig) -> None:
    rig.add("m", count(2))
    await rig.engine.load("m")
    rig.script.may_answer.clear()
    answers = [rig.send("m") for _ in range(2)]
    await rig.script.until_executing()
    rig.add("m", count(1))
    await rig.engine.load("m")
    unloading = asyncio.ensure_future(rig.engine.unload("m"))
    rig.script.may_answer.set()
    assert [(await answer).error for answer in answers] == [None, None]
    await asyncio.wait_for(unloading, LIMIT_S)
    assert sorted(rig.script.events[-3:-1]) == ["end m_0_0", "end m_0_1"]
    assert rig.script.events[-1] == "close 1"


async def test_a_model_with_sequences_is_loaded_anew(rig: Rig) -> None:
    rig.add("m", count(1, "sequence_batching {}\n"))
    await rig.engine.load("m")
    rig.add("m", count(2, "sequence_batching {}\n"))
    await rig.engine.load("m")
    assert rig.opened() == [1, 1]
    assert names(rig) == ["m_0_0", "m_0_1"]


async def test_a_server_that_stops_meanwhile_leaves_no_new_instance(rig: Rig) -> None:
    rig.add("m", count(1))
    await rig.engine.load("m")
    rig.script.hold = {2}
    rig.script.may_load.clear()
    rig.script.instance_up.clear()
    rig.add("m", count(2, "version_policy { all {} }\n"), versions=(1, 2))
    loading = asyncio.ensure_future(rig.engine.load("m"))
    await asyncio.wait_for(rig.script.instance_up.wait(), LIMIT_S)
    stopping = asyncio.ensure_future(rig.engine.stop())
    rig.script.may_load.set()
    await asyncio.wait_for(stopping, LIMIT_S)
    await asyncio.gather(loading, return_exceptions=True)
    started = [event.split()[1] for event in rig.script.events if event.startswith("instance")]
    ended = [event.split()[1] for event in rig.script.events if event.startswith("end")]
    assert sorted(started) == sorted(ended)
    assert "m_0_1" in started
