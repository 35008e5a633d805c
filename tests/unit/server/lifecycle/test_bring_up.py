"""Instances are made under their names and come up together, or not at all."""

from __future__ import annotations

import asyncio

import pytest

from infer.backends.api.backend import InstanceSpec, LoopInstance, Model, ThreadInstance
from infer.backends.api.errors import InvalidArgument, LoadFailed
from infer.backends.api.model_config import InstanceGroup, InstanceKind, ModelConfig
from infer.server.lifecycle import bring_up
from infer.server.scheduling.instances import ThreadedInstance

CPU = InstanceKind.CPU


class Elsewhere(LoopInstance):
    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error
        self.closed = 0

    async def load(self) -> None:
        if self.error is not None:
            raise self.error

    def execute(self, batch: object, done: object) -> None:
        raise AssertionError

    def cancel(self, execution: object) -> None:
        raise AssertionError

    async def close(self) -> None:
        self.closed += 1


class Blocking(ThreadInstance):
    def load(self) -> None:
        return

    def execute(self, batch: object) -> None:
        raise AssertionError


class Mixed(Model):
    config = ModelConfig("m")

    def create_instance(self, spec: InstanceSpec) -> LoopInstance | ThreadInstance:
        return Blocking() if spec.name == "blocking" else Elsewhere()


async def test_what_blocks_gets_a_thread_of_its_own_and_the_rest_is_taken_as_it_is() -> None:
    specs = [InstanceSpec(name, CPU) for name in ("blocking", "elsewhere")]
    instances = bring_up.create(Mixed(), specs, 1, asyncio.get_running_loop())
    assert [type(each) for each in instances.values()] == [ThreadedInstance, Elsewhere]
    await bring_up.load(instances)
    for instance in instances.values():
        await instance.close()


@pytest.mark.parametrize(
    ("error", "words"),
    [(LoadFailed("no room"), "no room"), (KeyError("x"), "instance 'bad' did not load: KeyError: 'x'")],
)
async def test_one_that_fails_closes_them_all(error: Exception, words: str) -> None:
    instances = {"good": Elsewhere(), "bad": Elsewhere(error), "worse": Elsewhere(LoadFailed("the second reason"))}
    with pytest.raises(LoadFailed, match=words):
        await bring_up.load(dict(instances))
    assert [each.closed for each in instances.values()] == [1, 1, 1]


async def test_none_is_no_failure() -> None:
    await bring_up.load({})


def test_a_configuration_without_an_instance_that_executes_is_refused() -> None:
    assert len(bring_up.places(ModelConfig("m", instance_groups=(InstanceGroup("m", CPU, 2),)))) == 2
    for groups in ((), (InstanceGroup("m", CPU, 1, passive=True),)):
        with pytest.raises(InvalidArgument, match="model 'm' has no instance that executes"):
            bring_up.places(ModelConfig("m", instance_groups=groups))
