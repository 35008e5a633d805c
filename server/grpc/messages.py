"""The classes of the protocol's messages.

Their description comes from ``tritonclient``. Importing the package ``tritonclient.grpc`` would bring in its client and
check versions, so the serialised description is read out of its file and added to protobuf's default pool, under the
names that the package itself uses: a client in the same process finds it there and shares the classes.
"""

from __future__ import annotations

import ast
import importlib.util
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from google.protobuf import descriptor_pool, message_factory

from ...backends.api.errors import Internal
from ..repository import schema

if TYPE_CHECKING:
    from google.protobuf.descriptor_pool import DescriptorPool

PACKAGE = "inference"
SERVICE = "inference.GRPCInferenceService"
_FILE = "service_pb2.py"


@cache
def message(name: str) -> Any:  # noqa: ANN401  a message class, whose fields no type checker knows
    """The class of ``inference.<name>``. Raises Internal where tritonclient is missing or has moved its messages."""
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{PACKAGE}.{name}"))


def service_file_names() -> tuple[str, ...]:
    """The files that describe the protocol."""
    file = message("ModelInferRequest").DESCRIPTOR.file
    return (file.name, *(dependency.name for dependency in file.dependencies))


@cache
def _pool() -> DescriptorPool:
    """The default pool, with the service's file in it."""
    schema.message_class()  # the service's file refers to that of the configuration
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(_serialised_file())
    return pool


def _serialised_file() -> bytes:
    """The file descriptor that the generated module registers."""
    package = importlib.util.find_spec("tritonclient")
    roots = (package.submodule_search_locations or ()) if package is not None else ()
    for root in roots:
        path = Path(root) / "grpc" / _FILE
        if path.is_file():
            found = _registered(path.read_text(encoding="utf-8"))
            if found is not None:
                return found
    msg = f"tritonclient's {_FILE} is not installed, or holds no messages; run `pip install 'tritonclient>=2.60'`"
    raise Internal(msg)


def _registered(source: str) -> bytes | None:
    """The argument of ``AddSerializedFile`` in a generated module, or None where there is no such call."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            argument = node.args[0]
            if node.func.attr == "AddSerializedFile" and isinstance(argument, ast.Constant):
                return argument.value if isinstance(argument.value, bytes) else None
    return None
