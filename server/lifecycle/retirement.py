"""Versions on their way out: they take nothing more, answer what they hold, and are closed."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ..observe.logs import model_facts
from .states import UNLOADED, ModelState

if TYPE_CHECKING:
    from .models import ModelTable, ServedModel, VersionRecord

log = logging.getLogger("infer.lifecycle")


class Retirement:
    """The versions that drain. Serving loop only."""

    def __init__(self, table: ModelTable, loop: asyncio.AbstractEventLoop) -> None:
        self._table = table
        self._loop = loop
        self._retiring: dict[asyncio.Task[None], ServedModel] = {}

    def retire(self, record: VersionRecord, served: ServedModel) -> asyncio.Task[None]:
        """Take a version out of service and close it in the background when it is drained."""
        record.state = ModelState.UNLOADING
        record.reason = ""
        task = self._loop.create_task(self._close(record, served))
        self._retiring[task] = served
        task.add_done_callback(self._retiring.pop)
        return task

    @property
    def models(self) -> tuple[ServedModel, ...]:
        """What is not closed yet."""
        return tuple(self._retiring.values())

    async def finish(self) -> None:
        """Wait until all of them are closed."""
        if self._retiring:
            await asyncio.gather(*self._retiring)

    async def _close(self, record: VersionRecord, served: ServedModel) -> None:
        served.scheduler.accepting = False
        await served.scheduler.wait_idle()
        await close(served)
        record.served = None
        record.state = ModelState.UNAVAILABLE
        record.reason = UNLOADED
        self._table.publish()
        facts = model_facts(record.name, record.version)
        log.info("successfully unloaded '%s' version %d", record.name, record.version, extra=facts)


async def close(served: ServedModel) -> None:
    """Close what serves a version: its instances, the model, and the folder that was made for it.

    A model that does not close cleanly is told of in the log; it is gone all the same.
    """
    try:
        await served.scheduler.close()
        await served.model.close()
    except Exception:
        facts = model_facts(served.name, served.version)
        log.exception("model '%s' version %d did not close cleanly", served.name, served.version, extra=facts)
    finally:
        if served.private is not None:
            await served.private.release()
