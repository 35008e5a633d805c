"""Instance groups become instances with Triton's names."""

from __future__ import annotations

from infer.backends.api.backend import InstanceSpec
from infer.backends.api.model_config import InstanceGroup, InstanceKind, ModelConfig
from infer.server.lifecycle.placement import Place, instances, places


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


def test_what_else_a_group_says_is_part_of_each_of_its_places() -> None:
    said = {"kind": "KIND_GPU", "count": 1, "gpus": [0, 1], "profile": ["2"], "host_policy": "", "passive": False}
    group = {"name": "g", **said}
    found = places(ModelConfig.from_document({"name": "m", "instance_group": [group]}))
    assert found == tuple(
        Place(InstanceSpec(f"g_0_gpu{gpu}", InstanceKind.GPU, gpu), '{"profile": ["2"]}') for gpu in (0, 1)
    )


def test_the_gpus_of_a_model_that_places_itself_belong_to_what_it_is() -> None:
    groups = [{"name": "g", "kind": "KIND_MODEL", "count": 1, "gpus": gpus} for gpus in ([0], [0, 1])]
    one, other = places(ModelConfig.from_document({"name": "m", "instance_group": groups}))
    assert not one.is_like(other)


def test_places_are_alike_whatever_they_are_called() -> None:
    one, other = (Place(InstanceSpec(name, InstanceKind.GPU, 1)) for name in ("a_0", "b_0"))
    assert one != other
    assert one.is_like(other)
    assert one.named("b_0") == other
    assert not one.is_like(Place(InstanceSpec("a_0", InstanceKind.GPU, 2)))
    assert not one.is_like(Place(InstanceSpec("a_0", InstanceKind.GPU, 1), '{"profile": ["1"]}'))
