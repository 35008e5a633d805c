"""The one table of settings of the commands that talk to a server: names, types, defaults, and how a text becomes one.

Flags, environment variables, ``infer.toml``, contexts and the user's ``config.toml`` are views of it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

Value = str | float | bool
"""What a setting is: a text (also of a path), a number, or yes and no."""


class Kind(enum.Enum):
    """How a value is read; the member's value is how a message names it."""

    TEXT = "a text"
    NUMBER = "a number of seconds above 0"
    BOOL = "true or false"


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. ``default`` None stands for a value that is found out, which ``help`` says how.

    ``in_context`` and ``in_project`` tell whether a context and an ``infer.toml`` may hold it: a project that somebody
    else wrote may not name files with keys. ``secret`` values are never shown.
    """

    name: str
    kind: Kind
    default: Value | None
    help: str
    choices: tuple[str, ...] = ()
    in_context: bool = False
    in_project: bool = True
    in_user: bool = True
    secret: bool = False

    @property
    def env(self) -> str:
        """The environment variable."""
        return f"INFER_{self.name.upper()}"


OWN, TRITON = "own", "triton"
COLOURS = ("red", "green", "yellow", "blue", "magenta", "cyan", "white")

SETTINGS: tuple[Setting, ...] = (
    Setting("context", Kind.TEXT, None, "The context in use; see infer ctx list."),
    Setting(
        "url",
        Kind.TEXT,
        None,
        "The server's operator port; where not given, the server that runs here, else http://127.0.0.1:8002.",
        in_context=True,
    ),
    Setting(
        "http_url",
        Kind.TEXT,
        None,
        "The server's HTTP port, for infer call; where not given, what the server says, else http://127.0.0.1:8000.",
        in_context=True,
    ),
    Setting(
        "grpc_url",
        Kind.TEXT,
        None,
        "The server's gRPC port, for infer call --stream; where not given, what the server says, else 127.0.0.1:8001.",
        in_context=True,
    ),
    Setting("metrics_url", Kind.TEXT, None, "The metrics of a real Triton, for infer top.", in_context=True),
    Setting("kind", Kind.TEXT, OWN, "What serves there.", choices=(OWN, TRITON), in_context=True),
    Setting(
        "control_key", Kind.TEXT, "", "The key for changes over TCP.", in_project=False, in_user=False, secret=True
    ),
    Setting(
        "key_file", Kind.TEXT, "", "A file that holds the key for changes over TCP.", in_context=True, in_project=False
    ),
    Setting("read_only", Kind.BOOL, default=False, help="Refuse to load and unload from here.", in_context=True),
    Setting("colour", Kind.TEXT, "", "The colour of the server's name on the dashboard.", COLOURS, in_context=True),
    Setting("timeout", Kind.NUMBER, None, "Seconds to wait: 30 for an answer, 60 for a call, 600 for a change."),
    Setting("output", Kind.TEXT, None, "How to print: table, json, name.", ("table", "json", "name")),
    Setting("interval", Kind.NUMBER, 1.0, "Seconds between two pictures of infer top and --watch."),
)

BY_NAME = {setting.name: setting for setting in SETTINGS}


def from_text(setting: Setting, text: str) -> Value:
    """The value that a text stands for, as in an environment variable. Raises ValueError that says what it takes."""
    if setting.kind is Kind.BOOL:
        lowered = text.strip().lower()
        if lowered in ("1", "true", "yes", "on"):
            return True
        if lowered in ("0", "false", "no", "off"):
            return False
        msg = f"it takes {setting.kind.value}, got {text!r}"
        raise ValueError(msg)
    if setting.kind is Kind.NUMBER:
        try:
            return check(setting, float(text))
        except ValueError:
            msg = f"it takes {setting.kind.value}, got {text!r}"
            raise ValueError(msg) from None
    return check(setting, text)


def check(setting: Setting, value: object) -> Value:
    """A value out of a TOML file, or of :func:`from_text`. Raises ValueError that says what the setting takes."""
    if setting.kind is Kind.BOOL and isinstance(value, bool):
        return value
    if setting.kind is Kind.NUMBER and isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
        return float(value)
    if setting.kind is Kind.TEXT and isinstance(value, str):
        if setting.choices and value and value not in setting.choices:
            msg = f"it takes one of {', '.join(setting.choices)}, got {value!r}"
            raise ValueError(msg)
        return value
    msg = f"it takes {setting.kind.value}, got {value!r}"
    raise ValueError(msg)
