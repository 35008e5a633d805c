"""Where the fields of a ``config.pbtxt`` stand, so that an error found later can still say the line. Pure.

For texts that protobuf has accepted: this reader knows the grammar's shape and trusts the rest.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"""(?P<skip>\#[^\n]*)                              # comment
      | "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*'           # string
      | [-+.\w]+                                        # name, number
      | [{}<>\[\]:,;]                                   # punctuation
    """,
    re.VERBOSE,
)
_QUOTES = ('"', "'")


def positions(text: str) -> dict[str, tuple[int, int]]:
    """Line and column (from 1) of every field by its path: ``input[1].dims``, and ``input`` for the first of them."""
    reader = _Reader(text)
    reader.message("")
    return {path: _line_and_column(text, offset) for path, offset in reader.found.items()}


def position(text: str, path: str) -> tuple[int, int] | None:
    """Where a field stands, or else the nearest one around it; None where neither is in the text."""
    known = positions(text)
    while path:
        if path in known:
            return known[path]
        # `input[0].dims` → `input[0]` → `input` → nothing
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return None


def _line_and_column(text: str, offset: int) -> tuple[int, int]:
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


class _Reader:
    """Walks the tokens once and notes where each field begins."""

    def __init__(self, text: str) -> None:
        matches = (match for match in _TOKEN.finditer(text) if match["skip"] is None)
        self._tokens = [(match.group(), match.start()) for match in matches]
        self._at = 0
        self.found: dict[str, int] = {}

    def message(self, path: str) -> None:
        """Read fields up to the end of the text or of the message."""
        counts: dict[str, int] = {}
        while self._peek() and self._peek() not in ("}", ">"):
            name, offset = self._next()
            if name in (",", ";"):
                continue
            if self._peek() == ":":
                self._next()
            self._values(f"{path}.{name}" if path else name, offset, counts)

    def _values(self, path: str, offset: int, counts: dict[str, int]) -> None:
        """Read a field's value, or its list of values."""
        if self._peek() != "[":
            self._value(path, offset, counts)
            return
        self._next()
        while self._peek() not in ("]", ""):
            if self._peek() == ",":
                self._next()
            else:
                self._value(path, offset, counts)
        self._next()

    def _value(self, path: str, offset: int, counts: dict[str, int]) -> None:
        index = counts.get(path, 0)
        counts[path] = index + 1
        inside = f"{path}[{index}]"
        braced = self._peek() in ("{", "<")
        # In a list the name stands before the first value only, so a later message is where its brace is.
        place = self._tokens[self._at][1] if braced and index else offset
        self.found.setdefault(path, offset)
        self.found[inside] = place
        if not braced:
            self._scalar()
            return
        self._next()
        self.message(inside)
        self._next()
        if not index:
            self._alias(path, inside)

    def _alias(self, path: str, inside: str) -> None:
        """Fields of the first message are found without its index too, as a message that is not repeated has none."""
        for known in [known for known in self.found if known.startswith(f"{inside}.")]:
            self.found[path + known[len(inside) :]] = self.found[known]

    def _scalar(self) -> None:
        """Read a number, a name, or a string in one or several pieces."""
        text, _ = self._next()
        while text.startswith(_QUOTES) and self._peek().startswith(_QUOTES):
            self._next()

    def _peek(self) -> str:
        return self._tokens[self._at][0] if self._at < len(self._tokens) else ""

    def _next(self) -> tuple[str, int]:
        token = self._tokens[self._at] if self._at < len(self._tokens) else ("", 0)
        self._at += 1
        return token
