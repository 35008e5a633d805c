"""What a load of a model that already serves leaves as it is. Pure. Rules: Triton's selective reload.

A version is kept, with its instances and their state, where nothing in its own folder changed, nothing that all
versions share changed, and the configuration differs in its version policy only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..repository import autofill, changes, config_reader

if TYPE_CHECKING:
    from pathlib import Path

    from ...backends.api.model_config import Document, ModelConfig
    from .sources import ModelSource

_POLICY = "version_policy"
_CONFIG_FILES = frozenset({config_reader.CONFIG_FILE, "configs"})
"""Their content is compared as what it says, not by its time."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What the last load that succeeded was made of; ``config`` is as it was before backends completed it."""

    path: Path
    stamp: changes.FolderStamp
    config: ModelConfig
    versions: tuple[int, ...]


def is_unchanged(loaded: Loaded, source: ModelSource) -> bool:
    """Whether a plain load has nothing to do, as far as files say."""
    return loaded.path == source.folder.path and not changes.is_changed(loaded.stamp, source.stamp)


def keepable(loaded: Loaded, source: ModelSource, config: ModelConfig) -> frozenset[int]:
    """The versions that a load may keep: those that it would bring up just as they are."""
    if loaded.path != source.folder.path or _but_policy(loaded.config) != _but_policy(config):
        return frozenset()
    same = changes.unchanged_versions(loaded.stamp, source.stamp, config_files=_CONFIG_FILES)
    return same & frozenset(loaded.versions)


def with_policy_of(config: ModelConfig, other: ModelConfig) -> ModelConfig:
    """A kept version's configuration with the version policy that holds from now on."""
    policy = autofill.normalise(other).document[_POLICY]
    return config_reader.from_document({**config.document, _POLICY: policy}, source=config.name)


def _but_policy(config: ModelConfig) -> Document:
    return {key: value for key, value in config.document.items() if key != _POLICY}
