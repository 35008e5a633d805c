"""The engine: the one way in for every door.

A door decodes bytes into an InferenceRequest, calls :meth:`Engine.infer`, and encodes what comes back. Whatever it
carries, a request is looked up, checked, queued, executed, counted and cancelled here and in the rooms below.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from ..backends.api.errors import Code, InferError, Internal, InvalidArgument, Unavailable
from .lifecycle.backends import Backends
from .lifecycle.loader import Loader, LoaderSettings
from .lifecycle.model_control import EngineControl
from .lifecycle.models import ModelTable
from .lifecycle.probed_call import ProbedCall
from .lifecycle.states import ModelState
from .observe.custom_metrics import CustomMetricRegistry
from .scheduling.wait_watch import WaitWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ..backends.api.call import Call
    from ..backends.api.request import InferenceRequest
    from ..backends.api.response import InferenceResponse
    from .lifecycle.models import ServedModel
    from .lifecycle.overrides import LoadOverrides
    from .lifecycle.states import IndexEntry
    from .observe.statistics import ModelSnapshot
    from .scheduling.ticket import Ticket

T = TypeVar("T")
request_log = logging.getLogger("infer.request")

EXTENSIONS = (
    "classification",
    "sequence",
    "model_repository",
    "model_repository(unload_dependents)",
    "schedule_policy",
    "model_configuration",
    "system_shared_memory",
    "cuda_shared_memory",
    "binary_tensor_data",
    "parameters",
    "statistics",
    "trace",
    "logging",
)
"""Triton's list, in Triton's order: clients look names up in it."""

_NEEDS_DECOUPLED = (
    "Model {name} is using the decoupled. The current BLS request call doesn't support models using the decoupled "
    "transaction policy. Please use 'exec(decoupled=True)' or 'async_exec(decoupled=True)'."
)
STOPPING = "Server is stopping, scheduler for model has stopped accepting new inference requests"


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What an engine is told.

    ``control_mode`` is none or explicit. ``startup_models`` are those to load in explicit mode, ``*`` for all.
    ``backend_options`` maps a backend to its settings, "" for all. ``worker_command`` becomes a worker zygote.
    ``backend_directory`` holds Python-based backends. ``load_timeout_s`` bounds each step of a load in a worker.
    ``remote_control``: whether clients' doors may load and unload at all.
    """

    loader: LoaderSettings
    server_id: str = "triton"
    version: str = ""
    control_mode: str = "none"
    startup_models: tuple[str, ...] = ()
    strict_readiness: bool = True
    backend_options: Mapping[str, Mapping[str, str]] | None = None
    worker_command: tuple[str, ...] = ()
    remote_control: bool = True
    backend_directory: Path | None = None
    load_timeout_s: float = 0.0


