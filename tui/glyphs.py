"""Signs that stand beside words, never instead of them, and what becomes of them where the locale has ASCII only."""

from __future__ import annotations

import locale
import unicodedata

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


def state_sign(state: str) -> str:
    """The sign of a model's state."""
    return STATES.get(state, "◌")


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


def locale_is_ascii() -> bool:
    """Whether the terminal is told to be one that cannot show more than ASCII."""
    return "utf" not in locale.getpreferredencoding(False).lower()  # noqa: FBT003  the library has no keyword for it
