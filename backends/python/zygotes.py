"""The zygotes of a backend: one of the server's own interpreter, and one an execution environment in use."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from .environments import cache
from .process import Zygote

if TYPE_CHECKING:
    from ..api.backend import BackendContext
    from .environments.environment import Environment
    from .process import WorkerProcess


class Zygotes:
    """Zygotes by environment. Serving loop only."""

    def __init__(self, context: BackendContext) -> None:
        self._context = context
        self.own = Zygote(context)
        """That of the server's own interpreter."""
        self._others: dict[Environment, Zygote] = {}
        self._starting = asyncio.Lock()

    async def of(self, environment: Environment | None) -> Zygote:
        """The zygote of an environment, None for the server's own interpreter. Raises LoadFailed."""
        if environment is None:
            return self.own
        async with self._starting:
            zygote = self._others.get(environment)
            if zygote is None:
                code = await self._context.run_blocking(cache.worker_code, os.environ)
                zygote = self._others[environment] = Zygote(self._context, environment, environment.command(code))
        return zygote

    async def retire(self, environment: Environment) -> None:
        """Nothing runs in an environment any more: end its zygote."""
        zygote = self._others.pop(environment, None)
        if zygote is not None:
            await zygote.stop()

    async def stop(self) -> None:
        """End all of them, and with them every worker that is left."""
        others, self._others = self._others, {}
        await asyncio.gather(self.own.stop(), *(zygote.stop() for zygote in others.values()))


class Spawner:
    """Spawns the workers of one model: in its environment, with its bound on memory."""

    def __init__(self, zygotes: Zygotes, environment: Environment | None = None, memory_limit: int = 0) -> None:
        self._zygotes = zygotes
        self._environment = environment
        self._memory_limit = memory_limit

    async def spawn(self, name: str, labels: dict[str, Any]) -> WorkerProcess:
        """A new worker. Raises LoadFailed where none can be had."""
        zygote = await self._zygotes.of(self._environment)
        return await zygote.spawn(name, labels, memory_limit=self._memory_limit)
