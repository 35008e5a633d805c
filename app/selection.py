"""Which models a command means, and what must be asked before it changes them. Pure."""

from __future__ import annotations

import difflib
import fnmatch
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .failures import CommandError, ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..tui.snapshot import Overview

_GLOB = frozenset("*?[")
LOADED = ("READY", "LOADING", "UNLOADING")
"""States of a version that serves, or did a moment ago."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The models meant, each once and in order. ``broad`` says that nobody has spelt all of them out."""

    names: tuple[str, ...]
    broad: bool = False


def is_glob(pattern: str) -> bool:
    """Whether a word stands for any number of names."""
    return bool(_GLOB.intersection(pattern))


def select(patterns: Sequence[str], known: Iterable[str], *, every: bool = False, kind: str = "") -> Selection:
    """The models that names and globs mean among the ``known`` ones; ``every`` is ``--all``.

    A plain name is taken as it is: the server knows best. ``kind`` says what the known ones are (``loaded ``).
    Raises CommandError for a glob that fits none, and for no name at all.
    """
    there = tuple(dict.fromkeys(known))
    if every and patterns:
        raise CommandError(
            "--all and names exclude each other", "--all is every model", "leave one of them out", code=ExitCode.USAGE
        )
    if every:
        return Selection(there, broad=True)
    if not patterns:
        raise CommandError(
            "no model is named", "a change wants to be told which", "name some, or all with --all", code=ExitCode.USAGE
        )
    names: list[str] = []
    for pattern in patterns:
        fitting = matching(pattern, there) if is_glob(pattern) and pattern not in there else (pattern,)
        if not fitting:
            raise CommandError(
                f"no {kind}model fits '{pattern}'",
                f"the choice is {', '.join(there)}" if there else "there is none to choose from",
                "see what is there: infer model list",
                code=ExitCode.NOT_FOUND,
            )
        names += fitting
    return Selection(tuple(dict.fromkeys(names)), broad=any(is_glob(pattern) for pattern in patterns))


def matching(pattern: str, names: Iterable[str]) -> tuple[str, ...]:
    """The names that a glob fits; upper and lower case differ."""
    return tuple(name for name in names if fnmatch.fnmatchcase(name, pattern))


def nearest(name: str, known: Iterable[str]) -> str:
    """A suggestion for a misspelt name: empty where nothing is near."""
    near = difflib.get_close_matches(name, tuple(dict.fromkeys(known)), n=1)
    return near[0] if near else ""


def reasons_to_ask(selection: Selection, overview: Overview | None) -> tuple[str, ...]:
    """Why a person should say yes before these models stop serving or are loaded again; empty where nobody need."""
    reasons: list[str] = []
    if len(selection.names) > 1:
        reasons.append(f"{len(selection.names)} models")
    for name in selection.names:
        reasons += _consequences(name, selection.names, overview)
    return tuple(reasons)


def _consequences(name: str, chosen: Sequence[str], overview: Overview | None) -> list[str]:
    if overview is None:
        return []
    found: list[str] = []
    in_flight = sum(row.in_flight or 0 for row in overview.models if row.name == name)
    if in_flight:
        found.append(f"'{name}' has {in_flight} request{'s' if in_flight > 1 else ''} in flight")
    dependents = [one for one in overview.dependents(name) if one not in chosen and is_loaded(one, overview)]
    if dependents:
        found.append(f"'{name}' is a step of {', '.join(dependents)}")
    return found


def is_loaded(name: str, overview: Overview) -> bool:
    """Whether a version of the model serves, or is on its way."""
    return any(row.state in LOADED for row in overview.models if row.name == name)
