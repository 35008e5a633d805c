"""The message ``inference.ModelConfig`` and its JSON document.

The compiled message comes from ``tritonclient``. It is loaded by its file's location, because importing the package
``tritonclient.grpc`` would bring in grpcio and check versions.
"""

from __future__ import annotations

import difflib
import importlib.util
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor

from ...backends.api.errors import Internal, InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterable

    from google.protobuf.descriptor import Descriptor
    from google.protobuf.message import Message

    from ...backends.api.model_config import Document

_WIDE_INTEGERS = frozenset(
    {
        FieldDescriptor.TYPE_INT64,
        FieldDescriptor.TYPE_UINT64,
        FieldDescriptor.TYPE_SINT64,
        FieldDescriptor.TYPE_FIXED64,
        FieldDescriptor.TYPE_SFIXED64,
    }
)


_OTHER_NAMES = {
    "BYTES": "TYPE_STRING",
    "TYPE_BYTES": "TYPE_STRING",
    "FLOAT": "TYPE_FP32",
    "TYPE_FLOAT": "TYPE_FP32",
    "DOUBLE": "TYPE_FP64",
    "TYPE_DOUBLE": "TYPE_FP64",
    "TYPE_INT": "TYPE_INT32",
    "TYPE_BFLOAT16": "TYPE_BF16",
}
"""What people write, and mean by it: the protocol's and other frameworks' names."""


@cache
def message_class() -> type[Message]:
    """The class of ``inference.ModelConfig``. Raises Internal where tritonclient is missing or has moved it."""
    package = importlib.util.find_spec("tritonclient")
    roots = (package.submodule_search_locations or ()) if package is not None else ()
    for root in roots:
        path = Path(root) / "grpc" / "model_config_pb2.py"
        spec = importlib.util.spec_from_file_location("infer_model_config_pb2", path)
        if path.is_file() and spec is not None and spec.loader is not None:
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return cast("type[Message]", module.ModelConfig)
    msg = "tritonclient's model_config_pb2.py is not installed; run `pip install 'tritonclient>=2.60'`"
    raise Internal(msg)


def descriptor_of(message: Message) -> Descriptor:
    """The message's type. The stubs also name the C implementation's type, which offers the same."""
    return cast("Descriptor", message.DESCRIPTOR)


def to_document(message: Message) -> Document:
    """The message as Triton prints it: snake_case names, every scalar, 64-bit integers as numbers.

    Messages that are not set are absent.
    """
    document = json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return _ordered(descriptor_of(message), document)


def to_message(document: Document, *, source: str) -> Message:
    """The document as a message. Enumerators may be written in any case, as Triton allows.

    Raises InvalidArgument that names ``source``, the path of the field and what is wrong with it.
    """
    message = message_class()()
    prepared = _prepared(descriptor_of(message), document, source, "")
    try:
        json_format.ParseDict(prepared, message)
    except json_format.ParseError as exc:
        msg = f"{source}: {_first_line(exc)}"
        raise InvalidArgument(msg) from exc
    return message


def normalised(document: Document, *, source: str) -> Document:
    """The document with every scalar in it and its fields in Triton's order. Raises as :func:`to_message` does."""
    return to_document(to_message(document, source=source))


def suggestion(wrong: str, known: Iterable[str], what: str) -> str:
    """``did you mean "data_type"?``, or the list of what there is."""
    names = sorted(known)
    # Upper case on both sides, so that "type_int32" finds "TYPE_INT32".
    by_upper = {name.upper(): name for name in names}
    wanted = _OTHER_NAMES.get(wrong.upper(), wrong.upper())
    close = [name for name in by_upper if name.endswith(f"_{wanted}")] or difflib.get_close_matches(wanted, by_upper, 1)
    return f'did you mean "{by_upper[close[0]]}"?' if close else f"the {what} are: {', '.join(names)}"


def _first_line(error: Exception) -> str:
    """The sentence of protobuf's error without the list of all fields that may follow it."""
    return str(error).split("\n", 1)[0].strip()


def _map_value(field: FieldDescriptor) -> FieldDescriptor | None:
    """The field that holds a map's values, or None for a field that is no map."""
    entry = field.message_type
    return entry.fields_by_name["value"] if entry is not None and entry.GetOptions().map_entry else None


def _ordered(descriptor: Descriptor, document: Document) -> Document:
    """The document with its fields as the message declares them, and 64-bit integers as numbers, not strings."""
    return {field.name: _field(field, document[field.name]) for field in descriptor.fields if field.name in document}


def _field(field: FieldDescriptor, value: Any) -> Any:  # noqa: ANN401  any JSON value
    entry = _map_value(field)
    if entry is not None:
        return {key: _value(entry, item) for key, item in value.items()}
    return [_value(field, item) for item in value] if field.is_repeated else _value(field, value)


def _value(field: FieldDescriptor, value: Any) -> Any:  # noqa: ANN401  any JSON value
    if field.message_type is not None:
        return _ordered(field.message_type, value)
    return int(value) if field.type in _WIDE_INTEGERS else value


def _prepared(descriptor: Descriptor, document: object, source: str, path: str) -> Document:
    """A copy of the document with enumerators in upper case, every field known to exist."""
    if not isinstance(document, dict):
        msg = f"{source}: {path or 'the configuration'} must be an object with fields, not {document!r}"
        raise InvalidArgument(msg)
    prepared: Document = {}
    for key, value in cast("dict[Any, Any]", document).items():
        field = descriptor.fields_by_name.get(key) or descriptor.fields_by_camelcase_name.get(key)
        if field is None:
            hint = suggestion(str(key), descriptor.fields_by_name, "fields")
            msg = f'{source}: unknown field "{_joined(path, key)}" in {descriptor.full_name}; {hint}'
            raise InvalidArgument(msg)
        prepared[field.name] = _prepared_field(field, value, source, _joined(path, key))
    return prepared


def _prepared_field(field: FieldDescriptor, value: Any, source: str, path: str) -> Any:  # noqa: ANN401  any JSON value
    if value is None:
        return None
    entry = _map_value(field)
    if entry is not None:
        if not isinstance(value, dict):
            msg = f"{source}: {path} must be an object of key and value, not {value!r}"
            raise InvalidArgument(msg)
        pairs = cast("dict[str, Any]", value).items()
        return {key: _prepared_value(entry, item, source, f"{path}[{key!r}]") for key, item in pairs}
    if field.is_repeated:
        if not isinstance(value, (list, tuple)):
            msg = f"{source}: {path} must be a list, not {value!r}"
            raise InvalidArgument(msg)
        items = cast("list[Any]", value)
        return [_prepared_value(field, item, source, f"{path}[{index}]") for index, item in enumerate(items)]
    return _prepared_value(field, value, source, path)


def _prepared_value(field: FieldDescriptor, value: Any, source: str, path: str) -> Any:  # noqa: ANN401  any JSON value
    if field.message_type is not None:
        return _prepared(field.message_type, value, source, path)
    if field.enum_type is not None and isinstance(value, str):
        names = field.enum_type.values_by_name
        if value.upper() not in names:
            msg = f'{source}: {path} cannot be "{value}"; {suggestion(value, names, "values")}'
            raise InvalidArgument(msg)
        return value.upper()
    return value


def _joined(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)
