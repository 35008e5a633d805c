"""What reading commands print: a table for people, JSON for programs, names for loops. Data goes to stdout only."""

from __future__ import annotations

import enum
import json
import sys
from typing import TYPE_CHECKING, Any

from ..console import table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Format(enum.StrEnum):
    """The values of ``-o``."""

    TABLE = "table"
    JSON = "json"
    NAME = "name"


def print_json(document: Any) -> None:  # noqa: ANN401  whatever the server says
    """One JSON document with stable keys, and a line break."""
    print(json.dumps(document, indent=2, ensure_ascii=False))


def print_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Columns as wide as their widest cell."""
    print(table(head, rows))


def print_line(document: Any) -> None:  # noqa: ANN401  whatever the server says
    """One JSON document on one line, at once: for programs that read as it comes."""
    print(json.dumps(document, ensure_ascii=False, separators=(",", ":")), flush=True)


def note(text: str) -> None:
    """A sentence for a person, beside the data."""
    print(text, file=sys.stderr, flush=True)
