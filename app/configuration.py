"""What a command is told besides its flags, and where each value comes from.

The strongest first: flag, environment ``INFER_*``, the project's ``infer.toml`` (in the working folder or above it),
the context in use, the user's ``config.toml``, default. A file is read whole and refused for the first thing in it that
is wrong, with its line, so that a misspelt key is no silent default.
"""

from __future__ import annotations

import difflib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from .client_settings import BY_NAME, SETTINGS, Setting, Value, check, from_text
from .failures import CommandError, ExitCode

if TYPE_CHECKING:
    from collections.abc import Mapping

PROJECT_FILE = "infer.toml"
CONTEXTS = "contexts"
CONTEXT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
DEFAULT = "default"
MASK = "********"

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Resolved:
    """The value of a setting and where it comes from, as a person reads it; ``value`` None is found out later.

    ``layer`` names the kind of place: flag, environment, project, context, user, default.
    """

    setting: Setting
    value: Value | None
    origin: str
    layer: str

    @property
    def shown(self) -> str:
        """The value for a screen: secrets masked."""
        if self.value is None or self.value == "":
            return ""
        if self.setting.secret:
            return MASK
        if isinstance(self.value, bool):
            return str(self.value).lower()
        return self.value if isinstance(self.value, str) else f"{self.value:g}"


@dataclass(frozen=True, slots=True)
class Context:
    """A server that was given a name, and the settings that go with it."""

    name: str
    values: Mapping[str, Value] = field(default_factory=dict[str, Value])

    def text(self, name: str) -> str:
        """One of its texts; empty where it has none."""
        return str(self.values.get(name, ""))


@dataclass(frozen=True, slots=True)
class Layer:
    """Values from one place; ``origins`` says of each where exactly."""

    name: str
    values: Mapping[str, Value]
    origins: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Configuration:
    """Every layer below the flags, strongest first, and all contexts by name."""

    layers: tuple[Layer, ...]
    context: Context | None
    contexts: Mapping[str, Context]

    def resolve(self, name: str, flag: Value | None = None) -> Resolved:
        """The setting's value; ``flag`` is what its flag gave, None for nothing."""
        setting = BY_NAME[name]
        if flag is not None:
            return Resolved(setting, flag, f"--{name.replace('_', '-')}", "flag")
        for layer in self.layers:
            if name in layer.values:
                return Resolved(setting, layer.values[name], layer.origins[name], layer.name)
        return Resolved(setting, setting.default, DEFAULT, DEFAULT)

    def text(self, name: str, flag: str | None = None) -> str:
        """A setting that is a text; empty where nothing gives it."""
        value = self.resolve(name, flag).value
        return "" if value is None else str(value)

    def number(self, name: str, flag: float | None, default: float) -> float:
        """A setting that is a number; ``default`` where nothing gives it."""
        value = self.resolve(name, flag).value
        return default if value is None else float(value)

    def boolean(self, name: str, flag: bool | None = None) -> bool:  # noqa: FBT001  what a flag gave
        """A setting that is yes or no."""
        return bool(self.resolve(name, flag).value)

    def all(self) -> tuple[Resolved, ...]:
        """Every setting, in the table's order."""
        return tuple(self.resolve(setting.name) for setting in SETTINGS)


def user_file(environment: Mapping[str, str] | None = None) -> Path:
    """Where the user's configuration is, whether or not it exists."""
    given = os.environ if environment is None else environment
    root = given.get("XDG_CONFIG_HOME", "")
    # The specification of these folders has relative ones ignored.
    folder = Path(root) if root.startswith("/") else Path(given.get("HOME") or Path.home()) / ".config"
    return folder / "infer" / "config.toml"


def project_file(folder: Path) -> Path | None:
    """The nearest ``infer.toml`` in a folder or above it."""
    return next((one / PROJECT_FILE for one in (folder, *folder.parents) if (one / PROJECT_FILE).is_file()), None)


