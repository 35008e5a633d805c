"""The backends in use: made on first need, started once, stopped together."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import TYPE_CHECKING, Protocol, cast

from ...backends import catalog
from ...backends.api.backend import BackendContext
from ...backends.api.errors import InferError, InvalidArgument, LoadFailed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ...backends.api.backend import Backend, Model, ModelFiles, RunBlocking
    from ...backends.api.call import ModelCaller
    from ...backends.api.control import ModelControl
    from ...backends.api.custom_metrics import CustomMetrics
    from ...backends.api.model_config import ModelConfig

log = logging.getLogger("infer.lifecycle")

_PROGRAM_HOST = "python"
_PROGRAM = "model.py"
_FOLDER_NAME = re.compile(r"[^./][^/]*")


class _ProgramHost(Protocol):
    """The backend that runs Python programs of others."""

    async def load_program(self, config: ModelConfig, files: ModelFiles, program: Path) -> Model: ...

    def serve_programs(self, folder: Path) -> Backend: ...


class Backends:
    """Backends by name. Serving loop only.

    ``options`` maps a backend's name to its ``--backend-config`` settings; those under "" are for all. A name that is
    not one of ours is looked for in ``directory``: its folder there holds the ``model.py`` of a Python-based backend.
    """

    def __init__(  # noqa: PLR0913  what the composition root gives on
        self,
        loop: asyncio.AbstractEventLoop,
        run_blocking: RunBlocking,
        caller: ModelCaller,
        *,
        control: ModelControl,
        metrics: CustomMetrics,
        options: Mapping[str, Mapping[str, str]],
        worker_command: tuple[str, ...] = (),
        directory: Path | None = None,
        load_timeout_s: float = 0.0,
    ) -> None:
        self._loop = loop
        self._run_blocking = run_blocking
        self._caller = caller
        self._control = control
        self._metrics = metrics
        self._options = options
        self._worker_command = worker_command
        self._directory = directory
        self._load_timeout_s = load_timeout_s
        self._starting: dict[str, asyncio.Task[Backend]] = {}

    async def get(self, name: str) -> Backend:
        """The backend, started. Raises InvalidArgument for an unknown one and LoadFailed for one that cannot run."""
        task = self._starting.get(name)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = self._starting[name] = self._loop.create_task(self._start(name))
        return await asyncio.shield(task)

    async def stop(self) -> None:
        """Stop every backend; all models are closed before."""
        tasks, self._starting = self._starting, {}
        for name, task in tasks.items():
            try:
                backend = await task
                await backend.stop()
            except InferError:
                continue
            except Exception:
                log.exception("backend '%s' did not stop cleanly", name)

    async def _load_program(self, config: ModelConfig, files: ModelFiles, program: Path) -> Model:
        """Hand a backend's program to the one that has worker processes."""
        host = cast("_ProgramHost", await self.get(_PROGRAM_HOST))
        return await host.load_program(config, files, program)

    async def _program_backend(self, name: str) -> Backend | None:
        """The Python-based backend of that name, None where there is none."""
        if self._directory is None or catalog.is_ours(name) or not _FOLDER_NAME.fullmatch(name):
            return None
        folder = self._directory / name
        if not await self._run_blocking(_holds_program, folder):
            return None
        host = cast("_ProgramHost", await self.get(_PROGRAM_HOST))
        return host.serve_programs(folder)

    async def _start(self, name: str) -> Backend:
        found = await self._program_backend(name)
        if found is not None:
            return found
        context = BackendContext(
            loop=self._loop,
            run_blocking=self._run_blocking,
            caller=self._caller,
            options={**self._options.get("", {}), **self._options.get(name, {})},
            worker_command=self._worker_command,
            load_program=self._load_program,
            load_timeout_s=self._load_timeout_s,
            control=self._control,
            metrics=self._metrics,
        )
        try:
            backend = await self._run_blocking(catalog.create, name, context)
        except InvalidArgument as exc:
            if self._directory is None or catalog.is_ours(name):
                raise
            msg = f"{exc}; there is no '{self._directory / name / _PROGRAM}' either"
            raise InvalidArgument(msg) from exc
        try:
            await backend.start()
        except OSError as exc:
            msg = f"backend '{name}' did not start: {exc}"
            raise LoadFailed(msg) from exc
        return backend


def _holds_program(folder: Path) -> bool:
    """Whether a folder of the backend directory is that of a Python-based backend. Blocking."""
    return any(folder.glob("*.py"))
