"""The verbs of the dashboard: one table behind the command line (`:`), the palette and the help. Pure.

Each verb knows the line of the shell that does, or shows, the same, so that who learns one has learned the other.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .places import PLACES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb. ``takes_model``: ``required``, ``optional`` or ``""``; in ``shell``, ``{model}`` stands for a name."""

    name: str
    title: str
    shell: str
    aliases: tuple[str, ...] = ()
    takes_model: str = ""
    changes: bool = False

    def shell_line(self, model: str = "") -> str:
        """The command of the shell that does the same."""
        return self.shell.format(model=shlex.quote(model) if model else "").strip()


@dataclass(frozen=True, slots=True)
class Command:
    """A verb, and the model it is meant for (empty: the one selected)."""

    verb: str
    model: str = ""


VERBS = (
    Verb("models", "Show the models", "infer model list", ("ls", "1")),
    Verb("host", "Show host and GPUs", "infer top --once", ("gpus", "2")),
    Verb("logs", "Show the log", "infer logs -f", ("log", "3"), takes_model="optional"),
    Verb("try", "Call a model", "infer call {model}", ("call", "4"), takes_model="optional"),
    Verb("model", "Open a model", "infer model stats {model}", ("m", "describe"), takes_model="required"),
    Verb("config", "Show a model's configuration", "infer model config {model}", ("y",), takes_model="required"),
    Verb("load", "Load a model", "infer model load {model}", ("l",), takes_model="required", changes=True),
    Verb("unload", "Unload a model", "infer model unload {model}", ("u",), takes_model="required", changes=True),
    Verb("reload", "Reload a model", "infer model reload {model}", ("r",), takes_model="required", changes=True),
    Verb("refresh", "Ask the server now", "infer top --once"),
    Verb("pause", "Pause, or go on", "infer top --once", ("freeze",)),
    Verb("slower", "Longer intervals", "infer top --interval 2"),
    Verb("faster", "Shorter intervals", "infer top --interval 0.5"),
    Verb("theme", "Light or dark", "infer top"),
    Verb("mouse", "Mouse on or off", "INFER_NO_MOUSE=1 infer top"),
    Verb("help", "Show the keys", "infer top --help", ("h",)),
    Verb("quit", "Leave the dashboard", "infer down", ("q", "exit")),
)
"""In the order in which they are offered."""

BY_NAME = {word: verb for verb in VERBS for word in (verb.name, *verb.aliases)}


def offered(places: Iterable[str]) -> tuple[Verb, ...]:
    """The verbs that this build can do: a verb named like a screen needs the screen."""
    screens = {place.name for place in PLACES} - set(places)
    return tuple(verb for verb in VERBS if verb.name not in screens)


def parse(line: str, models: Sequence[str]) -> Command | str:
    """The command in a line, or a sentence that says what is wrong with it."""
    word, _, rest = line.strip().partition(" ")
    model = rest.strip()
    verb = BY_NAME.get(word)
    if verb is None:
        near = completions(word, models)
        return f"there is no command '{word}'" + (f"; did you mean '{near[0].strip()}'?" if near else "; see ? for all")
    if not model:
        return Command(verb.name)
    if not verb.takes_model:
        return f"'{verb.name}' takes no model"
    if model not in models:
        near = [name for name in models if model in name]
        return f"there is no model '{model}'" + (f"; did you mean '{near[0]}'?" if near else "")
    return Command(verb.name, model)


def completions(line: str, models: Sequence[str]) -> list[str]:
    """Whole lines that begin like this one: verbs, and after a verb that takes one, models."""
    word, space, rest = line.lstrip().partition(" ")
    if not space:
        return [verb.name + (" " if verb.takes_model else "") for verb in VERBS if verb.name.startswith(word)]
    verb = BY_NAME.get(word)
    if verb is None or not verb.takes_model:
        return []
    return [f"{word} {name}" for name in models if name.startswith(rest.strip())]
