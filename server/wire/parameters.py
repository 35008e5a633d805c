"""Request parameters: the keys that the protocol reserves, and those that are handed to the model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...backends.api.errors import InvalidArgument, Unsupported
from ...backends.api.request import SEQUENCE_END, SEQUENCE_START

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...backends.api.errors import InferError
    from ...backends.api.request import ParameterValue

    Mistyped = Callable[[str, str], InferError]

MAX_UINT64 = 2**64 - 1
MAX_SEQUENCE_ID_LENGTH = 128
RESERVED_PREFIX = "triton_"


@dataclass(slots=True)
class RequestParameters:
    """What the parameters of one request say. ``timeout_us`` is in microseconds, 0 for none.

    ``correlation_id`` 0 or "" means that the request belongs to no sequence; ``flags`` is a sum of SEQUENCE_START
    and SEQUENCE_END; ``custom`` goes to the model.
    """

    correlation_id: int | str = 0
    flags: int = 0
    priority: int = 0
    timeout_us: int = 0
    binary_data_output: bool = False
    custom: dict[str, ParameterValue] = field(default_factory=dict[str, "ParameterValue"])


def read(values: Mapping[str, Any], mistyped: Mistyped) -> RequestParameters:
    """Read the ``parameters`` of a request. ``mistyped(key, expected)`` makes the door's own error for a reserved key.

    ``expected`` is ``boolean`` or ``unsigned-integer``. Raises what ``mistyped`` makes, InvalidArgument for a key
    that may not be sent or a value that no parameter may have, Unsupported for an over-long sequence id.
    """
    result = RequestParameters()
    for key, value in values.items():
        reader = _RESERVED.get(key)
        if reader is not None:
            reader(result, value, mistyped)
        elif key.startswith(RESERVED_PREFIX):
            msg = (
                f"parameter keys starting with '{RESERVED_PREFIX}' are reserved for Triton usage "
                "and should not be specified."
            )
            raise InvalidArgument(msg)
        elif isinstance(value, (str, int, float)):
            result.custom[key] = value
        else:
            msg = f"parameter '{key}' has invalid type. It should be either 'int', 'bool', 'string' or 'double'."
            raise InvalidArgument(msg)
    return result


def is_unsigned(value: object) -> bool:
    """Whether a value is an integer from 0 to 2^64-1 (a bool is none)."""
    return type(value) is int and 0 <= value <= MAX_UINT64


def _sequence_id(result: RequestParameters, value: object, mistyped: Mistyped) -> None:
    if is_unsigned(value):
        result.correlation_id = value  # pyright: ignore[reportAttributeAccessIssue]
    elif isinstance(value, str):
        if len(value.encode(errors="surrogateescape")) > MAX_SEQUENCE_ID_LENGTH:
            msg = (
                f"string sequence id is {len(value)} characters long, the most is {MAX_SEQUENCE_ID_LENGTH}; "
                "use a shorter sequence_id"
            )
            raise Unsupported(msg)
        result.correlation_id = value
    else:
        raise mistyped("sequence_id", "unsigned-integer")


def _sequence_start(result: RequestParameters, value: object, mistyped: Mistyped) -> None:
    _flag(result, "sequence_start", value, SEQUENCE_START, mistyped)


def _sequence_end(result: RequestParameters, value: object, mistyped: Mistyped) -> None:
    _flag(result, "sequence_end", value, SEQUENCE_END, mistyped)


def _flag(result: RequestParameters, key: str, value: object, flag: int, mistyped: Mistyped) -> None:
    if not isinstance(value, bool):
        raise mistyped(key, "boolean")
    if value:
        result.flags |= flag


def _priority(result: RequestParameters, value: Any, mistyped: Mistyped) -> None:  # noqa: ANN401  JSON
    if not is_unsigned(value):
        raise mistyped("priority", "unsigned-integer")
    result.priority = value


def _timeout(result: RequestParameters, value: Any, mistyped: Mistyped) -> None:  # noqa: ANN401  JSON
    if not is_unsigned(value):
        raise mistyped("timeout", "unsigned-integer")
    result.timeout_us = value


def _binary_data_output(result: RequestParameters, value: object, mistyped: Mistyped) -> None:
    if not isinstance(value, bool):
        raise mistyped("binary_data_output", "boolean")
    result.binary_data_output = value


_RESERVED: dict[str, Callable[[RequestParameters, Any, Mistyped], None]] = {
    "sequence_id": _sequence_id,
    "sequence_start": _sequence_start,
    "sequence_end": _sequence_end,
    "priority": _priority,
    "timeout": _timeout,
    "binary_data_output": _binary_data_output,
}
