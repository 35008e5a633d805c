"""Which instances a configuration asks for. Pure. Rules: Triton's ``instance_group``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...backends.api.backend import InstanceSpec
from ...backends.api.model_config import InstanceKind

if TYPE_CHECKING:
    from ...backends.api.model_config import ModelConfig


def instances(config: ModelConfig) -> tuple[InstanceSpec, ...]:
    """One spec an instance: ``count`` of each group, a GPU group's on every GPU it lists.

    Groups are complete here (autofill gave names, kinds, counts and GPUs). The name ``<group>_<index>`` is reused
    across the GPUs of a group, so a GPU's number is added where there are several. Passive instances are left out:
    nothing schedules them.
    """
    specs: list[InstanceSpec] = []
    for group in config.instance_groups:
        if group.passive:
            continue
        for index in range(group.count):
            name = f"{group.name}_{index}"
            if group.kind is not InstanceKind.GPU:
                specs.append(InstanceSpec(name, group.kind))
            elif len(group.gpus) == 1:
                specs.append(InstanceSpec(name, group.kind, group.gpus[0]))
            else:
                specs.extend(InstanceSpec(f"{name}_gpu{gpu}", group.kind, gpu) for gpu in group.gpus)
    return tuple(specs)
