"""Everything of the service that is not inference: health, metadata, statistics, and the repository."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from google.protobuf import json_format

from ...backends.api.errors import Unsupported
from ..repository import schema
from ..wire import control, describe
from ..wire.control import NO_REPOSITORY_NAME, check_control
from ..wire.refusals import check_not_exiting
from .codec import read_version
from .messages import message

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from ..engine import Engine

ANSWERED = (
    "ServerLive", "ServerReady", "ModelReady", "ServerMetadata", "ModelMetadata", "ModelConfig", "ModelStatistics",
    "RepositoryIndex", "RepositoryModelLoad", "RepositoryModelUnload",
)  # fmt: skip
"""Calls that :class:`Servicer` has a method for."""

_SHARED_MEMORY = "send tensors in the requests and take them from the responses"
NOT_OFFERED: dict[str, str] = {
    "SystemSharedMemoryStatus": _SHARED_MEMORY,
    "SystemSharedMemoryRegister": _SHARED_MEMORY,
    "SystemSharedMemoryUnregister": _SHARED_MEMORY,
    "CudaSharedMemoryStatus": _SHARED_MEMORY,
    "CudaSharedMemoryRegister": _SHARED_MEMORY,
    "CudaSharedMemoryUnregister": _SHARED_MEMORY,
    "TraceSetting": "there is nothing to set, because requests are not traced",
    "LogSettings": "choose what is logged with the flags --log-... when the server starts",
}
"""Calls of the protocol that this server does not answer yet, and what to do instead."""


class Servicer:
    """A method a call, named as the call: the request's message in, the response's message out. Raises InferError."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._changes: set[asyncio.Task[None]] = set()

    async def ServerLive(self, _request: Any) -> Any:  # noqa: ANN401, N802  protobuf; the protocol's name
        """Whether the server runs."""
        check_not_exiting(self._engine)
        return message("ServerLiveResponse")(live=self._engine.live)

    async def ServerReady(self, _request: Any) -> Any:  # noqa: ANN401, N802  as above
        """Whether the server takes requests."""
        check_not_exiting(self._engine)
        return message("ServerReadyResponse")(ready=await self._engine.probe_server_ready())

    async def ModelReady(self, request: Any) -> Any:  # noqa: ANN401, N802  as above
        """Whether a model takes requests; False for one that nobody knows."""
        ready = await self._engine.probe_ready(request.name, read_version(request.version))
        return message("ModelReadyResponse")(ready=ready)

    async def ServerMetadata(self, _request: Any) -> Any:  # noqa: ANN401, N802  as above
        """Name, version and extensions."""
        engine = self._engine
        return _filled(
            "ServerMetadataResponse", describe.server_metadata(engine.server_id, engine.version, engine.extensions)
        )

    async def ModelMetadata(self, request: Any) -> Any:  # noqa: ANN401, N802  as above
        """What a model takes and gives."""
        number = read_version(request.version)
        found = self._engine.find(request.name, number)
        versions = self._engine.ready_versions(request.name) if number is None else (number,)
        return _filled("ModelMetadataResponse", describe.model_metadata(found, versions))

    async def ModelConfig(self, request: Any) -> Any:  # noqa: ANN401, N802  as above
        """A model's whole configuration."""
        found = self._engine.find(request.name, read_version(request.version))
        config = schema.to_message(describe.model_config(found), source=found.name)
        return message("ModelConfigResponse")(config=config)

    async def ModelStatistics(self, request: Any) -> Any:  # noqa: ANN401, N802  as above
        """The counters of one version, one model or all."""
        number = read_version(request.version)
        snapshots = self._engine.statistics(request.name, "" if number is None else str(number))
        return _filled("ModelStatisticsResponse", describe.statistics(snapshots))

    async def RepositoryIndex(self, request: Any) -> Any:  # noqa: ANN401, N802  as above
        """Models, versions, states and reasons."""
        if request.repository_name:
            raise Unsupported(NO_REPOSITORY_NAME)
        return _filled(
            "RepositoryIndexResponse", {"models": describe.index(self._engine.index(ready_only=request.ready))}
        )

    async def RepositoryModelLoad(self, request: Any) -> Any:  # noqa: ANN401, N802  as above
        """Load a model, or load it anew."""
        check_control(self._engine, request.model_name, request.repository_name)
        overrides = control.load_overrides(_values(request.parameters), control.GRPC_WORDS)
        await self._finish(self._engine.load(request.model_name, overrides))
        return message("RepositoryModelLoadResponse")()

    async def RepositoryModelUnload(self, request: Any) -> Any:  # noqa: ANN401, N802  as above
        """Stop serving a model; one that nobody knows is no error. What it holds is still answered."""
        check_control(self._engine, request.model_name, request.repository_name)
        dependents = control.unload_dependents(_values(request.parameters), control.GRPC_WORDS)
        await self._finish(self._engine.unload(request.model_name, wait=False, unload_dependents=dependents))
        return message("RepositoryModelUnloadResponse")()

    async def _finish(self, change: Coroutine[Any, Any, None]) -> None:
        """Let a change of the repository come to its end, also where its caller does not wait for it."""
        task = asyncio.get_running_loop().create_task(change)
        self._changes.add(task)
        task.add_done_callback(self._changed)
        await asyncio.shield(task)

    def _changed(self, task: asyncio.Task[None]) -> None:
        self._changes.discard(task)
        if not task.cancelled():
            task.exception()  # its caller has it, or has gone away


def _values(given: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters' values; None for one that has none."""
    values: dict[str, Any] = {}
    for key, parameter in given.items():
        kind = parameter.WhichOneof("parameter_choice")
        values[key] = getattr(parameter, kind) if kind else None
    return values


def _filled(name: str, document: dict[str, Any]) -> Any:  # noqa: ANN401  protobuf
    """A message out of the document that the other doors send as JSON."""
    return json_format.ParseDict(document, message(name)())