def load(
    *, context: str | None = None, environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> Configuration:
    """Read every layer. ``context`` is what ``--context`` gave. Raises CommandError for what is wrong in one."""
    given = os.environ if environment is None else environment
    user_path = user_file(given)
    user, contexts = read_user_file(user_path)
    found = _project_path(folder)
    layers = [_environment(given), read_project_file(found) if found else Layer("project", {}, {}), user]
    chosen = _chosen(context, layers, contexts, user_path)
    if chosen is not None:
        origins = dict.fromkeys(chosen.values, f"context '{chosen.name}' in {user_path}")
        layers.insert(2, Layer("context", chosen.values, origins))
    if context is not None:
        layers.insert(0, Layer("flag", {"context": context}, {"context": "--context"}))
    return Configuration(tuple(layers), chosen, contexts)


def _project_path(folder: Path | None) -> Path | None:
    try:
        return project_file(Path.cwd() if folder is None else folder)
    except OSError:
        return None  # the working folder is gone or may not be looked into: it holds no project


def _environment(given: Mapping[str, str]) -> Layer:
    values: dict[str, Value] = {}
    for setting in SETTINGS:
        text = given.get(setting.env, "")
        if not text:
            continue  # an empty variable is how shells unset one
        try:
            values[setting.name] = from_text(setting, text)
        except ValueError as error:
            shown = "" if setting.secret else f"; it is set in the environment: {setting.env}={text}"
            raise CommandError(
                f"{setting.env} has a wrong value", f"{error}{shown}", f"unset {setting.env}", code=ExitCode.USAGE
            ) from error
    return Layer("environment", values, {name: BY_NAME[name].env for name in values})


def _chosen(flag: str | None, layers: list[Layer], contexts: Mapping[str, Context], user_path: Path) -> Context | None:
    """The context in use. A name that no context has is refused, since the command would go elsewhere."""
    named = [("--context", flag)] if flag is not None else []
    named += [(layer.origins["context"], str(layer.values["context"])) for layer in layers if "context" in layer.values]
    if not named or not named[0][1]:
        return None
    origin, name = named[0]
    if name not in contexts:
        raise unknown_context(name, contexts, f"{origin} names it, and {user_path} has no such context")
    return contexts[name]


def unknown_context(name: str, contexts: Mapping[str, Context], why: str) -> CommandError:
    """The failure of naming a context that is not there."""
    near = difflib.get_close_matches(name, contexts, n=1)
    fix = f"did you mean '{near[0]}'? see them all: infer ctx list" if near else "see what is there: infer ctx list"
    return CommandError(f"there is no context '{name}'", why, fix, code=ExitCode.NOT_FOUND)


def read_project_file(path: Path) -> Layer:
    """A project's settings. Raises CommandError with file, line and key."""
    text, document = _parse(path)
    allowed = {setting.name for setting in SETTINGS if setting.in_project}
    values = _values(path, text, document, "", allowed)
    return Layer("project", values, {name: _place(path, text, "", name) for name in values})


def read_user_file(path: Path) -> tuple[Layer, dict[str, Context]]:
    """The user's settings and contexts; nothing where there is no file. Raises CommandError with file, line and key."""
    if not path.exists():
        return Layer("user", {}, {}), {}
    text, document = _parse(path)
    tables: Any = document.pop(CONTEXTS, {})
    if not isinstance(tables, dict):
        raise _wrong(path, text, "", CONTEXTS, "it must hold tables, each written [contexts.NAME]")
    allowed = {setting.name for setting in SETTINGS if setting.in_user}
    values = _values(path, text, document, "", allowed)
    contexts = {name: _context(path, text, name, table) for name, table in cast("dict[str, object]", tables).items()}
    return Layer("user", values, {name: _place(path, text, "", name) for name in values}), contexts


def _context(path: Path, text: str, name: str, table: object) -> Context:
    if not isinstance(table, dict) or CONTEXT_NAME.fullmatch(name) is None:
        raise _wrong(path, text, CONTEXTS, name, "a context is written [contexts.NAME], of letters, digits, - _ and .")
    allowed = {setting.name for setting in SETTINGS if setting.in_context}
    return Context(name, _values(path, text, cast("Document", table), f"{CONTEXTS}.{name}", allowed))


def _parse(path: Path) -> tuple[str, Document]:
    import tomllib  # noqa: PLC0415  only where there is a file

    try:
        text = path.read_text(encoding="utf-8")
        return text, tomllib.loads(text)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise CommandError(
            f"{path} cannot be read", why, f"mend it with: ${{EDITOR:-vi}} {path}", code=ExitCode.USAGE
        ) from error


def _values(path: Path, text: str, document: Document, table: str, allowed: set[str]) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for key, value in document.items():
        setting = BY_NAME.get(key)
        if setting is None or key not in allowed:
            raise _wrong(path, text, table, key, _unknown_key(key, allowed))
        try:
            values[key] = check(setting, value)
        except ValueError as error:
            raise _wrong(path, text, table, key, str(error)) from error
    return values


def _unknown_key(key: str, allowed: set[str]) -> str:
    if key in BY_NAME:
        return "it is a setting, but not one that stands here"
    near = difflib.get_close_matches(key, allowed, n=1)
    hint = f"did you mean {near[0]}?" if near else f"the keys are {', '.join(sorted(allowed))}"
    return f"it is no setting; {hint}"


def _wrong(path: Path, text: str, table: str, key: str, why: str) -> CommandError:
    place = _place(path, text, table, key)
    where = f"'{key}' in [{table}]" if table else f"'{key}'"
    return CommandError(f"{place}: {where} is wrong", why, f"mend it with: ${{EDITOR:-vi}} {path}", code=ExitCode.USAGE)


def _place(path: Path, text: str, table: str, key: str) -> str:
    """``FILE:LINE`` of a key, or the file where its line is not found (inline tables, dotted keys)."""
    current = ""
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith("["):
            current = stripped.strip("[] \t").split("#")[0].rstrip("] ").replace('"', "").replace(" ", "")
            if current == (f"{table}.{key}" if table else key):
                return f"{path}:{number}"
        elif current == table and re.match(rf"""["']?{re.escape(key)}["']?\s*=""", stripped):
            return f"{path}:{number}"
    return str(path)
