"""Reading ``config.pbtxt``: protobuf's text format, strictly, with errors that say where and what instead."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from google.protobuf import text_format

from ...backends.api.errors import InvalidArgument
from . import schema

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.message import Message

_NO_FIELD = re.compile(r'Message type "([\w.]+)" has no field named "(\w+)"')
_NO_VALUE = re.compile(r'Enum type "([\w.]+)" has no value named (\w+)')
_REPEATED = re.compile(r'should not have multiple "(\w+)" fields')
_PREFIX = re.compile(r"^\d+:\d+ : ")
_FIELD_BEFORE = re.compile(r"([A-Za-z_]\w*)\s*(?::|\{|<|\[)")


def parse(text: str, *, source: str) -> Message:
    """The text as an ``inference.ModelConfig`` message; ``source`` is the file's path, for errors.

    Raises InvalidArgument: ``path:line:column: field: what is wrong and how to mend it``.
    """
    message = schema.message_class()()
    try:
        return text_format.Parse(text, message)
    except text_format.ParseError as exc:
        line, column = exc.GetLine() or 1, exc.GetColumn() or 1
        msg = f"{source}:{line}:{column}: {_sentence(str(exc), text, line, column, schema.descriptor_of(message))}"
        raise InvalidArgument(msg) from exc


def _sentence(raw: str, text: str, line: int, column: int, root: Descriptor) -> str:
    """What is wrong, in a sentence that names the field and the remedy."""
    if found := _NO_FIELD.search(raw):
        owner, wrong = found.groups()
        return f'unknown field "{wrong}" in {owner}; {schema.suggestion(wrong, _fields(root, owner), "fields")}'
    field = _field_before(text, line, column)
    if found := _NO_VALUE.search(raw):
        owner, wrong = found.groups()
        return f'{field} cannot be "{wrong}"; {schema.suggestion(wrong, _values(root, owner), "values")}'
    if found := _REPEATED.search(raw):
        return f"{found.group(1)} is given twice; keep one of them"
    quoted = f"'{_source_line(text, line)}': "
    plain = _PREFIX.sub("", raw).replace(quoted, "").removeprefix("'': ").rstrip(".")
    return f"{field}: {plain}" if field else plain


def _source_line(text: str, line: int) -> str:
    lines = text.split("\n")
    return lines[line - 1] if line <= len(lines) else ""


def _field_before(text: str, line: int, column: int) -> str:
    """The name of the field whose value stands at the position, or ""."""
    lines = text.split("\n")
    before = "\n".join([*lines[: line - 1], _source_line(text, line)[: column - 1]])
    without_comments = re.sub(r"#[^\n]*", "", before)
    names = _FIELD_BEFORE.findall(without_comments)
    return names[-1] if names else ""


def _messages(root: Descriptor) -> dict[str, Descriptor]:
    """Every message type that can occur below ``root``, by full name."""
    found: dict[str, Descriptor] = {}
    pending = [root]
    while pending:
        descriptor = pending.pop()
        if descriptor.full_name not in found:
            found[descriptor.full_name] = descriptor
            pending += [field.message_type for field in descriptor.fields if field.message_type is not None]
    return found


def _fields(root: Descriptor, owner: str) -> list[str]:
    """Names of the fields of the message type with that full name."""
    descriptor = _messages(root).get(owner)
    return [field.name for field in descriptor.fields] if descriptor is not None else []


def _values(root: Descriptor, owner: str) -> list[str]:
    """Names of the values of the enumeration with that full name."""
    fields = [field for descriptor in _messages(root).values() for field in descriptor.fields]
    enums = {field.enum_type.full_name: field.enum_type for field in fields if field.enum_type is not None}
    return [value.name for value in enums[owner].values] if owner in enums else []
