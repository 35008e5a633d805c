"""Instance groups become instances with Triton's names."""

from __future__ import annotations

from infer.backends.api.backend import InstanceSpec
from infer.backends.api.model_config import InstanceGroup, InstanceKind, ModelConfig
from infer.server.lifecycle.placement import instances


def specs(*groups: InstanceGroup) -> tuple[InstanceSpec, ...]:
    return instances(ModelConfig("m", instance_groups=groups))


def test_a_cpu_group_gives_count_instances_that_are_numbered() -> None:
    assert specs(InstanceGroup("m_0", InstanceKind.CPU, 2)) == (
        InstanceSpec("m_0_0", InstanceKind.CPU),
        InstanceSpec("m_0_1", InstanceKind.CPU),
    )


def test_a_gpu_group_gives_count_instances_on_each_gpu() -> None:
    found = specs(InstanceGroup("g", InstanceKind.GPU, 2, gpus=(0, 3)))
    assert [(spec.device_id, spec.name) for spec in found] == [
        (0, "g_0_gpu0"), (3, "g_0_gpu3"), (0, "g_1_gpu0"), (3, "g_1_gpu3"),
    ]  # fmt: skip
    assert specs(InstanceGroup("g", InstanceKind.GPU, 1, gpus=(2,))) == (InstanceSpec("g_0", InstanceKind.GPU, 2),)


def test_every_name_is_its_own() -> None:
    found = specs(InstanceGroup("g", InstanceKind.GPU, 2, gpus=(0, 1)), InstanceGroup("c", InstanceKind.CPU, 3))
    assert len({spec.name for spec in found}) == len(found) == 7


def test_passive_groups_give_none() -> None:
    assert specs(InstanceGroup("m", InstanceKind.CPU, 1, passive=True)) == ()
