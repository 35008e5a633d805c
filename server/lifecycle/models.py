"""The table of models: which versions there are, in which state, and which one serves a request.

Written on the serving loop. After every change it publishes two frozen views: a dictionary from (name, version) to
what serves it, which the hot path reads, and the repository index, which any thread reads.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...backends.api.errors import NotFound, Unavailable
from . import placement
from .states import UNLOADED, IndexEntry, ModelState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ...backends.api.backend import InstanceSpec, Model
    from ...backends.api.model_config import ModelConfig
    from ..observe.statistics import ModelStatistics
    from ..scheduling.scheduler import Scheduler
    from .private_folder import PrivateFolder
    from .reload import Loaded
    from .signature import ModelSignature


class VersionRecord:
    """One version that was ever loaded: its state, the reason, and what serves it while it does."""

    __slots__ = ("name", "reason", "served", "state", "version")

    def __init__(self, name: str, version: int, state: ModelState, reason: str = "") -> None:
        self.name = name
        self.version = version
        self.state = state
        self.reason = reason
        self.served: ServedModel | None = None

    @property
    def is_down(self) -> bool:
        """Whether it is loaded and none of its instances can take requests: they are being started again."""
        return self.state is ModelState.UNAVAILABLE and self.served is not None


class ServedModel:
    """One loaded version, ready for requests."""

    __slots__ = (
        "config",
        "model",
        "name",
        "places",
        "private",
        "record",
        "scheduler",
        "signature",
        "statistics",
        "version",
    )

    def __init__(  # noqa: PLR0913  a record of what the loader made, by name
        self,
        record: VersionRecord,
        *,
        config: ModelConfig,
        signature: ModelSignature,
        statistics: ModelStatistics,
        scheduler: Scheduler,
        model: Model,
    ) -> None:
        self.name = record.name
        self.version = record.version
        self.record = record
        self.config = config
        self.signature = signature
        self.statistics = statistics
        self.scheduler = scheduler
        self.model = model
        self.places = placement.places(config)
        """The instances that it has."""
        self.private: PrivateFolder | None = None
        """The folder that was made for its files, where they came with the load."""

    @property
    def placement(self) -> dict[str, InstanceSpec]:
        """Where each instance runs, by its name."""
        return {place.spec.name: place.spec for place in self.places}

    @property
    def state(self) -> ModelState:
        """The version's state."""
        return self.record.state

    @property
    def reason(self) -> str:
        """Why it is in that state, or "" where there is nothing to say."""
        return self.record.reason

    async def probe_ready(self) -> bool:
        """Whether all instances can take requests, and say so themselves where the model has a say. Serving loop."""
        return await self.scheduler.instances.probe()


class ModelEntry:
    """One model by name: its versions, and the lock that makes loads and unloads of it take turns.

    ``loaded`` is what the versions that serve were made of, None where nothing was loaded since the last unload.
    """

    __slots__ = ("loaded", "lock", "name", "reason", "skipped", "versions")

    def __init__(self, name: str) -> None:
        self.name = name
        self.reason = ""
        self.skipped = False
        """Whether the start passed it over: it is shown with its reason, and readiness does not count it."""
        self.versions: dict[int, VersionRecord] = {}
        self.loaded: Loaded | None = None
        self.lock = asyncio.Lock()

    def ready(self, version: int) -> ServedModel | None:
        """What serves a version with all its instances, None where nothing does."""
        record = self.versions.get(version)
        if record is None or record.state is not ModelState.READY or record.served is None:
            return None
        return record.served if record.served.scheduler.instances.all_ready else None

    @property
    def is_gone(self) -> bool:
        """Whether all that was loaded was unloaded again."""
        return not self.reason and all(
            record.state is ModelState.UNAVAILABLE and record.reason == UNLOADED for record in self.versions.values()
        )


