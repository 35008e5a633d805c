"""JSON text and documents: a fast parser for what JSON allows, a lenient one for what Triton also takes.

Triton accepts ``NaN`` and ``Infinity`` in five spellings, bytes in strings that are no UTF-8, anything behind a NUL
byte, and keeps the first of two equal keys. The lenient parser is tried where the fast one refuses.
"""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

from ...backends.api.errors import InferError, Internal, InvalidArgument

MAX_DEPTH = 100
DEPTH_EXCEEDED = f"JSON nesting depth exceeds maximum allowed limit ({MAX_DEPTH})"

MAX_PARSED_DEPTH = 1024
"""Containers within containers that the fast parser follows; the lenient one's own limit differs by Python version."""

_TOO_DEEP = "depth limit"
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
_ONCE = (b'"inputs"', b'"outputs"', b'"id"')
_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|-?Inf\b', re.DOTALL)


class DepthExceeded(InvalidArgument):
    """Containers nested deeper than the parser follows."""


def load(body: bytes | bytearray | memoryview) -> Any:  # noqa: ANN401  whatever the document is
    """The document in ``body``.

    Raises Internal, as Triton does, for text that is not JSON, and DepthExceeded for very deep nesting. Strings that
    were no UTF-8 come back with surrogate escapes.
    """
    document: Any
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as exc:
        if _TOO_DEEP in exc.msg:
            raise DepthExceeded(DEPTH_EXCEEDED) from exc
        return _load_leniently(bytes(body), exc)
    if isinstance(document, dict) and _has_repeated_keys(body):
        return _load_leniently(bytes(body), None)
    return document  # pyright: ignore[reportUnknownVariableType]


def _has_repeated_keys(body: bytes | bytearray | memoryview) -> bool:
    """Whether a top-level key may stand there twice; cheap, and wrong only on the careful side."""
    text = bytes(body) if isinstance(body, memoryview) else body
    return any(text.count(key) > 1 for key in _ONCE)


def _load_leniently(body: bytes, cause: orjson.JSONDecodeError | None) -> Any:  # noqa: ANN401  JSON
    text = body.partition(b"\0")[0].decode("utf-8", "surrogateescape")
    if _nests_deeper(text, MAX_PARSED_DEPTH):
        raise DepthExceeded(DEPTH_EXCEEDED) from cause
    if "Inf" in text:
        text = _TOKENS.sub(_spell_out, text)
    try:
        document = json.loads(text, object_pairs_hook=_first_wins)
        # An escaped lone surrogate is not text in any encoding; the strings of a document must be.
        if "\\u" in text:
            _check_strings(text)
    except RecursionError as exc:
        raise DepthExceeded(DEPTH_EXCEEDED) from exc
    except ValueError as exc:
        raise _syntax_error(cause, exc) from exc
    return document


def _nests_deeper(text: str, limit: int) -> bool:
    """Whether more than ``limit`` containers are open at once."""
    if text.count("[") + text.count("{") <= limit:
        return False
    depth = 0
    for match in _BRACKETS.finditer(text):
        bracket = match.group()
        if bracket in "[{":
            depth += 1
            if depth > limit:
                return True
        elif bracket in "]}":
            depth -= 1
    return False


def _check_strings(text: str) -> None:
    r"""Raises ValueError for an escape such as ``\ud800`` without its partner."""
    for match in re.finditer(r'"(?:[^"\\]|\\.)*"', text, re.DOTALL):
        literal = match.group()
        if "\\u" in literal:
            json.loads(literal).encode("utf-8", "surrogateescape")


def _syntax_error(cause: orjson.JSONDecodeError | None, exc: ValueError) -> InferError:
    reason = cause.msg.partition(":")[0] if cause is not None else str(exc)
    position = cause.pos if cause is not None else getattr(exc, "pos", 0)
    return Internal(f"failed to parse the request JSON buffer: {reason} at {position}")


def _spell_out(match: re.Match[str]) -> str:
    token = match.group()
    return token if token[0] == '"' else token + "inity"


def _first_wins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        document = dict(reversed(pairs))
    return document


def dump(document: Any) -> bytes:  # noqa: ANN401  whatever a document is
    """Compact JSON; surrogate-escaped bytes come out as those bytes."""
    try:
        return orjson.dumps(document)
    except orjson.JSONEncodeError:
        return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogateescape")
