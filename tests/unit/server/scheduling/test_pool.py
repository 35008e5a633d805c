"""A picture of the instances says what each is doing and how often its worker was started again."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from infer.backends.api.backend import InstanceState

if TYPE_CHECKING:
    from conftest import Bench, MakeBench

    from infer.server.scheduling.pool import InstancePicture


@pytest.fixture
async def bench(make_bench: MakeBench) -> Bench:
    return make_bench(2)


def states(bench: Bench) -> list[str]:
    return [picture.state for picture in bench.scheduler.instances.pictures()]


def first(bench: Bench) -> InstancePicture:
    return bench.scheduler.instances.pictures()[0]


async def test_instances_are_idle_until_they_have_a_batch_and_again_afterwards(bench: Bench) -> None:
    assert states(bench) == ["idle", "idle"]
    bench.submit("a")
    assert sorted(states(bench)) == ["busy", "idle"]
    bench.submit("b")
    assert states(bench) == ["busy", "busy"]
    for instance in bench.instances:
        instance.finish()
    assert states(bench) == ["idle", "idle"]


async def test_an_instance_has_its_name_and_the_pid_of_its_worker_if_it_has_one(bench: Bench) -> None:
    assert [(each.name, each.pid) for each in bench.scheduler.instances.pictures()] == [("m_0_0", 0), ("m_0_1", 0)]


async def test_a_worker_that_died_restarts_and_that_is_counted_when_it_is_back(bench: Bench) -> None:
    observer = bench.instances[0].observer
    for restarts in (1, 2):
        observer(InstanceState.RESTARTING, "was killed")
        observer(InstanceState.RESTARTING, "was killed by signal 9")
        assert (first(bench).state, first(bench).restarts) == ("restarting", restarts - 1)
        observer(InstanceState.READY, "")
        assert (first(bench).state, first(bench).restarts) == ("idle", restarts)


async def test_a_worker_that_was_given_up_is_dead(bench: Bench) -> None:
    bench.instances[0].observer(InstanceState.RESTARTING, "was killed")
    bench.instances[0].observer(InstanceState.FAILED, "was killed too often")
    assert states(bench) == ["dead", "idle"]
    assert first(bench).restarts == 0


async def test_an_instance_that_is_late_is_dead_until_it_comes_back_which_is_no_restart(make_bench: MakeBench) -> None:
    bench = make_bench(1, execute_timeout_s=0.001)
    bench.submit("a")
    await bench.ended
    assert states(bench) == ["dead"]
    bench.instances[0].finish(respond=False)
    assert (first(bench).state, first(bench).restarts) == ("idle", 0)


async def test_a_batch_that_is_done_before_its_turn_leaves_the_one_before_it_alone(make_bench: MakeBench) -> None:
    bench = make_bench(1, depth=2)
    bench.submit("a")
    bench.instances[0].finish()
    for name in "bcd":
        bench.submit(name)
    bench.instances[0].finish(1)
    assert bench.outcomes == {"a": None, "c": None}
    assert bench.executing() == ["b"]
    assert bench.statistics.pending == 1
    for _ in "bd":
        bench.instances[0].finish()
    assert bench.outcomes == {"a": None, "c": None, "b": None, "d": None}
    assert (bench.statistics.pending, bench.scheduler.in_flight) == (0, 0)


async def test_a_line_about_an_instance_names_its_model(
    make_bench: MakeBench, caplog: pytest.LogCaptureFixture
) -> None:
    bench = make_bench(1, execute_timeout_s=0.001)
    with caplog.at_level(logging.ERROR, "infer.scheduling"):
        bench.submit("a")
        await bench.ended
    (record,) = caplog.records
    facts = vars(record)
    assert (facts["model"], facts["version"], facts["instance"]) == ("m", 1, "m_0_0")
    bench.instances[0].finish(respond=False)
