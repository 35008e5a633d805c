"""Bringing models up and down.

A load reads the repository, completes and checks the configuration, opens every version the policy chooses, brings all
instances up, and only then swaps: what served before serves until then, and for good if anything fails. All of it is
coroutines on the serving loop; the pool's threads only read files and open runtimes, so loads that are started inside
loads cannot starve.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

from ...backends.api.backend import ModelFiles, ThreadInstance
from ...backends.api.errors import Code, InferError, Internal, InvalidArgument, LoadFailed, NotFound
from ..observe.statistics import ModelStatistics
from ..repository import autofill, config_reader, layout, rules
from ..repository.problem import UnsoundConfig
from ..scheduling.factory import make_scheduler
from ..scheduling.instances import ThreadedInstance
from ..scheduling.pool import PoolOptions
from . import placement, version_policy
from .models import ServedModel, VersionRecord
from .signature import ModelSignature
from .states import UNLOADED, ModelState

if TYPE_CHECKING:
    from pathlib import Path

    from ...backends.api.backend import Backend, LoopInstance, Model, RunBlocking
    from ...backends.api.model_config import ModelConfig
    from .backends import Backends
    from .models import ModelEntry, ModelTable

log = logging.getLogger("infer.lifecycle")

_STATUS = {
    Code.UNKNOWN: "Unknown",
    Code.INTERNAL: "Internal",
    Code.NOT_FOUND: "Not found",
    Code.INVALID_ARG: "Invalid argument",
    Code.UNAVAILABLE: "Unavailable",
    Code.UNSUPPORTED: "Unsupported",
    Code.ALREADY_EXISTS: "Already exists",
    Code.CANCELLED: "Cancelled",
}
"""A code as Triton spells it in a reason."""


@dataclass(frozen=True, slots=True)
class LoaderSettings:
    """What loading depends on.

    ``gpus`` are the usable devices; ``execute_timeout_s`` 0 means no limit; ``delay_scheduler`` is how many requests
    a dynamic batcher waits for before its first batch, for tests that fill queues.
    """

    repositories: tuple[Path, ...]
    auto_complete: bool = True
    config_name: str = ""
    execute_timeout_s: float = 0.0
    gpus: tuple[int, ...] = ()
    parallel: int = 4
    delay_scheduler: int = 0


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a load is going to do: which versions of what, by which backend."""

    folder: layout.ModelFolder
    config: ModelConfig
    versions: tuple[int, ...]
    backend: Backend