class Engine:
    """Every model of one server. Methods belong to the serving loop unless they say otherwise."""

    def __init__(self, settings: EngineSettings, loop: asyncio.AbstractEventLoop) -> None:
        self.server_id = settings.server_id
        self.version = settings.version
        self.extensions = EXTENSIONS
        self.control_mode = settings.control_mode
        self.remote_control = settings.remote_control
        self.loop = loop
        self.draining = False
        self.started = False
        self.refusals: dict[str, int] = {code.name: 0 for code in Code}
        """Requests refused before they were queued, by code; written on the loop, read anywhere."""
        self.custom_metrics = CustomMetricRegistry()
        """What models count; any thread."""
        self._settings = settings
        self._pool = ThreadPoolExecutor(max_workers=max(1, settings.loader.parallel), thread_name_prefix="loader")
        self._table = ModelTable()
        self._caller = _Caller(self, WaitWatch(loop))
        self._backends = Backends(
            loop,
            self._run_blocking,
            self._caller,
            control=EngineControl(self),
            metrics=self.custom_metrics,
            options=settings.backend_options or {},
            worker_command=settings.worker_command,
            directory=settings.backend_directory,
            load_timeout_s=settings.load_timeout_s,
        )
        self._loader = Loader(self._table, settings.loader, self._backends, loop, self._run_blocking)

    # Any thread

    @property
    def live(self) -> bool:
        """Whether the server runs and is not on its way out."""
        return not self.draining

    @property
    def ready(self) -> bool:
        """Whether requests are taken: started, not draining, and in strict mode every version serves."""
        if self.draining or not self.started:
            return False
        return not self._settings.strict_readiness or self._table.all_ready

    def index(self, *, ready_only: bool = False) -> tuple[IndexEntry, ...]:
        """The repository index, by name and version."""
        entries = self._table.index
        if ready_only:
            entries = tuple(entry for entry in entries if entry.state == ModelState.READY.value)
        return entries

    def rows(self) -> tuple[tuple[IndexEntry, ServedModel | None], ...]:
        """The repository index, each entry with what is loaded for it; of that, read only what is any thread's."""
        return self._table.rows

    def statistics(self, name: str = "", version: str = "") -> tuple[ModelSnapshot, ...]:
        """Pictures of the counters of every ready version, of one model's, or of one version's.

        Raises InvalidArgument where that model or version does not serve.
        """
        served = [model for model in self._table.served() if name in ("", model.name)]
        if name and not served:
            msg = f"requested model '{name}' is not available"
            raise InvalidArgument(msg)
        if version:
            served = [model for model in served if str(model.version) == version]
            if not served:
                msg = f"requested model version is not available for model '{name}'"
                raise InvalidArgument(msg)
        return tuple(model.statistics.snapshot() for model in served)

    def find(self, name: str, version: int | None = None) -> ServedModel:
        """What serves a version, or the highest ready one. Raises NotFound or Unavailable."""
        return self._table.find(name, version)

    def ready_versions(self, name: str) -> tuple[int, ...]:
        """The versions of a model that serve, ascending."""
        return self._table.ready_versions(name)

    def is_model_ready(self, name: str, version: int | None = None) -> bool:
        """Whether a version serves with all its instances; False for an unknown one. Does not ask the model."""
        try:
            served = self._table.find(name, version)
        except InferError:
            return False
        return served.scheduler.instances.all_ready

    # Serving loop: requests

    async def probe_ready(self, name: str, version: int | None = None) -> bool:
        """Whether a version serves with all its instances, and says so itself where it has ``is_ready``."""
        try:
            served = self._table.find(name, version)
        except InferError:
            return False
        return await served.probe_ready()

    async def probe_server_ready(self) -> bool:
        """Whether requests are taken; in strict mode also every model with ``is_ready`` says so of itself."""
        if not self.ready or not self._settings.strict_readiness:
            return self.ready
        probed = [served for served in self._table.served() if served.scheduler.instances.is_probed]
        return all(await asyncio.gather(*(served.probe_ready() for served in probed)))

    def infer(
        self,
        request: InferenceRequest,
        on_response: Callable[[InferenceResponse], None],
        model: ServedModel | None = None,
        *,
        internal: bool = False,
    ) -> Ticket:
        """Take a request in: ``on_response`` gets every response on the loop, exactly one of them final.

        :param model: what :meth:`find` gave, to save a second look-up.
        :param internal: the call of a model that executes; while draining only such calls are still taken, because
            the request they belong to was promised an answer.

        A request that is refused raises InferError, is counted in ``refusals`` and gets no response.
        """
        try:
            if self.draining and not internal:
                raise Unavailable(STOPPING)
            if model is None or model.record.served is not model or model.record.state is not ModelState.READY:
                model = self._table.find(request.model_name, request.model_version)
            model.signature.check(request)
            return model.scheduler.submit(request, on_response)
        except InferError as exc:
            self.refusals[exc.code.name] += 1
            if request_log.isEnabledFor(logging.DEBUG):
                facts = {"request_id": request.request_id, "model": request.model_name}
                request_log.debug("request to model '%s' refused: %s", request.model_name, exc, extra=facts)
            raise

    def refuse(self, error: InferError) -> None:
        """Count a request that a door refused before it could be handed in."""
        self.refusals[error.code.name] += 1

    # Serving loop: life

    async def start(self) -> dict[str, InferError]:
        """Load the start-up models; the failures by name. Raises InvalidArgument for a repository that is none."""
        names = await self._loader.list_repository()
        if self.control_mode == "explicit" and "*" not in self._settings.startup_models:
            names = self._settings.startup_models
        failures = await self._loader.load_many(names)
        self.started = True
        return failures

    async def load(self, name: str, overrides: LoadOverrides | None = None) -> None:
        """Load a model, or what changed of it, or what ``overrides`` say in place of its files.

        Raises InferError; what served before then still does.
        """
        if self.draining:
            msg = "Server exiting"
            raise Unavailable(msg)
        await self._loader.load(name, overrides)

    async def unload(self, name: str, *, wait: bool = True, unload_dependents: bool = False) -> None:  # noqa: ARG002  dependents come with ensembles
        """Stop serving a model; ``wait`` until it is closed. An unknown name is no error.

        Without ``wait`` requests in flight are not waited for; what holds none is closed when this returns.
        ``unload_dependents`` is about the steps of ensembles, which no model here has yet.
        """
        await self._loader.unload(name, wait=wait)

    async def refresh_index(self) -> None:
        """Look again what the repositories hold."""
        await self._loader.list_repository()

    async def drain(self, timeout_s: float) -> int:
        """Take nothing more in and wait for what is in flight; the number of requests that were not done in time."""
        self.draining = True
        schedulers = [model.scheduler for model in self._loader.opened()]
        drains = [scheduler.wait_idle() for scheduler in schedulers]
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.gather(*drains)
        except TimeoutError:
            return sum(scheduler.in_flight for scheduler in schedulers)
        return 0

    async def stop(self) -> None:
        """Fail what is still in flight, close every model and backend, end the pool."""
        self.draining = True
        self._caller.close()
        for model in self._loader.opened():
            model.scheduler.abort(Unavailable("Server exiting"))
        await self._loader.close_all()
        await self._backends.stop()
        self._pool.shutdown(wait=True, cancel_futures=True)

    async def _run_blocking(self, function: Callable[..., T], /, *args: Any) -> T:  # noqa: ANN401  whatever the function takes
        return await self.loop.run_in_executor(self._pool, function, *args)


class _Caller:
    """The ModelCaller port over the engine."""

    __slots__ = ("_engine", "_watch")

    def __init__(self, engine: Engine, watch: WaitWatch) -> None:
        self._engine = engine
        self._watch = watch

    def call(
        self, request: InferenceRequest, on_response: Callable[[InferenceResponse], None], *, single: bool = False
    ) -> Call:
        try:
            target = self._engine.find(request.model_name, request.model_version)
        except InferError:
            target = None  # refused and counted below
        if single and target is not None and target.signature.decoupled:
            raise Internal(_NEEDS_DECOUPLED.format(name=request.model_name))
        if target is not None and target.scheduler.instances.is_probed:
            return ProbedCall(target, request, on_response, self._submit, self._engine.loop)
        return self._submit(request, on_response, target)

    def close(self) -> None:
        """Watch no calls any more: what is in flight is about to fail."""
        self._watch.close()

    def _submit(
        self,
        request: InferenceRequest,
        on_response: Callable[[InferenceResponse], None],
        target: ServedModel | None = None,
    ) -> Call:
        ticket = self._engine.infer(request, on_response, target, internal=True)
        self._watch.called(ticket)
        return ticket
