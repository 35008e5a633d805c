"""Tensors by their place in nested arguments and results: ``ARGS[0]``, ``KWARGS[mask]``, ``RESULT[scores]``. Pure.

Exported programs and AOTInductor packages take and give trees of tensors. A name is a path, an argument's own name, or
``<name>__<ordinal>`` over all tensors of the tree.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from .naming import NamingError, logger, numbers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_QUOTES = re.compile(r"\[(['\"])(.*?)\1\]")


def input_paths(tree: Any, arguments: Sequence[str] = ()) -> dict[str, int]:  # noqa: ANN401  a tree
    """Path → ordinal for ``(args, kwargs)``, whose tensors are their ordinals.

    ``arguments`` are the names of the arguments, where they are known; an argument that is one tensor has its name, and
    so have the values of a dictionary that is the only argument.
    """
    args, kwargs = cast("tuple[tuple[Any, ...], dict[str, Any]]", tree)
    found = _paths(args, "ARGS") | _paths(kwargs, "KWARGS")
    named = [*zip(arguments, args, strict=False), *kwargs.items()]
    found.update({name: leaf for name, leaf in named if isinstance(leaf, int)})
    every = (*args, *kwargs.values())
    if len(every) == 1 and isinstance(every[0], dict):
        keys = cast("dict[str, Any]", every[0])
        found.update({str(key): leaf for key, leaf in keys.items() if isinstance(leaf, int)})
    return found


def output_paths(tree: Any) -> dict[str, int]:  # noqa: ANN401  a tree
    """Path → ordinal for a result; the keys of a dictionary are names too."""
    found = _paths(tree, "RESULT")
    if isinstance(tree, dict):
        keys = cast("dict[str, Any]", tree)
        found.update({str(key): leaf for key, leaf in keys.items() if isinstance(leaf, int)})
    return found


def bind(model: str, side: str, names: Sequence[str], paths: Mapping[str, int]) -> tuple[int, ...]:
    """The ordinal of every configured name; ``side`` is input or output. Raises NamingError."""
    count = len(set(paths.values()))
    plain = [_QUOTES.sub(r"[\2]", name) for name in names]
    if all(name in paths for name in plain):
        places = tuple(paths[name] for name in plain)
    elif any(name.startswith(("ARGS[", "KWARGS[", "RESULT")) for name in plain):
        lost = next(name for name in plain if name not in paths)
        known = ", ".join(path for path in paths if path.startswith(("ARGS", "KWARGS", "RESULT")))
        msg = f"model '{model}': {side} '{lost}' is no path of the model; its {side}s are {known}"
        raise NamingError(msg)
    else:
        places = numbers(model, side, names) or _in_order(model, side, names)
    beyond = next((name for name, place in zip(names, places, strict=True) if place >= count), None)
    if beyond is not None:
        msg = f"model '{model}': {side} '{beyond}' is beyond the {count} {side}(s) of the model"
        raise NamingError(msg)
    if side == "input" and len(set(places)) != count:
        msg = (
            f"model '{model}' takes {count} inputs, and {len(names)} are configured; it takes "
            f"{', '.join(path for path in paths if path.startswith(('ARGS', 'KWARGS')))}"
        )
        raise NamingError(msg)
    return places


def _in_order(model: str, side: str, names: Sequence[str]) -> tuple[int, ...]:
    if len(names) > 1:
        logger.warning(
            "model '%s': the %ss are neither all paths of the model nor <name>__<index>; they are taken in the order "
            "of the configuration",
            model,
            side,
        )
    return tuple(range(len(names)))


def _paths(tree: Any, prefix: str) -> dict[str, int]:  # noqa: ANN401  a tree
    if isinstance(tree, int):
        return {prefix: tree}
    items: list[tuple[Any, Any]] = []
    if isinstance(tree, dict):
        items = list(cast("dict[Any, Any]", tree).items())
    elif isinstance(tree, (tuple, list)):
        items = list(enumerate(cast("list[Any]", tree)))
    return {path: leaf for key, child in items for path, leaf in _paths(child, f"{prefix}[{key}]").items()}
