"""Bringing models up and down.

A load reads the repository, completes and checks the configuration, opens every version the policy chooses, brings all
instances up, and only then swaps: what served before serves until then, and for good if anything fails. What did not
change since the last load is left as it is, and where only instance groups changed, so are the instances that the old
and the new ones have in common. All of it is coroutines on the serving loop; the pool's threads only read files and
open runtimes, so loads that are started inside loads cannot starve.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

from ...backends.api.backend import ModelFiles
from ...backends.api.errors import Code, InferError, Internal, LoadFailed, NotInstalled
from ..observe.logs import model_facts
from ..observe.statistics import ModelStatistics
from ..repository import autofill, layout
from ..scheduling.factory import make_scheduler
from ..scheduling.pool import PoolOptions
from . import bring_up, regroup, reload
from .labels import read_labels
from .models import ServedModel, VersionRecord
from .overrides import LoadOverrides, check_files
from .planning import Planner
from .regroup import Regrouping
from .reload import Loaded
from .retirement import Retirement, close
from .signature import ModelSignature
from .sources import Sources
from .states import UNLOADED, ModelState, reason_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ...backends.api.backend import RunBlocking
    from ...backends.api.model_config import ModelConfig
    from .backends import Backends
    from .models import ModelEntry, ModelTable
    from .planning import Plan
    from .sources import ModelSource

    Outcome = ServedModel | Regrouping | VersionRecord

log = logging.getLogger("infer.lifecycle")


@dataclass(frozen=True, slots=True)
class LoaderSettings:
    """What loading depends on.

    ``gpus`` are the usable devices; ``execute_timeout_s`` 0 means no limit; ``retries`` are further tries for a version
    that does not come up; ``delay_scheduler`` is how many requests a batcher waits for before its first batch, and
    ``backlog_delay_scheduler`` how many more a sequence batcher wants in its backlog, for tests that fill queues.
    ``skip_missing_backends``: a model of a backend that is not installed is no failure of :meth:`Loader.load_many`.
    """

    repositories: tuple[Path, ...]
    auto_complete: bool = True
    config_name: str = ""
    execute_timeout_s: float = 0.0
    skip_missing_backends: bool = False
    gpus: tuple[int, ...] = ()
    parallel: int = 4
    retries: int = 0
    delay_scheduler: int = 0
    backlog_delay_scheduler: int = 0


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
        self._loop = loop
        self._run_blocking = run_blocking
        self._loading: set[asyncio.Task[None]] = set()
        self._retirement = Retirement(table, loop)
        self._sources = Sources(settings.repositories, run_blocking, config_name=settings.config_name)
        self._planner = Planner(backends, run_blocking, auto_complete=settings.auto_complete, gpus=settings.gpus)

    async def list_repository(self) -> tuple[str, ...]:
        """Look what the repositories hold and put it into the index; the names that can be loaded."""
        found = await self._run_blocking(layout.scan, self._settings.repositories)
        names = tuple(entry.name for entry in found if isinstance(entry, layout.ModelFolder))
        duplicates = tuple(entry.name for entry in found if isinstance(entry, layout.DuplicateName))
        self._table.list_repository(names, duplicates)
        return names

    async def load_many(self, names: tuple[str, ...]) -> dict[str, InferError]:
        """Load several models side by side; the failures by name. Each is logged, and so is what was passed over."""
        gate = asyncio.Semaphore(max(1, self._settings.parallel))
        failures: dict[str, InferError] = {}

        async def load_one(name: str) -> None:
            async with gate:
                try:
                    await self.load(name)
                except NotInstalled as exc:
                    if self._settings.skip_missing_backends:
                        self._table.entry(name).skipped = True
                    else:
                        failures[name] = exc
                except InferError as exc:
                    failures[name] = exc

        await asyncio.gather(*(load_one(name) for name in names))
        return failures

    async def load(self, name: str, overrides: LoadOverrides | None = None) -> None:
        """Load a model, or load anew what changed of it, and swap.

        Without ``overrides`` a model whose files did not change is left as it serves. Raises Internal where the
        repository, the configuration or an override is at fault, and LoadFailed where a version did not come up; what
        served before still does.
        """
        layout.check_name(name)
        overrides = overrides or LoadOverrides()
        if self._table.known(name) is None:
            await self._look(name, overrides)
        # A task of its own: who asked may go away, and a stopping server must be able to end it.
        task = self._loop.create_task(self._load_in_turn(self._table.entry(name), overrides))
        self._loading.add(task)
        task.add_done_callback(self._loading.discard)
        await asyncio.shield(task)

    async def unload(self, name: str, *, wait: bool = True) -> None:
        """Stop serving a model at once; close it when its last request has been answered.

        ``wait`` False does not wait for requests: what holds none is closed when this returns. A name that was never
        loaded is no error.
        """
        entry = self._table.known(name)
        if entry is None:
            return
        async with entry.lock:
            entry.reason = ""
            entry.loaded = None
            leaving = [
                (record.served, self._retirement.retire(record, record.served))
                for record in entry.versions.values()
                if record.served is not None and record.state is not ModelState.UNLOADING
            ]
            for record in entry.versions.values():
                if record.served is None and record.state is ModelState.UNAVAILABLE:
                    record.reason = UNLOADED
            self._table.publish()
        closing = [task for served, task in leaving if wait or not served.scheduler.in_flight]
        if closing:
            await asyncio.gather(*(asyncio.shield(task) for task in closing))

    def opened(self) -> tuple[ServedModel, ...]:
        """Every version that may hold requests: those that serve, that are down, and that are on their way out."""
        records = (record for entry in self._table for record in entry.versions.values())
        serving = (record.served for record in records if record.served is not None)
        return tuple(dict.fromkeys((*serving, *self._retirement.models)))

    async def close_all(self) -> None:
        """End every load, close every model, whatever is still in flight."""
        loading = tuple(self._loading)
        for task in loading:
            task.cancel()
        await asyncio.gather(*loading, return_exceptions=True)
        await asyncio.gather(*(self.unload(entry.name) for entry in self._table))
        await self._retirement.finish()

    # Loading

    async def _look(self, name: str, overrides: LoadOverrides) -> None:
        """Look whether an unknown model is anywhere. Raises Internal: where not, this answer is its only trace."""
        try:
            if overrides.files:
                check_files(overrides)
            else:
                await self._run_blocking(layout.find, self._settings.repositories, name)
        except InferError as exc:
            raise _not_polled(name, exc) from exc

    async def _load_in_turn(self, entry: ModelEntry, overrides: LoadOverrides) -> None:
        async with entry.lock:
            try:
                source = await self._sources.find(entry.name, overrides)
            except InferError as exc:
                raise _not_polled(entry.name, exc) from exc
            try:
                await self._load(entry, source)
            finally:
                await source.release()

    async def _load(self, entry: ModelEntry, source: ModelSource) -> None:
        name = entry.name
        if source.private is None:
            self._table.note_listed(name)
        if _serves_already(entry, source):
            log.info("'%s' serves as its files are; there is nothing to load", name, extra=model_facts(name))
            return
        entry.skipped = False
        plan = await self._planned(entry, source)
        entry.reason = ""
        for version in plan.opening:
            before = entry.versions.get(version)
            if before is None or before.served is None:
                entry.versions[version] = VersionRecord(name, version, ModelState.LOADING)
        self._table.publish()
        outcomes = await self._open_all(plan)
        failed = [outcome for outcome in outcomes if isinstance(outcome, VersionRecord)]
        if failed:
            await self._abandon(entry, outcomes)
            reasons = "".join(f"version {r.version} is at UNAVAILABLE state: {r.reason};\n" for r in failed)
            msg = f"load failed for model '{name}': {reasons}"
            raise LoadFailed(msg, code=Code.INVALID_ARG)
        self._swap(entry, plan, outcomes)
        entry.loaded = Loaded(plan.folder.path, source.stamp, plan.config, plan.versions)

    async def _planned(self, entry: ModelEntry, source: ModelSource) -> Plan:
        """What to do; a failure is shown and worded for who asked."""
        name = entry.name
        try:
            return await self._planner.plan(entry, source)
        except LoadFailed as exc:
            if isinstance(exc, NotInstalled) and self._settings.skip_missing_backends:
                log.warning("'%s' is not served: %s", name, exc, extra=model_facts(name))
            else:
                log.error(  # noqa: TRY400  a sentence, not a traceback
                    "failed to load '%s': %s", name, exc, extra=model_facts(name)
                )
            self._show(entry, exc, source.overrides)
            msg = f"load failed for model '{name}': {exc}"
            raise type(exc)(msg, code=Code.INVALID_ARG) from exc
        except InferError as exc:
            self._show(entry, exc, source.overrides)
            raise _not_polled(name, exc) from exc

    def _show(self, entry: ModelEntry, error: InferError, overrides: LoadOverrides) -> None:
        """Show in the index why nothing of a model serves. A request that asks for the wrong thing changes nothing."""
        if not overrides and not self._table.ready_versions(entry.name):
            entry.reason = reason_of(error)
            self._table.publish()

    async def _open_all(self, plan: Plan) -> list[Outcome]:
        """Bring versions up side by side; where the load is ended meanwhile, nothing of it is left open."""
        tasks = [self._loop.create_task(self._open(plan, version)) for version in plan.versions]
        try:
            return await asyncio.gather(*tasks)
        except asyncio.CancelledError:
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            await _close_opened(outcomes)
            raise

    async def _open(self, plan: Plan, version: int) -> Outcome:
        """Bring one version up: what serves it, what changes of it, or a record with the reason why nothing does."""
        name = plan.folder.name
        outcome = await self._try_to_open(plan, version)
        for attempt in range(1, self._settings.retries + 1):
            if not isinstance(outcome, VersionRecord):
                break
            words = "loading '%s' version %d again, retry %d of %d"
            log.info(words, name, version, attempt, self._settings.retries, extra=model_facts(name, version))
            outcome = await self._try_to_open(plan, version)
        return outcome

    async def _try_to_open(self, plan: Plan, version: int) -> Outcome:
        name = plan.folder.name
        started = monotonic()
        record = VersionRecord(name, version, ModelState.LOADING)
        kept = plan.kept.get(version)
        try:
            if kept is not None:
                return await self._regroup(plan, kept)
            served = await self._bring_up(plan, record)
        except InferError as exc:
            record.reason = reason_of(exc)
        except Exception as exc:
            facts = model_facts(name, version)
            log.exception("model '%s' version %d: unexpected failure while loading", name, version, extra=facts)
            record.reason = f"Internal: {type(exc).__name__}: {exc}"
        else:
            served.statistics.load_duration_s = monotonic() - started
            if plan.source.private is not None:
                served.private = plan.source.private.hold()
            return served
        record.state = ModelState.UNAVAILABLE
        log.error("failed to load '%s' version %d: %s", name, version, record.reason, extra=model_facts(name, version))
        return record

    async def _bring_up(self, plan: Plan, record: VersionRecord) -> ServedModel:
        config = await self._completed_config(plan, record.version)
        labels = await self._run_blocking(read_labels, config, plan.folder.path)
        model = await plan.backend.load(config, ModelFiles(plan.folder.path, record.version))
        try:
            specs = [place.spec for place in bring_up.places(config)]
            instances = bring_up.create(model, specs, record.version, self._loop)
            await bring_up.load(instances)
        except BaseException:
            await model.close()
            raise
        statistics = ModelStatistics(config.name, record.version, config.metric_tags)
        facts = model_facts(config.name, record.version)
        options = PoolOptions(self._settings.execute_timeout_s, lambda: self._table.health_changed(record), facts)
        hold, backlog = self._settings.delay_scheduler, self._settings.backlog_delay_scheduler
        scheduler = make_scheduler(config, instances, statistics, self._loop, options, hold=hold, backlog_hold=backlog)
        signature = ModelSignature(config, labels)
        served = ServedModel(
            record, config=config, signature=signature, statistics=statistics, scheduler=scheduler, model=model
        )
        record.served = served
        return served

    async def _regroup(self, plan: Plan, served: ServedModel) -> Regrouping:
        """Have ready what a version that goes on serving is to change. The model itself is not asked again."""
        config = _filled_in(plan, plan.config, self._settings)
        config = reload.with_changes_of(served.config, config, regrouped=plan.regrouped)
        await self._planner.check(config, plan.source)
        return await regroup.prepare(served, config, self._loop)

    async def _completed_config(self, plan: Plan, version: int) -> ModelConfig:
        config = plan.config
        if self._settings.auto_complete:
            config = await plan.backend.auto_complete(
                _filled_in(plan, config, self._settings), ModelFiles(plan.folder.path, version)
            )
        config = _filled_in(plan, config, self._settings)
        await self._planner.check(config, plan.source)
        return config

    # Changing what serves

    def _swap(self, entry: ModelEntry, plan: Plan, outcomes: list[Outcome]) -> None:
        """The new versions serve from here on; every version that served before and is not kept goes."""
        old = [record for record in entry.versions.values() if record.served is not None]
        for regrouping in outcomes:
            if isinstance(regrouping, Regrouping):
                regrouping.apply()
        for model in outcomes:
            if not isinstance(model, ServedModel):
                continue
            model.record.state = ModelState.READY
            entry.versions[model.version] = model.record
            facts = model_facts(model.name, model.version)
            log.info("successfully loaded '%s' version %d", model.name, model.version, extra=facts)
        for record in old:
            if record.served is None or record.version in plan.kept:
                continue
            if record.state is not ModelState.UNLOADING:
                self._retirement.retire(record, record.served)
        self._table.publish()

    async def _abandon(self, entry: ModelEntry, outcomes: list[Outcome]) -> None:
        """A version failed: close those that came up, show why, and leave what served before serving."""
        await _close_opened(outcomes)
        for outcome in outcomes:
            shown = entry.versions.get(outcome.version)
            if shown is not None and shown.served is None:
                shown.state = ModelState.UNAVAILABLE
                reason = outcome.reason if isinstance(outcome, VersionRecord) else ""
                shown.reason = reason or "another version of the model failed to load"
        self._table.publish()


def _filled_in(plan: Plan, config: ModelConfig, settings: LoaderSettings) -> ModelConfig:
    """A configuration with the defaults of server and backend."""
    gpus = settings.gpus if plan.backend.supports_gpu else ()
    return autofill.complete(config, default_instance_count=plan.backend.default_instance_count, gpus=gpus)


def _serves_already(entry: ModelEntry, source: ModelSource) -> bool:
    """Whether a load has nothing to do: nothing is overridden, no file changed, and every version serves."""
    loaded = entry.loaded
    return (
        loaded is not None
        and not source.overrides
        and reload.is_unchanged(loaded, source)
        and all(entry.ready(version) for version in loaded.versions)
    )


async def _close_opened(outcomes: Iterable[object]) -> None:
    for outcome in outcomes:
        if isinstance(outcome, ServedModel):
            await close(outcome)
        elif isinstance(outcome, Regrouping):
            await outcome.abandon()


def _not_polled(name: str, error: InferError) -> Internal:
    """The answer to a load whose model was not even tried; the log has it too."""
    log.error("failed to load '%s': %s", name, error, extra=model_facts(name))
    return Internal(f"failed to load '{name}', failed to poll from model repository: {error}")
