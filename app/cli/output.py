"""What reading commands print: a table for people, JSON for programs, names for loops. Data goes to stdout only."""

from __future__ import annotations

import enum
import json
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
