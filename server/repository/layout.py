"""Where models and their versions lie on disk.

A repository is a folder whose immediate subfolders are models; a model's subfolders that are named with a whole
number are its versions::

    repository/simple/config.pbtxt
    repository/simple/1/model.py

A folder of scripts and their notes (``clients/simple.py``) may lie beside the models and is none.

Everything here is blocking file I/O and belongs on the loader's pool.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...backends.api.errors import InvalidArgument, NotFound

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

logger = logging.getLogger(__name__)

NOT_VERSIONS = frozenset({"warmup", "initial_state", "configs", "__pycache__"})
"""Folders of a model that are no versions and need no remark."""
SCRIPTS = frozenset({".py", ".sh"})
NOTES = frozenset({".md", ".txt"})
MAX_VERSION = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """One model on disk. ``versions`` ascend; ``repository`` is the folder it was found in."""

    name: str
    path: Path
    versions: tuple[int, ...]
    repository: Path


@dataclass(frozen=True, slots=True)
class DuplicateName:
    """A name that several repositories hold, so that it can be served from none."""

    name: str
    paths: tuple[Path, ...]
    reason: str = "model appears in two or more repositories"


def scan(repositories: Sequence[Path]) -> list[ModelFolder | DuplicateName]:
    """Every model of the repositories, by name. A repository given twice counts once.

    Raises InvalidArgument for a repository that is not a folder or cannot be read.
    """
    found: dict[str, list[tuple[Path, Path]]] = {}
    for repository in _distinct(repositories):
        for path in _model_paths(repository):
            found.setdefault(path.name, []).append((repository, path))
    return [_entry(name, places) for name, places in sorted(found.items())]


def find(repositories: Sequence[Path], name: str) -> ModelFolder:
    """The folder of one model.

    Raises InvalidArgument for a name that cannot be a folder's and for one that several repositories hold, and
    NotFound where none holds it.
    """
    check_name(name)
    distinct = _distinct(repositories)
    places = [(repository, repository / name) for repository in distinct if (repository / name).is_dir()]
    if not places:
        where = ", ".join(f"'{repository}'" for repository in distinct)
        msg = f"no folder '{name}' in model repository {where}; create it, or check the name's spelling"
        raise NotFound(msg)
    models = [(repository, path) for repository, path in places if not holds_scripts(path)]
    if not models:
        msg = (
            f"folder '{places[0][1]}' holds scripts and no model; "
            f"a model's files lie in a folder of their version, such as '{name}/1/model.py'"
        )
        raise NotFound(msg)
    entry = _entry(name, models)
    if isinstance(entry, DuplicateName):
        where = ", ".join(f"'{path}'" for path in entry.paths)
        msg = f"model '{name}' appears in two or more repositories: {where}; keep one of them, or rename one"
        raise InvalidArgument(msg)
    return entry


def check_name(name: str) -> None:
    """Raise InvalidArgument for a model name that is empty or would lead out of the repository."""
    if not name.strip():
        msg = "Model name cannot be empty. Name a folder of the model repository"
        raise InvalidArgument(msg)
    if ".." in name or "/" in name or "\\" in name or "\0" in name:
        msg = f"invalid model name {name!r}, model name must not contain path traversal characters"
        raise InvalidArgument(msg)


def holds_scripts(path: Path) -> bool:
    """Whether a folder beside the models holds programs that use them, and nothing that a model is made of.

    That is a folder with a script, with nothing but scripts and notes, and without ``model.py``: a model whose version
    folder or configuration was forgotten stays one, so that its load says what is missing. Triton takes every folder
    for a model.
    """
    try:
        entries = [entry for entry in path.iterdir() if not entry.name.startswith(".") and entry.name != "__pycache__"]
    except OSError:
        return False  # whoever looks for its versions says why
    kinds = {"folder" if entry.is_dir() or entry.name == "model.py" else entry.suffix for entry in entries}
    return bool(kinds & SCRIPTS) and kinds <= SCRIPTS | NOTES


def version_entries(folder: ModelFolder) -> tuple[str, ...]:
    """Names in the folder of the lowest version, sorted; a folder's name ends with ``/``. Empty without versions."""
    if not folder.versions:
        return ()
    first = folder.path / str(folder.versions[0])
    return tuple(sorted(f"{entry.name}/" if entry.is_dir() else entry.name for entry in first.iterdir()))


def _distinct(repositories: Sequence[Path]) -> list[Path]:
    """The repositories in order, each once however it is spelled."""
    by_location: dict[Path, Path] = {}
    for repository in repositories:
        if not repository.is_dir():
            msg = f"repository path is not a valid directory: '{repository}'; create it, or mend --model-repository"
            raise InvalidArgument(msg)
        by_location.setdefault(repository.resolve(), repository)
    return list(by_location.values())


def _model_paths(repository: Path) -> Iterator[Path]:
    try:
        entries = sorted(repository.iterdir())
    except OSError as exc:
        msg = f"model repository '{repository}' cannot be read: {exc.strerror}"
        raise InvalidArgument(msg) from exc
    for path in entries:
        # Dot folders are version control, editors' and mounted volumes' bookkeeping (`..data`), never models.
        if path.is_dir() and not path.name.startswith(".") and path.name != "__pycache__" and not holds_scripts(path):
            yield path


def _entry(name: str, places: Sequence[tuple[Path, Path]]) -> ModelFolder | DuplicateName:
    if len(places) > 1:
        return DuplicateName(name, tuple(path for _, path in places))
    repository, path = places[0]
    return ModelFolder(name, path, _versions(path), repository)


def _versions(path: Path) -> tuple[int, ...]:
    """The version numbers of a model folder, ascending; what looks like a version and is none is logged."""
    try:
        names = [entry.name for entry in path.iterdir() if entry.is_dir()]
    except OSError as exc:
        msg = f"model folder '{path}' cannot be read: {exc.strerror}"
        raise InvalidArgument(msg) from exc
    versions: list[int] = []
    for name in sorted(names):
        if name in NOT_VERSIONS or name.startswith("."):
            continue
        remark = _not_a_version(name)
        if remark:
            logger.warning("ignore version directory '%s' which %s, in '%s'", name, remark, path)
        else:
            versions.append(int(name))
    return tuple(sorted(versions))


def _not_a_version(name: str) -> str:
    """Why a folder's name is no version number, or ""."""
    if not (name.isascii() and name.isdigit()):
        return "fails to convert to integral number"
    if len(name) > 1 and name.startswith("0"):
        return "contains leading zeros"
    if int(name) > MAX_VERSION:
        return f"is larger than {MAX_VERSION}"
    return ""
