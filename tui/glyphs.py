"""Signs that stand beside words, never instead of them, and what becomes of them where the locale has ASCII only."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

UP, DOWN = "▲", "▼"
DOT, BULLET, MARK = "·", "●", "✓"
BARS = "▁▂▃▄▅▆▇█"
"""Heights of a spark line, lowest first."""

STATES = {
    "READY": "●",
    "LOADING": "◐",
    "UNLOADING": "◑",
    "UNAVAILABLE": "✗",
    "": "○",
}
"""By the state of a model version; the empty state is that of a model that was never loaded."""

WORDS = {"": "not loaded"}
"""The words of states that are not words already."""

_PLAIN = {
    **dict(zip(BARS, "_.-:=+*#", strict=True)),
    **dict.fromkeys("─━╌┄╴╶╸╺═", "-"),
    **dict.fromkeys("│┃║▏▎▍▌▋▊▉▕▐┆╎", "|"),
    **dict.fromkeys("┌┐└┘├┤┬┴┼╭╮╰╯┏┓┗┛┣┫┳┻╋╔╗╚╝", "+"),
    **dict.fromkeys("▔▀", '"'),
    **dict.fromkeys("░▒▓", ":"),
    **dict(zip("▲▼◀▶▸↑↓←→»«⏵", "^v<>>^v<><>>"[:12], strict=True)),
    **dict(zip("●◐◑○◌✗✓✔✖•·…—⏎␣", "*~~oo" + "xvvx*..-e_", strict=True)),
    **dict.fromkeys("\N{LEFT SINGLE QUOTATION MARK}\N{RIGHT SINGLE QUOTATION MARK}\N{ACUTE ACCENT}", "'"),
    **dict.fromkeys("“”", '"'),
    "\N{EN DASH}": "-",
    "\N{MULTIPLICATION SIGN}": "x",
    "µ": "u",
    "≤": "<",
    "≥": ">",
    "°": " ",
    "\N{NO-BREAK SPACE}": " ",
}
_WIDE = "WF"


def unloaded(state: str, reason: str) -> bool:
    """Whether a version was unloaded on request, which is nothing to worry about."""
    return (state, reason) == ("UNAVAILABLE", "unloaded")


def state_sign(state: str, reason: str = "") -> str:
    """The sign of a model's state: a version that was unloaded on request is as calm as one that never was loaded."""
    return STATES[""] if unloaded(state, reason) else STATES.get(state, "◌")


def state_word(state: str) -> str:
    """The word for a model's state."""
    return WORDS.get(state, state)


def ascii_only(text: str) -> str:
    """The text in ASCII, taking as many columns of a terminal as before."""
    return text if text.isascii() else "".join(_plain(letter) for letter in text)


def _plain(letter: str) -> str:
    if letter.isascii():
        return letter
    known = _PLAIN.get(letter)
    if known is not None:
        return known
    if unicodedata.combining(letter):
        return ""
    base = unicodedata.normalize("NFKD", letter)[0]
    if base.isascii() and base.isprintable():
        return base
    return "??" if unicodedata.east_asian_width(letter) in _WIDE else "?"


def ascii_terminal(environment: Mapping[str, str]) -> bool:
    """Whether the terminal is told to be one that cannot show more than ASCII: by INFER_ASCII, or by its locale.

    A locale that names no UTF encoding cannot; one that is not set at all is taken for a modern one, as Python does.
    """
    if environment.get("INFER_ASCII"):
        return True
    names = (environment.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    locale = next((name for name in names if name), "UTF-8")
    return "utf" not in locale.lower()
