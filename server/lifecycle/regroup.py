"""Other instance groups for a version that goes on serving: what both ask for stays as it is, with its state.

Which instance is which is decided as Triton does: by kind, device and all that the group says, but for its name and
its count. So instances stay where a group was renamed, and bear their old names.

An instance that stays is told nothing: what it was given at its start (the configuration that a Python model's
``initialize`` gets) is as it was, also where its worker is started again.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ..observe.logs import model_facts
from . import bring_up

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from ...backends.api.backend import LoopInstance
    from ...backends.api.model_config import ModelConfig
    from .models import ServedModel
    from .placement import Place

log = logging.getLogger("infer.lifecycle")


class Change(NamedTuple):
    """What becomes of the instances of a version. ``kept`` bear the names that they have."""

    kept: tuple[Place, ...]
    missing: tuple[Place, ...]
    surplus: tuple[Place, ...]


def change(now: Sequence[Place], wanted: Sequence[Place]) -> Change:
    """Which instances stay, are missing and are too many. Pure.

    Of equal instances those stay whose names are wanted. A new one whose name is borne by one that stays gets the
    name which that one would have, so that every name is its own.
    """
    left = {place.spec.name: place for place in now}
    stands_for: dict[str, str] = {}
    for place in wanted:
        if left.get(place.spec.name) == place:
            del left[place.spec.name]
            stands_for[place.spec.name] = place.spec.name
    missing: list[Place] = []
    for place in wanted:
        if place.spec.name in stands_for and stands_for[place.spec.name] == place.spec.name:
            continue
        like = next((name for name, other in left.items() if other.is_like(place)), None)
        if like is None:
            missing.append(place)
        else:
            del left[like]
            stands_for[like] = place.spec.name
    kept = tuple(place for place in now if place.spec.name in stands_for)
    return Change(kept, tuple(_named_apart(place, stands_for) for place in missing), tuple(left.values()))


def _named_apart(place: Place, stands_for: dict[str, str]) -> Place:
    name = place.spec.name
    while name in stands_for:
        name = stands_for[name]
    return place.named(name)


@dataclass(frozen=True, slots=True)
class Regrouping:
    """A change that is ready: the instances in ``added`` are up, and nothing else has happened yet."""

    served: ServedModel
    config: ModelConfig
    change: Change
    added: dict[str, LoopInstance]

    @property
    def version(self) -> int:
        """The version that is changed."""
        return self.served.version

    def apply(self) -> None:
        """From here on the version has these groups. What is too many ends what it has, and is closed behind it."""
        served, (kept, missing, surplus) = self.served, self.change
        served.config = served.model.config = self.config
        if not missing and not surplus:
            return
        served.places = (*kept, *missing)
        scheduler = served.scheduler
        scheduler.leaving.take(scheduler.instances.regroup(self.added, [place.spec.name for place in surplus]))
        log.info(
            "instances of '%s' version %d changed: %d kept, %d added, %d removed",
            *(served.name, served.version, len(kept), len(missing), len(surplus)),
            extra=model_facts(served.name, served.version),
        )

    async def abandon(self) -> None:
        """Close what was brought up; the version serves as it did."""
        for instance in self.added.values():
            await instance.close()


async def prepare(served: ServedModel, config: ModelConfig, loop: asyncio.AbstractEventLoop) -> Regrouping:
    """Bring up what a version that serves has too little of for a configuration that differs in its groups.

    Raises InferError where that fails; the version serves as it did.
    """
    found = change(served.places, bring_up.places(config))
    model, before = served.model, served.model.config
    model.config = config
    try:
        added = bring_up.create(model, [place.spec for place in found.missing], served.version, loop)
    finally:
        model.config = before
    await bring_up.load(added)
    return Regrouping(served, config, found, added)
