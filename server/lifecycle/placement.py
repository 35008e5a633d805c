"""Which instances a configuration asks for. Pure. Rules: Triton's ``instance_group``."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...backends.api.backend import InstanceSpec
from ...backends.api.model_config import InstanceKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...backends.api.model_config import Document, InstanceGroup, ModelConfig


@dataclass(frozen=True, slots=True)
class Place:
    """One instance. ``settings`` is what else its group says that makes it what it is, as JSON."""

    spec: InstanceSpec
    settings: str = "{}"

    def is_like(self, other: Place) -> bool:
        """Whether the two differ in their names at most."""
        return self.named(other.spec.name) == other

    def named(self, name: str) -> Place:
        """The same instance under a name."""
        return dataclasses.replace(self, spec=dataclasses.replace(self.spec, name=name))


def places(config: ModelConfig) -> tuple[Place, ...]:
    """One place an instance: ``count`` of each group, a GPU group's on every GPU it lists.

    Groups are complete here (autofill gave names, kinds, counts and GPUs). The name ``<group>_<index>`` is reused
    across the GPUs of a group, so a GPU's number is added where there are several. Passive instances are left out:
    nothing schedules them.
    """
    groups = config.instance_groups
    entries: list[Document] = config.document.get("instance_group") or [{} for _ in groups]
    return tuple(
        Place(spec, _settings(group, entry))
        for group, entry in zip(groups, entries, strict=True)
        if not group.passive
        for spec in _specs(group)
    )


def instances(config: ModelConfig) -> tuple[InstanceSpec, ...]:
    """The instances alone."""
    return tuple(place.spec for place in places(config))


def _specs(group: InstanceGroup) -> Iterator[InstanceSpec]:
    for index in range(group.count):
        name = f"{group.name}_{index}"
        if group.kind is not InstanceKind.GPU:
            yield InstanceSpec(name, group.kind)
        elif len(group.gpus) == 1:
            yield InstanceSpec(name, group.kind, group.gpus[0])
        else:
            yield from (InstanceSpec(f"{name}_gpu{gpu}", group.kind, gpu) for gpu in group.gpus)


def _settings(group: InstanceGroup, entry: Document) -> str:
    """What a group says besides the specs. An instance on one GPU does not care on which others there are some."""
    said = {"name", "kind", "count", *(("gpus",) if group.kind is InstanceKind.GPU else ())}
    return json.dumps({key: value for key, value in entry.items() if value and key not in said}, sort_keys=True)
