"""A user's ``model.py``: its nn.Module, its weights, and what its forward() takes."""

from __future__ import annotations

import importlib.util
import inspect
import sys
import typing
from typing import TYPE_CHECKING, Any, cast

import torch

from .archive import Format, format_of
from .naming import ANYTHING, DICTIONARY, STRINGS, TENSOR, Argument, logger

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import ModuleType

CODE = ".py"
WEIGHTS = ".pt"


class ModuleError(Exception):
    """A ``model.py`` that cannot be served; the text is a sentence."""


def load_module(path: Path) -> torch.nn.Module:
    """The module of ``<folder>/<stem>.py``, made without arguments, with the weights of ``<stem>.pt`` if there are any.

    Raises ModuleError; exceptions of the user's own code pass.
    """
    module = module_class(_imported(path))()
    weights = path.with_suffix(WEIGHTS)
    if weights.is_file() and format_of(weights) is Format.WEIGHTS:
        state = torch.load(weights, map_location="cpu", weights_only=True)
        try:
            module.load_state_dict(state)
        except (RuntimeError, TypeError) as exc:
            msg = f"the weights in '{weights}' do not fit '{type(module).__name__}' of '{path}': {exc}"
            raise ModuleError(msg) from exc
    return module


def module_class(module: ModuleType) -> type[torch.nn.Module]:
    """The nn.Module that a module defines.

    Of several it is the one called ``Model``, else the first by name, as Triton takes it. Raises ModuleError for none.
    """
    own = {
        name: value
        for name, value in sorted(vars(module).items())
        if isinstance(value, type) and issubclass(value, torch.nn.Module) and value.__module__ == module.__name__
    }
    if not own:
        msg = f"cannot find a subclass of torch.nn.Module in the provided model file '{module.__file__}'"
        raise ModuleError(msg)
    chosen = "Model" if "Model" in own else next(iter(own))
    if len(own) > 1 and chosen != "Model":
        logger.warning(
            "'%s' defines several torch.nn.Module classes (%s); %s is served. Call the one to serve 'Model'",
            module.__file__,
            ", ".join(own),
            chosen,
        )
    return own[chosen]


def _imported(path: Path) -> ModuleType:
    """Import the file under ``<version>.<stem>``, so that its classes have a module that can be found again."""
    name = f"{path.parent.name}.{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        msg = f"'{path}' cannot be imported"
        raise ModuleError(msg)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def python_arguments(function: Any, count: int) -> list[Argument]:  # noqa: ANN401  any callable
    """The arguments of a Python forward(); one with ``*args`` takes ``count``."""
    try:
        hints: dict[str, Any] = typing.get_type_hints(function)
    except (NameError, TypeError, AttributeError):
        hints = {}
    found: list[Argument] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            return found + [Argument(f"argument {number}") for number in range(len(found), count)]
        if parameter.kind is not parameter.VAR_KEYWORD:
            required = parameter.default is parameter.empty
            found.append(Argument(parameter.name, _kind(hints.get(parameter.name)), required))
    return found


def script_arguments(module: Any) -> list[Argument]:  # noqa: ANN401  a ScriptModule
    """The arguments of a TorchScript module's forward(), self left out."""
    arguments = cast("Sequence[Any]", module.forward.schema.arguments)[1:]
    return [
        Argument(entry.name, _SCRIPT_KINDS.get(str(entry.type), str(entry.type)), not entry.has_default_value())
        for entry in arguments
    ]


_SCRIPT_KINDS = {
    "Tensor": TENSOR,
    "Optional[Tensor]": TENSOR,
    "List[str]": STRINGS,
    "Dict[str, Tensor]": DICTIONARY,
}


def _kind(hint: Any) -> str:  # noqa: ANN401  any annotation
    if hint is torch.Tensor:
        return TENSOR
    origin = typing.get_origin(hint)
    if origin is list and typing.get_args(hint) == (str,):
        return STRINGS
    if isinstance(origin, type) and issubclass(origin, typing.get_origin(typing.Mapping)):  # pyright: ignore[reportArgumentType]
        return DICTIONARY
    return ANYTHING
