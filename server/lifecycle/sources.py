"""Where a load takes a model from: its folder in a repository, or what came with the load."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...backends.api.errors import InvalidArgument
from ..repository import changes, config_reader, layout
from . import overrides as overriding
from .overrides import LoadOverrides
from .private_folder import PrivateFolder

if TYPE_CHECKING:
    from pathlib import Path

    from ...backends.api.backend import RunBlocking
    from ...backends.api.model_config import ModelConfig
    from ..repository.problem import UnsoundConfig


@dataclass(frozen=True, slots=True)
class ModelSource:
    """One model's folder as a load finds it, and what the load gives in place of its configuration.

    ``stamp`` is from before anything was read, so that what changes meanwhile is seen by the next load. ``private``
    is the folder that is removed when nothing serves from it.
    """

    folder: layout.ModelFolder
    stamp: changes.FolderStamp
    overrides: LoadOverrides = field(default_factory=LoadOverrides)
    config_name: str = ""
    private: PrivateFolder | None = None

    def read_config(self) -> ModelConfig | None:
        """The configuration as it is given, None without one. Blocking. Raises InvalidArgument."""
        if self.overrides.config is not None:
            return overriding.parse_config(self.overrides.config, self.folder.name)
        return config_reader.read(self.folder, config_name=self.config_name)

    def located(self, error: UnsoundConfig) -> InvalidArgument:
        """The error with the place that is to be mended in front: file and line, or the field of the override."""
        if self.overrides.config is not None:
            where = f"{overriding.SOURCE}: {error.path}" if error.path else overriding.SOURCE
            return InvalidArgument(f"{where}: {error}")
        return config_reader.located(self.folder, error, config_name=self.config_name)

    async def release(self) -> None:
        """The load has come to its end."""
        if self.private is not None:
            await self.private.release()


class Sources:
    """Finds what a load is to take. Serving loop; files are read on the pool."""

    def __init__(self, repositories: tuple[Path, ...], run_blocking: RunBlocking, *, config_name: str = "") -> None:
        self._repositories = repositories
        self._run_blocking = run_blocking
        self._config_name = config_name

    async def find(self, name: str, overrides: LoadOverrides) -> ModelSource:
        """The source of a model; release it when the load is over.

        Raises NotFound for a name that no repository holds, InvalidArgument for one that several hold and for
        overrides that cannot be.
        """
        if overrides.files:
            return await self._from_files(name, overrides)
        return await self._run_blocking(self._from_repository, name, overrides)

    def _from_repository(self, name: str, overrides: LoadOverrides) -> ModelSource:
        folder = layout.find(self._repositories, name)
        stamp = changes.take(folder.path)
        return ModelSource(folder, stamp, overrides, self._config_name)

    async def _from_files(self, name: str, overrides: LoadOverrides) -> ModelSource:
        layout.check_name(name)
        files = overriding.check_files(overrides)
        private = await PrivateFolder.build(name, files, self._run_blocking)
        try:
            folder = await self._run_blocking(layout.find, (private.repository,), name)
        except BaseException:
            await private.release()
            raise
        # Older than any folder, so that a plain load that follows goes back to the repository. The files themselves
        # are in place now; only what the configuration says is still of use.
        return ModelSource(folder, changes.OLDEST, LoadOverrides(overrides.config), private=private)
