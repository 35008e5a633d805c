"""Making the instances of a model version and bringing them up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...backends.api.backend import ThreadInstance
from ...backends.api.errors import InferError, InvalidArgument, LoadFailed
from ..observe.logs import model_facts
from ..scheduling.instances import ThreadedInstance
from . import placement

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...backends.api.backend import InstanceSpec, LoopInstance, Model
    from ...backends.api.model_config import ModelConfig
    from .placement import Place


def places(config: ModelConfig) -> tuple[Place, ...]:
    """The instances that a configuration asks for. Raises InvalidArgument where nothing would execute."""
    found = placement.places(config)
    if not found:
        msg = f"model '{config.name}' has no instance that executes; give an instance_group that is not passive"
        raise InvalidArgument(msg)
    return found


def create(
    model: Model, specs: Iterable[InstanceSpec], version: int, loop: asyncio.AbstractEventLoop
) -> dict[str, LoopInstance]:
    """Make instances by their names, those that block on threads of their own. Nothing is started yet."""
    instances: dict[str, LoopInstance] = {}
    config = model.config
    for spec in specs:
        made = model.create_instance(spec)
        if isinstance(made, ThreadInstance):
            facts = model_facts(config.name, version)
            made = ThreadedInstance(spec.name, made, loop, decoupled=config.decoupled, facts=facts)
        instances[spec.name] = made
    return instances


async def load(instances: dict[str, LoopInstance]) -> None:
    """Load all instances at once; where one fails, raise the first failure when all of them are closed again."""
    try:
        await _load_all(instances)
    except BaseException:
        for instance in instances.values():
            await instance.close()
        raise


async def _load_all(instances: dict[str, LoopInstance]) -> None:
    outcomes = await asyncio.gather(*(instance.load() for instance in instances.values()), return_exceptions=True)
    for name, outcome in zip(instances, outcomes, strict=True):
        if isinstance(outcome, InferError):
            raise outcome
        if isinstance(outcome, BaseException):
            msg = f"instance '{name}' did not load: {type(outcome).__name__}: {outcome}"
            raise LoadFailed(msg) from outcome
