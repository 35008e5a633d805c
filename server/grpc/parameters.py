"""Request parameters as protobuf carries them: which of their five types each key takes, and Triton's sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...backends.api.errors import InvalidArgument
from ..wire import parameters
from ..wire.parameters import MAX_UINT64, RESERVED_PREFIX, RequestParameters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...backends.api.request import ParameterValue

EMPTY_FINAL = "triton_enable_empty_final_response"
FINAL = "triton_final_response"
MAX_INT64 = 2**63 - 1
_CUSTOM = ("bool_param", "int64_param", "string_param", "double_param")
_RESERVED: dict[str, tuple[str, ...]] = {
    "sequence_id": ("int64_param", "string_param"),
    "sequence_start": ("bool_param",),
    "sequence_end": ("bool_param",),
    "priority": ("int64_param", "uint64_param"),
    "timeout": ("int64_param",),
    EMPTY_FINAL: ("bool_param",),
}
"""The types that a reserved key may have, in the order in which a refusal names them."""


def read(given: Mapping[str, Any]) -> tuple[RequestParameters, bool]:
    """Read the ``parameters`` of a request, and whether it wants to be told of an end that carries nothing.

    Raises InvalidArgument for a key that may not be sent or a value of the wrong type, Unsupported for an over-long
    sequence id.
    """
    reserved: dict[str, Any] = {}
    custom: dict[str, ParameterValue] = {}
    for key, parameter in given.items():
        kind = parameter.WhichOneof("parameter_choice")
        if key in _RESERVED:
            reserved[key] = _reserved(key, kind, parameter)
        elif key.startswith(RESERVED_PREFIX):
            msg = (
                f"parameter keys starting with '{RESERVED_PREFIX}' are reserved for Triton usage. Only the following "
                f"keys starting with '{RESERVED_PREFIX}' are allowed: {EMPTY_FINAL}"
            )
            raise InvalidArgument(msg)
        elif kind in _CUSTOM:
            custom[key] = getattr(parameter, kind)
        else:
            msg = (
                f"invalid value type for '{key}' parameter, expected bool_param, int64_param, string_param or "
                "double_param."
            )
            raise InvalidArgument(msg)
    empty_final = bool(reserved.pop(EMPTY_FINAL, False))
    result = parameters.read(reserved, _out_of_range)
    result.custom = custom
    return result, empty_final


def integer(owner: Mapping[str, Any], key: str, where: str = "") -> int | None:
    """The int64 of a tensor's parameter, or None where it is not given. Raises InvalidArgument for another type."""
    return _typed(owner, key, "int64_param", where)


def text(owner: Mapping[str, Any], key: str, where: str = "") -> str | None:
    """The string of a tensor's parameter, or None where it is not given. Raises InvalidArgument for another type."""
    return _typed(owner, key, "string_param", where)


def write(target: Any, values: Mapping[str, ParameterValue]) -> None:  # noqa: ANN401  a map of protobuf messages
    """Write the parameters of a response, each in the field of its type."""
    for key, value in values.items():
        parameter = target[key]
        if isinstance(value, bool):
            parameter.bool_param = value
        elif isinstance(value, str):
            parameter.string_param = clean(value)
        elif isinstance(value, float):
            parameter.double_param = value
        elif -MAX_INT64 - 1 <= value <= MAX_INT64:
            parameter.int64_param = value
        elif 0 < value <= MAX_UINT64:
            parameter.uint64_param = value
        else:
            parameter.double_param = float(value)


def clean(words: str) -> str:
    """Text that protobuf takes: what is no Unicode becomes a question mark."""
    return words.encode("utf-8", "replace").decode("utf-8")


def _typed(owner: Mapping[str, Any], key: str, kind: str, where: str) -> Any:  # noqa: ANN401  as the kind says
    if key not in owner:
        return None
    parameter = owner[key]
    if parameter.WhichOneof("parameter_choice") != kind:
        msg = f"invalid value type for '{key}' parameter{where}, expected {kind}"
        raise InvalidArgument(msg)
    return getattr(parameter, kind)


def _reserved(key: str, kind: str | None, parameter: Any) -> Any:  # noqa: ANN401  protobuf
    allowed = _RESERVED[key]
    if kind not in allowed:
        msg = f"invalid value type for '{key}' parameter, expected {' or '.join(allowed)}."
        raise InvalidArgument(msg)
    value = getattr(parameter, kind)
    # A negative sequence id is the same number without its sign, as Triton's core has it.
    return value & MAX_UINT64 if key == "sequence_id" and kind == "int64_param" else value


def _out_of_range(key: str, _expected: str) -> InvalidArgument:
    """What has the right type is only refused below 0."""
    return InvalidArgument(f"invalid value for '{key}', expected value >= 0.")
