"""Which configured name is which argument, and which part of a result: Triton's rules for PyTorch. Pure.

Inputs go by the names of forward()'s arguments where all of them are such names, else by the number behind ``__`` where
all names have one, else in the order of the configuration. Outputs go by number or by order, and by key where the
model returns a dictionary.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

logger = logging.getLogger("infer.torch")

TENSOR = "tensor"
STRINGS = "strings"
DICTIONARY = "dictionary"
ANYTHING = "anything"
"""What an argument takes, as far as it says; every other text is the name of a type that cannot be served."""

_NUMBERED = re.compile(r".+__([0-9]+)")


class NamingError(Exception):
    """Names that fit no rule, or a result that does not fit the names; the text is a sentence."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of forward(): ``kind`` is TENSOR, STRINGS, DICTIONARY, ANYTHING or a type that is none of them."""

    name: str
    kind: str = TENSOR
    required: bool = True


@dataclass(frozen=True, slots=True)
class Binding:
    """How named inputs become a call. ``arguments`` maps an input's name to its argument's, in the arguments' order.

    ``positional`` says that these are the first arguments without a gap; ``mapping`` that the one argument is a
    dictionary of all inputs.
    """

    arguments: Mapping[str, str]
    positional: bool
    mapping: bool = False

    def call(self, feed: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments for these inputs; those that are left out are left to their defaults."""
        if self.mapping:
            return [dict(feed)], {}
        if self.positional and len(feed) == len(self.arguments):
            return [feed[name] for name in self.arguments], {}
        return [], {argument: feed[name] for name, argument in self.arguments.items() if name in feed}


def bind_inputs(model: str, names: Sequence[str], arguments: Sequence[Argument]) -> Binding:
    """Match configured inputs with forward()'s arguments. Raises NamingError where they cannot be matched."""
    if len(arguments) == 1 and arguments[0].kind == DICTIONARY:
        return Binding({name: name for name in names}, positional=False, mapping=True)
    known = {argument.name: argument for argument in arguments}
    if all(name in known for name in names):
        chosen = {argument.name: argument for argument in arguments if argument.name in names}
    else:
        chosen = _by_position(model, names, arguments)
    used = {argument.name for argument in chosen.values()}
    missing = [argument.name for argument in arguments if argument.required and argument.name not in used]
    if missing:
        msg = (
            f"model '{model}': no input is configured for argument {_quoted(missing)} of forward(); "
            f"the configured inputs are {_quoted(names)}"
        )
        raise NamingError(msg)
    order = [argument.name for argument in arguments]
    bound = {name: argument.name for name, argument in chosen.items()}
    return Binding(bound, positional=list(bound.values()) == order[: len(bound)])


def _by_position(model: str, names: Sequence[str], arguments: Sequence[Argument]) -> dict[str, Argument]:
    """Input name → argument, by number or by order, in the order of the arguments."""
    order = numbers(model, "input", names)
    if order is None:
        order = tuple(range(len(names)))
        if len(names) > 1:
            logger.warning(
                "model '%s': the inputs are neither all named as arguments of forward() (%s) nor <name>__<index>; they "
                "are passed in the order of the configuration",
                model,
                ", ".join(argument.name for argument in arguments),
            )
    beyond = [name for name, number in zip(names, order, strict=True) if number >= len(arguments)]
    if beyond:
        known = _quoted([argument.name for argument in arguments]) or "none"
        msg = f"model '{model}': input {_quoted(beyond)} has no argument; those of forward() are {known}"
        raise NamingError(msg)
    return {name: arguments[number] for number, name in sorted(zip(order, names, strict=True))}


def numbers(model: str, side: str, names: Sequence[str]) -> tuple[int, ...] | None:
    """The numbers behind ``__``, or None where not every name has one. Raises NamingError for one twice."""
    matches = [_NUMBERED.fullmatch(name) for name in names]
    found = [int(match[1]) for match in matches if match is not None]
    if len(found) < len(names):
        return None
    twice = sorted({number for number in found if found.count(number) > 1})
    if twice:
        msg = f"model '{model}': several {side}s are numbered {', '.join(map(str, twice))}: {_quoted(names)}"
        raise NamingError(msg)
    return tuple(found)


def bind_outputs(model: str, names: Sequence[str]) -> tuple[int, ...]:
    """The place of every configured output in what the model returns. Raises NamingError."""
    if not names:
        msg = f"model configuration must contain at least one output, none were specified (model '{model}')"
        raise NamingError(msg)
    return numbers(model, "output", names) or tuple(range(len(names)))


def pick(result: Any, names: Sequence[str], places: Sequence[int]) -> list[Any]:  # noqa: ANN401  whatever a model returns
    """The configured outputs of a result, which is one value, a tuple, a list or a dictionary. Raises NamingError."""
    if isinstance(result, dict):
        given = cast("dict[Any, Any]", result)
        missing = [name for name in names if name not in given]
        if missing:
            keys = _quoted([str(key) for key in given])
            msg = f"output {_quoted(missing)} is not in the dictionary that the model returned, whose keys are {keys}"
            raise NamingError(msg)
        return [given[name] for name in names]
    many = isinstance(result, (tuple, list)) and not is_text(cast("object", result))
    values = cast("Sequence[Any]", result if many else (result,))
    try:
        return [values[place] for place in places]
    except IndexError:
        name, place = next((name, place) for name, place in zip(names, places, strict=True) if place >= len(values))
        msg = f"the model returned {len(values)} output(s), and output '{name}' is number {place}, counted from 0"
        raise NamingError(msg) from None


def is_text(value: object) -> bool:
    """Whether a value is a list of strings, perhaps of none: one output, not several."""
    return isinstance(value, list) and all(isinstance(item, str) for item in cast("list[object]", value))


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
