"""Requests as curl commands, for people who want to see or repeat them."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def infer_command(url: str, path: str, request: Mapping[str, Any]) -> str:
    """The curl command that sends a request document to a path."""
    body = json.dumps(request, separators=(",", ":"), ensure_ascii=False)
    return f"curl -s {shlex.quote(f'{url}{path}')} -d {shlex.quote(body)}"