class Loader:
    """Loads and unloads models of the table. Serving loop only."""

    def __init__(
        self,
        table: ModelTable,
        settings: LoaderSettings,
        backends: Backends,
        loop: asyncio.AbstractEventLoop,
        run_blocking: RunBlocking,
    ) -> None:
        self._table = table
        self._settings = settings
        self._backends = backends
        self._loop = loop
        self._run_blocking = run_blocking
        self._loading: set[asyncio.Task[None]] = set()
        self._retiring: dict[asyncio.Task[None], ServedModel] = {}

    async def list_repository(self) -> tuple[str, ...]:
        """Look what the repositories hold and put it into the index; the names that can be loaded."""
        found = await self._run_blocking(layout.scan, self._settings.repositories)
        names = tuple(entry.name for entry in found if isinstance(entry, layout.ModelFolder))
        duplicates = tuple(entry.name for entry in found if isinstance(entry, layout.DuplicateName))
        self._table.list_repository(names, duplicates)
        return names

    async def load_many(self, names: tuple[str, ...]) -> dict[str, InferError]:
        """Load several models side by side; the failures by name. Each is logged."""
        gate = asyncio.Semaphore(max(1, self._settings.parallel))
        failures: dict[str, InferError] = {}

        async def load_one(name: str) -> None:
            async with gate:
                try:
                    await self.load(name)
                except InferError as exc:
                    failures[name] = exc

        await asyncio.gather(*(load_one(name) for name in names))
        return failures

    async def load(self, name: str) -> None:
        """Load a model, or load it anew and swap.

        Raises Internal where the repository or the configuration is at fault, and LoadFailed where a version did
        not come up; what served before still does.
        """
        layout.check_name(name)
        if self._table.known(name) is None:
            await self._find_folder(name)
        # A task of its own: who asked may go away, and a stopping server must be able to end it.
        task = self._loop.create_task(self._load_in_turn(self._table.entry(name)))
        self._loading.add(task)
        task.add_done_callback(self._loading.discard)
        await asyncio.shield(task)

    async def unload(self, name: str, *, wait: bool = True) -> None:
        """Stop serving a model at once; close it when its last request has been answered.

        ``wait`` False returns when it has stopped serving. A name that was never loaded is no error.
        """
        entry = self._table.known(name)
        if entry is None:
            return
        async with entry.lock:
            entry.reason = ""
            retired = [
                self._retire(record, record.served)
                for record in entry.versions.values()
                if record.served is not None and record.state is not ModelState.UNLOADING
            ]
            for record in entry.versions.values():
                if record.served is None and record.state is ModelState.UNAVAILABLE:
                    record.reason = UNLOADED
            self._table.publish()
        if wait and retired:
            await asyncio.gather(*retired)

    def opened(self) -> tuple[ServedModel, ...]:
        """Every version that may hold requests: those that serve, that are down, and that are on their way out."""
        records = (record for entry in self._table for record in entry.versions.values())
        serving = (record.served for record in records if record.served is not None)
        return tuple(dict.fromkeys((*serving, *self._retiring.values())))

    async def close_all(self) -> None:
        """End every load, close every model, whatever is still in flight."""
        loading = tuple(self._loading)
        for task in loading:
            task.cancel()
        await asyncio.gather(*loading, return_exceptions=True)
        for entry in self._table:
            await self.unload(entry.name, wait=False)
        if self._retiring:
            await asyncio.gather(*self._retiring)

    # Loading

    async def _find_folder(self, name: str) -> layout.ModelFolder:
        """The model's folder. Raises Internal: a name that no repository holds leaves no trace but this answer."""
        try:
            return await self._run_blocking(layout.find, self._settings.repositories, name)
        except NotFound as exc:
            log.error("failed to load '%s': %s", name, exc)  # noqa: TRY400  a sentence, not a traceback
            msg = f"failed to load '{name}', failed to poll from model repository: {exc}"
            raise Internal(msg) from exc

    async def _load_in_turn(self, entry: ModelEntry) -> None:
        async with entry.lock:
            await self._load(entry)

    async def _load(self, entry: ModelEntry) -> None:
        name = entry.name
        try:
            plan = await self._plan(name)
        except InferError as exc:
            log.error("failed to load '%s': %s", name, exc)  # noqa: TRY400  a sentence, not a traceback
            if not self._table.ready_versions(name):
                entry.reason = f"{_STATUS[exc.code]}: {exc}"
                self._table.publish()
            if isinstance(exc, LoadFailed):
                msg = f"load failed for model '{name}': {exc}"
                raise LoadFailed(msg, code=Code.INVALID_ARG) from exc
            msg = f"failed to load '{name}', failed to poll from model repository: {exc}"
            raise Internal(msg) from exc
        entry.reason = ""
        before = dict(entry.versions)
        for version in plan.versions:
            if before.get(version) is None or before[version].served is None:
                entry.versions[version] = VersionRecord(name, version, ModelState.LOADING)
        self._table.publish()
        outcomes = await asyncio.gather(*(self._open(plan, version) for version in plan.versions))
        failed = [outcome for outcome in outcomes if isinstance(outcome, VersionRecord)]
        if failed:
            await self._abandon(entry, outcomes)
            reasons = "".join(f"version {r.version} is at UNAVAILABLE state: {r.reason};\n" for r in failed)
            msg = f"load failed for model '{name}': {reasons}"
            raise LoadFailed(msg, code=Code.INVALID_ARG)
        self._swap(entry, [outcome for outcome in outcomes if isinstance(outcome, ServedModel)])

    async def _plan(self, name: str) -> _Plan:
        """Read folder and configuration, choose versions and backend."""
        folder = await self._run_blocking(layout.find, self._settings.repositories, name)
        given = await self._run_blocking(lambda: config_reader.read(folder, config_name=self._settings.config_name))
        entries = await self._run_blocking(layout.version_entries, folder)
        config = autofill.identify(given, folder, entries)
        if given is None and not self._settings.auto_complete:
            msg = f"model '{name}' has no config.pbtxt, and --disable-auto-complete-config forbids to do without one"
            raise InvalidArgument(msg)
        if not self._settings.auto_complete:
            await self._check(autofill.complete(config, gpus=self._settings.gpus), folder)
        _refuse_what_is_not_built(config)
        versions = version_policy.choose(name, folder.versions, config.version_policy)
        backend = await self._backends.get(config.backend)
        return _Plan(folder, config, versions, backend)

    async def _open(self, plan: _Plan, version: int) -> ServedModel | VersionRecord:
        """Bring one version up: what serves it, or a record with the reason why nothing does."""
        name = plan.folder.name
        started = monotonic()
        record = VersionRecord(name, version, ModelState.LOADING)
        try:
            served = await self._bring_up(plan, record)
        except InferError as exc:
            record.reason = f"{_STATUS[exc.code]}: {exc}"
        except Exception as exc:
            log.exception("model '%s' version %d: unexpected failure while loading", name, version)
            record.reason = f"Internal: {type(exc).__name__}: {exc}"
        else:
            served.statistics.load_duration_s = monotonic() - started
            return served
        record.state = ModelState.UNAVAILABLE
        log.error("failed to load '%s' version %d: %s", name, version, record.reason)
        return record

    async def _bring_up(self, plan: _Plan, record: VersionRecord) -> ServedModel:
        config = await self._completed_config(plan, record.version)
        labels = await self._run_blocking(_read_labels, config, plan.folder.path)
        model = await plan.backend.load(config, ModelFiles(plan.folder.path, record.version))
        instances: dict[str, LoopInstance] = {}
        try:
            instances.update(self._instances(model, config))
            await _load_instances(instances)
        except BaseException:
            for instance in instances.values():
                await instance.close()
            await model.close()
            raise
        statistics = ModelStatistics(config.name, record.version, config.metric_tags)
        options = PoolOptions(self._settings.execute_timeout_s, lambda: self._table.health_changed(record))
        hold = self._settings.delay_scheduler
        scheduler = make_scheduler(config, instances, statistics, self._loop, options, hold=hold)
        signature = ModelSignature(config, labels)
        served = ServedModel(
            record, config=config, signature=signature, statistics=statistics, scheduler=scheduler, model=model
        )
        record.served = served
        return served

    async def _completed_config(self, plan: _Plan, version: int) -> ModelConfig:
        config = plan.config
        gpus = self._settings.gpus if plan.backend.supports_gpu else ()
        count = plan.backend.default_instance_count
        if self._settings.auto_complete:
            config = await plan.backend.auto_complete(
                autofill.complete(config, default_instance_count=count, gpus=gpus),
                ModelFiles(plan.folder.path, version),
            )
        config = autofill.complete(config, default_instance_count=count, gpus=gpus)
        await self._check(config, plan.folder)
        return config

    async def _check(self, config: ModelConfig, folder: layout.ModelFolder) -> None:
        """Raise InvalidArgument, with file and line, where the configuration is not sound."""
        try:
            rules.check(config, gpus=self._settings.gpus)
        except UnsoundConfig as exc:
            name = self._settings.config_name
            error = exc
            raise await self._run_blocking(lambda: config_reader.located(folder, error, config_name=name)) from exc

    def _instances(self, model: Model, config: ModelConfig) -> dict[str, LoopInstance]:
        instances: dict[str, LoopInstance] = {}
        for spec in placement.instances(config):
            made = model.create_instance(spec)
            if isinstance(made, ThreadInstance):
                made = ThreadedInstance(spec.name, made, self._loop, decoupled=config.decoupled)
            instances[spec.name] = made
        if not instances:
            msg = f"model '{config.name}' has no instance that executes; give an instance_group that is not passive"
            raise InvalidArgument(msg)
        return instances

    # Changing what serves

    def _swap(self, entry: ModelEntry, served: list[ServedModel]) -> None:
        """The new versions serve from here on; every version that served before goes."""
        old = [record for record in entry.versions.values() if record.served is not None]
        for model in served:
            model.record.state = ModelState.READY
            entry.versions[model.version] = model.record
            log.info("successfully loaded '%s' version %d", model.name, model.version)
        for record in old:
            if record.served is not None:
                self._retire(record, record.served)
        self._table.publish()

    async def _abandon(self, entry: ModelEntry, outcomes: list[ServedModel | VersionRecord]) -> None:
        """A version failed: close those that came up, show why, and leave what served before serving."""
        for outcome in outcomes:
            if isinstance(outcome, ServedModel):
                await outcome.scheduler.close()
                await outcome.model.close()
            shown = entry.versions.get(outcome.version)
            if shown is not None and shown.served is None:
                shown.state = ModelState.UNAVAILABLE
                shown.reason = outcome.reason or "another version of the model failed to load"
        self._table.publish()

    def _retire(self, record: VersionRecord, served: ServedModel) -> asyncio.Task[None]:
        """Take a version out of service and close it in the background when it is drained."""
        record.state = ModelState.UNLOADING
        record.reason = ""
        task = self._loop.create_task(self._close(record, served))
        self._retiring[task] = served
        task.add_done_callback(self._retiring.pop)
        return task

    async def _close(self, record: VersionRecord, served: ServedModel) -> None:
        await served.scheduler.drain()
        await served.scheduler.close()
        await served.model.close()
        record.served = None
        record.state = ModelState.UNAVAILABLE
        record.reason = UNLOADED
        self._table.publish()
        log.info("successfully unloaded '%s' version %d", record.name, record.version)


