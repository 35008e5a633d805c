"""Server reflection and health, as gRPC's own tools ask for them (``grpc.reflection.v1alpha``, ``grpc.health.v1``).

Their few messages are described here, in a pool of their own: what the public packages put into protobuf's default pool
stays theirs, so that a client in the same process may use them.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from .messages import SERVICE, service_file_names
from .transport.status import Abort, StatusCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .transport.methods import Context

HEALTH = "grpc.health.v1.Health"
REFLECTION = ("grpc.reflection.v1alpha.ServerReflection", "grpc.reflection.v1.ServerReflection")
"""The same messages under two names."""
SERVING, NOT_SERVING = b"\x08\x01", b"\x08\x02"
"""A HealthCheckResponse: its one field ``status``."""

_PACKAGE = "grpc.reflection.v1alpha"
_STRING, _BYTES, _INT32, _MESSAGE = (
    descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
    descriptor_pb2.FieldDescriptorProto.TYPE_BYTES,
    descriptor_pb2.FieldDescriptorProto.TYPE_INT32,
    descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE,
)
_Field = tuple[int, str, int, str, bool]
_MESSAGES: dict[str, tuple[_Field, ...]] = {
    "ServerReflectionRequest": (
        (1, "host", _STRING, "", False),
        (3, "file_by_filename", _STRING, "", False),
        (4, "file_containing_symbol", _STRING, "", False),
        (7, "list_services", _STRING, "", False),
    ),
    "FileDescriptorResponse": ((1, "file_descriptor_proto", _BYTES, "", True),),
    "ServiceResponse": ((1, "name", _STRING, "", False),),
    "ListServiceResponse": ((1, "service", _MESSAGE, "ServiceResponse", True),),
    "ErrorResponse": ((1, "error_code", _INT32, "", False), (2, "error_message", _STRING, "", False)),
    "ServerReflectionResponse": (
        (1, "valid_host", _STRING, "", False),
        (2, "original_request", _MESSAGE, "ServerReflectionRequest", False),
        (4, "file_descriptor_response", _MESSAGE, "FileDescriptorResponse", False),
        (6, "list_services_response", _MESSAGE, "ListServiceResponse", False),
        (7, "error_response", _MESSAGE, "ErrorResponse", False),
    ),
}
"""Number, name, type, message and whether it is repeated, of the fields that are used."""


async def serve(context: Context) -> None:
    """Answer a reflection call: a question, an answer, until the client has no more. Raises Abort."""
    request_class = _message("ServerReflectionRequest")
    while (data := await context.read()) is not None:
        try:
            request = request_class.FromString(bytes(data))
        except DecodeError as exc:
            raise Abort(StatusCode.INTERNAL, "a reflection request cannot be read") from exc
        await context.write(_answer(request).SerializeToString())


def _answer(request: Any) -> Any:  # noqa: ANN401  protobuf
    response = _message("ServerReflectionResponse")(valid_host=request.host, original_request=request)
    if request.file_by_filename:
        _add_files(response, request.file_by_filename, by_name=True)
    elif request.file_containing_symbol:
        _add_files(response, request.file_containing_symbol, by_name=False)
    elif request.HasField("list_services"):
        for name in sorted((SERVICE, HEALTH, *REFLECTION)):
            response.list_services_response.service.add(name=name)
    else:
        _refuse(
            response, StatusCode.UNIMPLEMENTED, "extensions are not used here; ask for a file, a symbol or services"
        )
    return response


def _add_files(response: Any, wanted: str, *, by_name: bool) -> None:  # noqa: ANN401  protobuf
    """The file that was asked for, and those that it needs."""
    for pool in (descriptor_pool.Default(), _pool()):
        try:
            found = pool.FindFileByName(wanted) if by_name else pool.FindFileContainingSymbol(wanted)
        except KeyError:
            continue
        if found.name in _offered():
            files = response.file_descriptor_response.file_descriptor_proto
            files.extend(file.serialized_pb for file in _with_dependencies([found]))
            return
    _refuse(response, StatusCode.NOT_FOUND, f"'{wanted}' is not found")


def _offered() -> frozenset[str]:
    """The files of the services that this server has."""
    return frozenset((*service_file_names(), _reflection_file().name, _health_file().name))


def _with_dependencies(files: Iterable[Any]) -> list[Any]:
    known: dict[str, Any] = {}
    waiting = list(files)
    while waiting:
        file = waiting.pop()
        if file.name not in known:
            known[file.name] = file
            waiting.extend(file.dependencies)
    return list(known.values())


def _refuse(response: Any, status: StatusCode, message: str) -> None:  # noqa: ANN401  protobuf
    response.error_response.error_code, response.error_response.error_message = status, message


@cache
def _message(name: str) -> Any:  # noqa: ANN401  a message class
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{_PACKAGE}.{name}"))


@cache
def _pool() -> Any:  # noqa: ANN401  a DescriptorPool
    pool = descriptor_pool.DescriptorPool()
    for file in (_reflection_file(), _health_file()):
        pool.AddSerializedFile(file.SerializeToString())
    return pool


def _reflection_file() -> Any:  # noqa: ANN401  protobuf
    file = descriptor_pb2.FileDescriptorProto(
        name="grpc/reflection/v1alpha/reflection.proto", package=_PACKAGE, syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        described = file.message_type.add(name=name)
        _describe(described, fields)
    method = file.service.add(name="ServerReflection").method.add(name="ServerReflectionInfo")
    method.input_type = f".{_PACKAGE}.ServerReflectionRequest"
    method.output_type = f".{_PACKAGE}.ServerReflectionResponse"
    method.client_streaming = method.server_streaming = True
    return file


def _describe(described: Any, fields: tuple[_Field, ...]) -> None:  # noqa: ANN401  protobuf
    for number, name, kind, message, repeated in fields:
        field = described.field.add(name=name, number=number, type=kind)
        field.label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
        if message:
            field.type_name = f".{_PACKAGE}.{message}"
    if described.name in {"ServerReflectionRequest", "ServerReflectionResponse"}:
        # Which question it is, and which answer: at most one of these fields is set.
        described.oneof_decl.add(name="message_request" if "Request" in described.name else "message_response")
        for field in described.field:
            if field.number > 2:  # noqa: PLR2004  the host, and the question in the answer, stand outside
                field.oneof_index = 0


def _health_file() -> Any:  # noqa: ANN401  protobuf
    package = "grpc.health.v1"
    file = descriptor_pb2.FileDescriptorProto(name="grpc/health/v1/health.proto", package=package, syntax="proto3")
    request, response = file.message_type.add(name="HealthCheckRequest"), file.message_type.add()
    request.field.add(name="service", number=1, type=_STRING, label=1)
    response.name = "HealthCheckResponse"
    status = response.enum_type.add(name="ServingStatus")
    for number, name in enumerate(("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")):
        status.value.add(name=name, number=number)
    field = response.field.add(name="status", number=1, label=1)
    field.type, field.type_name = field.TYPE_ENUM, f".{package}.HealthCheckResponse.ServingStatus"
    method = file.service.add(name="Health").method.add(name="Check")
    method.input_type, method.output_type = f".{package}.HealthCheckRequest", f".{package}.HealthCheckResponse"
    return file
