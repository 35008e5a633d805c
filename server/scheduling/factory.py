"""The scheduler that a configuration asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .default import DefaultScheduler
from .dynamic import DynamicScheduler
from .sequence import SequenceScheduler

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

    from ...backends.api.backend import LoopInstance
    from ...backends.api.model_config import ModelConfig
    from ..observe.statistics import ModelStatistics
    from .pool import PoolOptions
    from .scheduler import Scheduler


def make_scheduler(  # noqa: PLR0913  what a model version consists of; the options by name
    config: ModelConfig,
    instances: Mapping[str, LoopInstance],
    statistics: ModelStatistics,
    loop: asyncio.AbstractEventLoop,
    options: PoolOptions,
    *,
    hold: int = 0,
    backlog_hold: int = 0,
) -> Scheduler:
    """The batcher that the configuration has a section for, else the default scheduler."""
    if config.scheduling == "sequence_batching":
        return SequenceScheduler(config, instances, statistics, loop, options, hold=hold, backlog_hold=backlog_hold)
    if config.scheduling == "dynamic_batching":
        return DynamicScheduler(config, instances, statistics, loop, options, hold=hold)
    return DefaultScheduler(instances, statistics, loop, options, decoupled=config.decoupled)