async def _load_instances(instances: dict[str, LoopInstance]) -> None:
    """Load all instances at once; raise the first failure when all have come to an end."""
    outcomes = await asyncio.gather(*(instance.load() for instance in instances.values()), return_exceptions=True)
    for name, outcome in zip(instances, outcomes, strict=True):
        if isinstance(outcome, InferError):
            raise outcome
        if isinstance(outcome, BaseException):
            msg = f"instance '{name}' did not load: {type(outcome).__name__}: {outcome}"
            raise LoadFailed(msg) from outcome


def _refuse_what_is_not_built(config: ModelConfig) -> None:
    """Refuse configurations whose meaning this server would change by ignoring them."""
    if config.platform == "ensemble" or config.scheduling == "ensemble_scheduling":
        msg = f"model '{config.name}' is an ensemble; this version of infer does not serve ensembles yet"
        raise LoadFailed(msg, code=Code.UNSUPPORTED)
    if config.scheduling == "sequence_batching":
        msg = f"model '{config.name}' wants sequence_batching; this version of infer does not serve sequences yet"
        raise LoadFailed(msg, code=Code.UNSUPPORTED)


def _read_labels(config: ModelConfig, model_dir: Path) -> dict[str, tuple[str, ...]]:
    """The label files of the outputs, a label a line. Raises InvalidArgument for one that is missing or outside."""
    labels: dict[str, tuple[str, ...]] = {}
    for spec in config.outputs:
        if not spec.label_filename:
            continue
        path = (model_dir / spec.label_filename).resolve()
        if not path.is_relative_to(model_dir.resolve()):
            msg = f"label_filename '{spec.label_filename}' of output '{spec.name}' is outside model directory"
            raise InvalidArgument(msg, code=Code.UNSUPPORTED)
        try:
            labels[spec.name] = tuple(path.read_text(encoding="utf-8").splitlines())
        except OSError as exc:
            msg = f"unable to open label file '{path}' of output '{spec.name}': {exc.strerror}"
            raise InvalidArgument(msg) from exc
    return labels
