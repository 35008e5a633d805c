"""What a load is going to do: the configuration it goes by, the versions it wants, and those it leaves alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...backends.api.errors import Code, InvalidArgument, LoadFailed
from ..repository import autofill, layout, rules
from ..repository.problem import UnsoundConfig
from . import reload, version_policy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...backends.api.backend import Backend, RunBlocking
    from ...backends.api.model_config import ModelConfig
    from .backends import Backends
    from .models import ModelEntry, ServedModel
    from .sources import ModelSource


@dataclass(frozen=True, slots=True)
class Plan:
    """One load: which versions of what, by which backend.

    ``kept`` go on serving, with other instance groups where the load is ``regrouped``.
    """

    source: ModelSource
    config: ModelConfig
    versions: tuple[int, ...]
    kept: Mapping[int, ServedModel]
    backend: Backend
    regrouped: bool = False

    @property
    def folder(self) -> layout.ModelFolder:
        """The model's folder."""
        return self.source.folder

    @property
    def opening(self) -> tuple[int, ...]:
        """The versions to bring up."""
        return tuple(version for version in self.versions if version not in self.kept)


class Planner:
    """Plans loads. Serving loop; files are read on the pool."""

    def __init__(
        self, backends: Backends, run_blocking: RunBlocking, *, auto_complete: bool, gpus: tuple[int, ...]
    ) -> None:
        self._backends = backends
        self._run_blocking = run_blocking
        self._auto_complete = auto_complete
        self._gpus = gpus

    async def plan(self, entry: ModelEntry, source: ModelSource) -> Plan:
        """Read the configuration, choose versions and backend. Raises InferError, LoadFailed for want of a version."""
        folder, name = source.folder, entry.name
        given, entries = await self._run_blocking(_read, source)
        config = autofill.identify(given, folder, entries)
        if given is None and not self._auto_complete:
            msg = f"model '{name}' has no config.pbtxt, and --disable-auto-complete-config forbids to do without one"
            raise InvalidArgument(msg)
        if not self._auto_complete:
            await self.check(autofill.complete(config, gpus=self._gpus), source)
        refuse_what_is_not_built(config)
        versions = version_policy.choose(name, folder.versions, config.version_policy)
        backend = await self._backend(config)
        regrouped = entry.loaded is not None and reload.is_regrouped(entry.loaded, config)
        return Plan(source, config, versions, _kept(entry, source, config, versions), backend, regrouped)

    async def _backend(self, config: ModelConfig) -> Backend:
        """The backend of a model. Raises LoadFailed, also for one that is unknown or was given bad options."""
        try:
            return await self._backends.get(config.backend)
        except InvalidArgument as exc:
            raise LoadFailed(str(exc), code=exc.code) from exc

    async def check(self, config: ModelConfig, source: ModelSource) -> None:
        """Raise InvalidArgument, with the place that is to be mended, where a configuration is not sound."""
        try:
            rules.check(config, gpus=self._gpus)
        except UnsoundConfig as exc:
            raise await self._run_blocking(source.located, exc) from exc


def _kept(
    entry: ModelEntry, source: ModelSource, config: ModelConfig, versions: tuple[int, ...]
) -> dict[int, ServedModel]:
    """The versions that go on serving.

    Those with a sequence batcher do not where the instance groups differ: they are loaded anew, because an instance
    cannot go while it holds the state of sequences.
    """
    loaded = entry.loaded
    if loaded is None:
        return {}
    same, regrouped = reload.keepable(loaded, source, config), reload.is_regrouped(loaded, config)
    serving = {version: entry.ready(version) for version in versions if version in same}
    return {
        version: served
        for version, served in serving.items()
        if served is not None and not (regrouped and served.config.scheduling == "sequence_batching")
    }


def _read(source: ModelSource) -> tuple[ModelConfig | None, tuple[str, ...]]:
    """What a model's folder says of itself: its configuration, and what its lowest version holds. Blocking."""
    try:
        return source.read_config(), layout.version_entries(source.folder)
    except OSError as exc:
        msg = f"folder of model '{source.folder.name}' cannot be read: '{exc.filename}': {exc.strerror}"
        raise InvalidArgument(msg) from exc


def refuse_what_is_not_built(config: ModelConfig) -> None:
    """Refuse configurations whose meaning this server would change by ignoring them."""
    if config.platform == "ensemble" or config.scheduling == "ensemble_scheduling":
        msg = f"model '{config.name}' is an ensemble; this version of infer does not serve ensembles yet"
        raise LoadFailed(msg, code=Code.UNSUPPORTED)
    if config.document.get("sequence_batching", {}).get("state"):
        msg = (
            f"model '{config.name}' has its state kept by the server (sequence_batching.state); this version of infer "
            "does not keep states yet"
        )
        raise LoadFailed(msg, code=Code.UNSUPPORTED)
    if "TRITON_BATCH_STRATEGY_PATH" in config.parameters:
        msg = (
            f"model '{config.name}' names a custom batching library (TRITON_BATCH_STRATEGY_PATH), which this server "
            "does not run; remove the parameter to batch by the rules of dynamic_batching alone"
        )
        raise LoadFailed(msg, code=Code.UNSUPPORTED)