class ModelTable:
    """All models by name."""

    def __init__(self) -> None:
        self._entries: dict[str, ModelEntry] = {}
        self._listed: frozenset[str] = frozenset()
        self._duplicates: frozenset[str] = frozenset()
        self._serving: dict[tuple[str, int | None], ServedModel] = {}
        self._rows: tuple[tuple[IndexEntry, ServedModel | None], ...] = ()

    # Any thread

    @property
    def index(self) -> tuple[IndexEntry, ...]:
        """The repository index, by name and version."""
        return tuple(entry for entry, _ in self._rows)

    @property
    def rows(self) -> tuple[tuple[IndexEntry, ServedModel | None], ...]:
        """The repository index, each entry with what is loaded for it: what serves, is down, or is on its way out."""
        return self._rows

    def served(self) -> tuple[ServedModel, ...]:
        """What serves requests now, by name and version."""
        return tuple(
            served for (_, version), served in sorted(self._serving.copy().items(), key=_order) if version is not None
        )

    # Serving loop

    def __iter__(self) -> Iterator[ModelEntry]:
        return iter(tuple(self._entries.values()))

    def entry(self, name: str) -> ModelEntry:
        """The entry of a model, made where there is none."""
        entry = self._entries.get(name)
        if entry is None:
            entry = self._entries[name] = ModelEntry(name)
        return entry

    def known(self, name: str) -> ModelEntry | None:
        """The entry of a model that a load was tried for, or None."""
        return self._entries.get(name)

    def list_repository(self, names: Iterable[str], duplicates: Iterable[str] = ()) -> None:
        """Take note of the models that the repositories hold, loaded or not, and of names that several hold."""
        self._listed = frozenset(names)
        self._duplicates = frozenset(duplicates)
        self.publish()

    def note_listed(self, name: str) -> None:
        """Take note that a repository holds a model."""
        if name not in self._listed:
            self._listed |= {name}

    def find(self, name: str, version: int | None = None) -> ServedModel:
        """What serves a version, or the highest ready one for None.

        Raises NotFound or Unavailable with Triton's sentences.
        """
        served = self._serving.get((name, version))
        if served is not None:
            return served
        prefix = f"Request for unknown model: '{name}'"
        entry = self._entries.get(name)
        if entry is None or (not entry.versions and not entry.reason):
            msg = f"{prefix} is not found"
            raise NotFound(msg)
        if version is None:
            down = [record for record in entry.versions.values() if record.is_down]
            if not down:
                msg = f"{prefix} has no available versions"
                raise NotFound(msg)
            record: VersionRecord | None = max(down, key=lambda each: each.version)
        else:
            record = entry.versions.get(version)
        if record is None:
            msg = f"{prefix} version {version} is not found"
            raise NotFound(msg)
        reason = f": {record.reason}" if record.is_down else ""
        msg = f"{prefix} version {record.version} is not at ready state{reason}"
        raise Unavailable(msg)

    def ready_versions(self, name: str) -> tuple[int, ...]:
        """The versions that serve, ascending. Any thread."""
        entry = self._entries.get(name)
        if entry is None:
            return ()
        return tuple(sorted(v for v, record in entry.versions.copy().items() if record.state is ModelState.READY))

    def health_changed(self, record: VersionRecord) -> None:
        """An instance of a version died, is back, or was given up: show it at once."""
        served = record.served
        if served is None or record.state not in (ModelState.READY, ModelState.UNAVAILABLE):
            return
        record.state = ModelState.READY if served.scheduler.instances.any_ready else ModelState.UNAVAILABLE
        record.reason = served.scheduler.instances.reason
        self.publish()

    def publish(self) -> None:
        """Rebuild the frozen views after a change."""
        serving: dict[tuple[str, int | None], ServedModel] = {}
        rows: list[tuple[IndexEntry, ServedModel | None]] = []
        # A model whose files came with its load is in no repository, so it is listed until it is unloaded.
        elsewhere = {name for name, entry in self._entries.items() if not entry.is_gone}
        for name in sorted(elsewhere | self._listed | self._duplicates):
            entry = self._entries.get(name)
            if name in self._duplicates:
                reason = "model appears in two or more repositories"
                rows.append((IndexEntry(name, state=ModelState.UNAVAILABLE.value, reason=reason), None))
            if entry is None or not entry.versions:
                if name not in self._duplicates:
                    state = ModelState.UNAVAILABLE.value if entry is not None and entry.reason else ""
                    rows.append((IndexEntry(name, state=state, reason=entry.reason if entry else ""), None))
                continue
            for version, record in sorted(entry.versions.items()):
                rows.append((IndexEntry(name, str(version), record.state.value, record.reason), record.served))
                if record.state is ModelState.READY and record.served is not None:
                    serving[name, version] = serving[name, None] = record.served
        self._serving = serving
        self._rows = tuple(rows)

    @property
    def all_ready(self) -> bool:
        """Whether every version serves with all its instances, but for those unloaded on request or passed over."""
        for entry in self._entries.copy().values():
            if not entry.versions and entry.reason and not entry.skipped:
                return False
            for record in entry.versions.copy().values():
                if record.state is ModelState.UNAVAILABLE and record.reason == UNLOADED:
                    continue
                if record.state is not ModelState.READY:
                    return False
                if record.served is not None and not record.served.scheduler.instances.all_ready:
                    return False
        return True


def _order(item: tuple[tuple[str, int | None], ServedModel]) -> tuple[str, int]:
    name, version = item[0]
    return (name, version or 0)
