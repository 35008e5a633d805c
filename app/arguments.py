"""Read the command line of ``infer serve`` by Triton's rules, and write its usage text.

Only long options; ``--name value`` and ``--name=value``; a prefix that fits one name only stands for it; no
positional arguments. Every refusal is a :class:`BadOption`, whose text is what a user reads.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .flags import BY_NAME, FLAGS, Flag, Group, Kind, Value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TRUE = ("true", "on", "1")
_FALSE = ("false", "off", "0")
_LEADING_INTEGER = re.compile(r"\s*([+-]?\d+)")
_INT32 = range(-(2**31), 2**31)
_INT64 = range(-(2**63), 2**63)
_WIDTH = 100


class BadOption(Exception):
    """The command line cannot be followed; the text says why and how to mend it."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """What was given, by flag name and in order; aliases are resolved. A flag that was not given has no entry."""

    given: Mapping[str, tuple[Value, ...]]

    def value(self, name: str) -> Value:
        """The last value given, else the default."""
        values = self.given.get(name)
        return values[-1] if values else BY_NAME[name].default

    def boolean(self, name: str) -> bool:
        """The value of a boolean flag or a switch."""
        return bool(self.value(name))

    def integer(self, name: str) -> int:
        """The value of an integer flag."""
        return int(self.value(name))

    def number(self, name: str) -> float:
        """The value of a flag that takes fractions."""
        return float(self.value(name))

    def text(self, name: str) -> str:
        """The value of a text flag."""
        return str(self.value(name))

    def texts(self, name: str) -> tuple[str, ...]:
        """Every value of a repeatable flag, each once, in the order given."""
        return tuple(dict.fromkeys(str(value) for value in self.given.get(name, ())))


def parse(args: Sequence[str]) -> Arguments:
    """Read a command line (without the program's name). Raises BadOption."""
    given: dict[str, list[Value]] = {}
    rest = list(args)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--") or word == "--":
            msg = f"Unexpected argument: {word!r}. Every option is --name value or --name=value."
            raise BadOption(msg)
        written, equals, text = word[2:].partition("=")
        flag = _find(written)
        if flag.kind is Kind.SWITCH:
            if equals:
                msg = f'Bad option: "--{flag.name}".\nIt takes no value, got {text!r}.'
                raise BadOption(msg)
            value: Value = True
        else:
            if not equals:
                if not rest:
                    msg = f'Bad option: "--{flag.name}".\nIt needs a value ({flag.kind.value}) and none follows.'
                    raise BadOption(msg)
                text = rest.pop(0)
            value = read_value(flag, text)
        given.setdefault(flag.alias or flag.name, []).append(value)
    return Arguments({name: tuple(values) for name, values in given.items()})


def _find(written: str) -> Flag:
    """The flag that a written name stands for."""
    exact = BY_NAME.get(written)
    if exact is not None:
        return exact
    fitting = [flag for flag in FLAGS if flag.name.startswith(written)] if written else []
    # An abbreviation that Triton understands keeps its meaning, whatever we add.
    fitting = [flag for flag in fitting if not flag.ours] or fitting
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        names = ", ".join(f"--{flag.name}" for flag in fitting)
        msg = f'Bad option: "--{written}".\nIt fits several options: {names}.'
        raise BadOption(msg)
    msg = f'Bad option: "--{written}".\nThere is no option of this name{_nearest(written)}'
    raise BadOption(msg)


def _nearest(written: str) -> str:
    """The end of the sentence about a misspelt name: a suggestion, where there is one."""
    import difflib  # noqa: PLC0415  needed for a mistake only

    near = difflib.get_close_matches(written, BY_NAME, n=1)
    return f"; did you mean --{near[0]}?" if near else "."


def read_value(flag: Flag, text: str) -> Value:
    """One value of a flag from its text. Raises BadOption that names the flag and what it takes."""
    try:
        value = _convert(flag.kind, text)
        _check(flag, value)
    except ValueError as error:
        msg = f'Bad option: "--{flag.name}".\n{error}'
        raise BadOption(msg) from error
    if flag.choices and flag.fold:
        return text.lower()
    return value


def _convert(kind: Kind, text: str) -> Value:
    """The text as a value of that kind; ValueError says what the kind takes."""
    if kind is Kind.BOOL:
        return _boolean(text)
    if kind is Kind.VERBOSITY:
        return int(_boolean(text)) if text.lower() in (*_TRUE, *_FALSE) else _integer(text, _INT32)
    if kind is Kind.INT:
        return _integer(text, _INT64)
    if kind is Kind.FLOAT:
        try:
            return float(text)
        except ValueError:
            msg = f"It takes a number, got {text!r}."
            raise ValueError(msg) from None
    return text


def _boolean(text: str) -> bool:
    lowered = text.lower()
    if lowered in _TRUE:
        return True
    if lowered in _FALSE:
        return False
    msg = f"It takes one of {', '.join(_TRUE)} or {', '.join(_FALSE)}, got {text!r}."
    raise ValueError(msg)


def _integer(text: str, allowed: range) -> int:
    """As C's ``stoi`` reads it: what follows the digits is ignored, as Triton ignores it."""
    match = _LEADING_INTEGER.match(text)
    if match is None:
        msg = f"It takes an integer, got {text!r}."
        raise ValueError(msg)
    number = int(match[1])
    if number not in allowed:
        msg = f"It takes an integer from {allowed.start} to {allowed.stop - 1}, got {text!r}."
        raise ValueError(msg)
    return number


def _check(flag: Flag, value: Value) -> None:
    """Hold a value against the bounds of its row."""
    if isinstance(value, str):
        allowed = tuple(choice.lower() for choice in flag.choices) if flag.fold else flag.choices
        if allowed and (value.lower() if flag.fold else value) not in allowed:
            msg = f"It takes one of {', '.join(flag.choices)}, got {value!r}."
            raise ValueError(msg)
        if flag.not_empty and not value:
            msg = "It takes a text that is not empty."
            raise ValueError(msg)
        return
    if flag.minimum is not None and not value >= flag.minimum:
        msg = f"It takes at least {flag.minimum}, got {value}."
        raise ValueError(msg)
    if flag.maximum is not None and value > flag.maximum:
        msg = f"It takes at most {flag.maximum}, got {value}."
        raise ValueError(msg)


def usage() -> str:
    """The usage text: every flag under the heading of its group."""
    lines = ["Usage: infer serve [options]"]
    for group in Group:
        lines += ["", f"{group.value}:"]
        for flag in FLAGS:
            if flag.group is group:
                lines += _describe(flag)
    return "\n".join(lines) + "\n"


def _describe(flag: Flag) -> list[str]:
    """A flag's lines in the usage text."""
    head = f"  --{flag.name}" + (f" <{flag.kind.value}>" if flag.kind is not Kind.SWITCH else "")
    notes: list[str] = []
    if flag.kind is not Kind.SWITCH and flag.default != "":
        notes.append(f"default {str(flag.default).lower() if isinstance(flag.default, bool) else flag.default}")
    if flag.ours:
        notes.append("not in Triton")
    if not flag.acted:
        notes.append("accepted, not acted on yet")
    text = flag.help + (f" [{'; '.join(notes)}]" if notes else "")
    return [head, *textwrap.wrap(text, _WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 8)]
