"""What a load of a model that already serves leaves as it is. Pure. Rules: Triton's selective reload.

A version is kept where nothing in its own folder changed, nothing that all versions share changed, and the
configuration differs in its version policy and its instance groups only. It keeps those instances, with their state,
that the new groups ask for as well (``regroup``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..repository import changes, config_reader

if TYPE_CHECKING:
    from pathlib import Path

    from ...backends.api.model_config import Document, ModelConfig
    from .sources import ModelSource

_POLICY, _GROUPS = "version_policy", "instance_group"
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
    """The versions that a load may keep: those that it would bring up just as they are, but for their number."""
    if loaded.path != source.folder.path or _fixed(loaded.config) != _fixed(config):
        return frozenset()
    same = changes.unchanged_versions(loaded.stamp, source.stamp, config_files=_CONFIG_FILES)
    return same & frozenset(loaded.versions)


def is_regrouped(loaded: Loaded, config: ModelConfig) -> bool:
    """Whether a load asks for other instance groups than the last one."""
    return loaded.config.document.get(_GROUPS) != config.document.get(_GROUPS)


def with_changes_of(config: ModelConfig, other: ModelConfig, *, regrouped: bool) -> ModelConfig:
    """A kept version's configuration with what holds from now on: the version policy, and the groups where asked for.

    :param other: the configuration of the load, completed.
    """
    changed = (_POLICY, _GROUPS) if regrouped else (_POLICY,)
    return config_reader.from_document(
        {**config.document, **{field: other.document[field] for field in changed}}, source=config.name
    )


def _fixed(config: ModelConfig) -> Document:
    return {key: value for key, value in config.document.items() if key not in (_POLICY, _GROUPS)}
