"""The errors of ``pb_utils``: what a model answers with, and what rule violations raise."""

from __future__ import annotations

import enum
import operator

_INT64 = (1 << 63) - 1


class TritonModelException(Exception):
    """Raised by ``pb_utils`` for a violated rule, and free for models to raise."""


class TritonErrorCode(enum.IntEnum):
    """The kind of a TritonError, with the numbers of TRITONSERVER_Error_Code."""

    UNKNOWN = 0
    INTERNAL = 1
    NOT_FOUND = 2
    INVALID_ARG = 3
    UNAVAILABLE = 4
    UNSUPPORTED = 5
    ALREADY_EXISTS = 6
    CANCELLED = 7


class TritonError:
    """An error to answer one request with: ``TritonError(message, code=TritonError.INTERNAL)``."""

    UNKNOWN = TritonErrorCode.UNKNOWN
    INTERNAL = TritonErrorCode.INTERNAL
    NOT_FOUND = TritonErrorCode.NOT_FOUND
    INVALID_ARG = TritonErrorCode.INVALID_ARG
    UNAVAILABLE = TritonErrorCode.UNAVAILABLE
    UNSUPPORTED = TritonErrorCode.UNSUPPORTED
    ALREADY_EXISTS = TritonErrorCode.ALREADY_EXISTS
    CANCELLED = TritonErrorCode.CANCELLED

    __slots__ = ("_code", "_message")

    def __init__(self, message: str, code: TritonErrorCode = TritonErrorCode.INTERNAL) -> None:
        require(code, TritonErrorCode, "TritonError", "code")
        self._message = text(message, "TritonError", "message")
        self._code = code

    def __repr__(self) -> str:
        return f"TritonError({self._message!r}, {self._code.name})"

    def __str__(self) -> str:
        return self._message

    def message(self) -> str:
        """The message, as the client sees it."""
        return self._message

    def code(self) -> TritonErrorCode:
        """The kind of the error."""
        return self._code


def require(value: object, kind: type | tuple[type, ...], what: str, argument: str) -> None:
    """Raise TypeError unless an argument has its type, as the C++ binding does."""
    if not isinstance(value, kind):
        names = kind.__name__ if isinstance(kind, type) else " or ".join(each.__name__ for each in kind)
        msg = f"{what}(): incompatible argument '{argument}': expected {names}, got {type(value).__name__}"
        raise TypeError(msg)


def text(value: object, what: str, argument: str) -> str:
    """An argument that is text, which the C++ binding also takes as UTF-8 bytes: an element of a BYTES tensor is such.

    Raises TypeError for anything else, and for bytes that are not UTF-8.
    """
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError as exc:
            msg = f"{what}(): argument '{argument}' is not UTF-8: {exc}"
            raise TypeError(msg) from exc
    require(value, str, what, argument)
    return str(value)


def whole(value: object, what: str, argument: str, least: int, most: int) -> int:
    """An integer argument: anything that is one (numpy's, too) and fits, as the C++ binding has it.

    Raises TypeError.
    """
    try:
        number = operator.index(value)  # pyright: ignore[reportArgumentType]  that is the question
    except TypeError:
        require(value, int, what, argument)
        raise
    if not least <= number <= most:
        msg = f"{what}(): incompatible argument '{argument}': expected {least} to {most}, got {number}"
        raise TypeError(msg)
    return number


def checked_parameters(parameters: object, *, floats: bool) -> dict[str, bool | int | float | str]:
    """Request or response parameters, checked: names are str, values bool, int, str, or with ``floats`` float.

    Raises TritonModelException naming the type that was found.
    """
    if parameters is None:
        return {}
    if not isinstance(parameters, dict):
        msg = f"Expect parameters to have type dict, got {type(parameters)}"
        raise TritonModelException(msg)
    for key, value in parameters.items():  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(key, str):
            msg = f"Expect parameters keys to have type str, found type {type(key)}"  # pyright: ignore[reportUnknownArgumentType]
            raise TritonModelException(msg)
        if not isinstance(value, (bool, int, str)) and not (floats and isinstance(value, float)):
            msg = f"Expect parameters values to have type bool/int/str, found type {type(value)}"  # pyright: ignore[reportUnknownArgumentType]
            raise TritonModelException(msg)
        if isinstance(value, int) and not -_INT64 - 1 <= value <= _INT64:
            msg = f"parameter '{key}' is {value}; an integer must fit in 64 bits"
            raise TritonModelException(msg)
        for text in (key, value):  # pyright: ignore[reportUnknownVariableType]
            if isinstance(text, str) and not text.isascii() and text.encode(errors="replace").decode() != text:
                msg = f"parameter {key!r} is not UTF-8 text"
                raise TritonModelException(msg)
    return dict(parameters)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
