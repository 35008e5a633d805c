"""Loading and unloading as the protocol's doors allow it, and what a load or an unload may be given.

The parameters are the same at every door: ``config`` and ``file:<version>/<path>`` of a load, ``unload_dependents`` of
an unload. What a door says of those it cannot take is its own, so it brings its words.
"""

from __future__ import annotations

import binascii
from typing import TYPE_CHECKING, Final, NamedTuple

from ...backends.api.errors import Internal, InvalidArgument, Unavailable, Unsupported
from ..lifecycle.model_control import NOT_EXPLICIT
from ..lifecycle.overrides import LoadOverrides

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...backends.api.errors import InferError
    from ..engine import Engine

NO_REPOSITORY_NAME = "'repository_name' specification is not supported"
NOT_REMOTE = (
    "model load / unload is not taken here: the server runs with --allow-remote-control=false; "
    "load and unload on its machine with 'infer model load' and 'infer model unload'"
)

CONFIG = "config"
FILE_PREFIX = "file:"
UNLOAD_DEPENDENTS = "unload_dependents"


class ControlWords(NamedTuple):
    """A door's errors for parameters: ``unknown(key)``, and ``mistyped(key, expected)``.

    ``expected`` is ``string``, ``bytes`` or ``boolean``.
    """

    unknown: Callable[[str], InferError]
    mistyped: Callable[[str, str], InferError]


def check_control(engine: Engine, model: str, repository: str) -> None:
    """Raises where models may not be loaded through a client's door, and for names that name no model.

    Unsupported for a named repository, Unavailable in another control mode than explicit or where the server takes no
    changes from clients, InvalidArgument for a name that is blank or a path.
    """
    if repository:
        raise Unsupported(NO_REPOSITORY_NAME)
    if engine.control_mode != "explicit":
        raise Unavailable(NOT_EXPLICIT)
    if not engine.remote_control:
        raise Unavailable(NOT_REMOTE)
    if not model.strip():
        msg = "Model name cannot be empty. Please enter a valid name to deploy."
        raise InvalidArgument(msg)
    if ".." in model or "/" in model:
        msg = f"model name must not contain path traversal characters, got '{model}'"
        raise InvalidArgument(msg)


def load_overrides(parameters: Mapping[str, object], words: ControlWords) -> LoadOverrides:
    """The parameters of a load, the content of files as bytes. Raises what ``words`` make."""
    config: str | None = None
    files: dict[str, bytes] = {}
    for key, value in parameters.items():
        if key == CONFIG:
            if not isinstance(value, str):
                raise words.mistyped(key, "string")
            config = value
        elif key.startswith(FILE_PREFIX):
            if not isinstance(value, bytes):
                raise words.mistyped(key, "bytes")
            files[key.removeprefix(FILE_PREFIX)] = value
        else:
            raise words.unknown(key)
    return LoadOverrides(config, files)


def json_load_overrides(parameters: Mapping[str, object], words: ControlWords) -> LoadOverrides:
    """The parameters of a load in JSON, where files are base64.

    Raises InvalidArgument for what is no base64, and what ``words`` make for another value than a string.
    """
    values: dict[str, object] = {}
    for key, value in parameters.items():
        if not isinstance(value, str):
            raise words.mistyped(key, "string")
        values[key] = _decoded(key, value) if key.startswith(FILE_PREFIX) else value
    return load_overrides(values, words)


def unload_dependents(parameters: Mapping[str, object], words: ControlWords) -> bool:
    """Whether an unload takes the models with it that nothing else needs. Other parameters mean nothing."""
    value = parameters.get(UNLOAD_DEPENDENTS, False)
    if not isinstance(value, bool):
        raise words.mistyped(UNLOAD_DEPENDENTS, "boolean")
    return value


def _decoded(key: str, text: str) -> bytes:
    try:
        # Tools that print base64 break its lines.
        return binascii.a2b_base64("".join(text.split()) if "\n" in text else text, strict_mode=True)
    except ValueError as exc:
        shown = key.encode("ascii", "backslashreplace").decode()
        msg = f"load parameter '{shown}' is not base64: {exc}; give the file's content as base64 text"
        raise InvalidArgument(msg) from exc


def _http_unknown(_key: str) -> InferError:
    return Internal("unexpected error on creating Triton parameter")


def _http_mistyped(key: str, expected: str) -> InferError:
    sentence = f"attempt to access JSON non-{expected} as {expected}"
    return Internal(f"Unable to parse '{key}': {sentence}" if key == UNLOAD_DEPENDENTS else sentence)


def _grpc_unknown(key: str) -> InferError:
    return InvalidArgument(f"unrecognized load parameter '{key}'.")


def _grpc_mistyped(key: str, expected: str) -> InferError:
    kind = {"string": "string_param", "bytes": "bytes_param", "boolean": "bool_param"}[expected]
    what = "parameter" if key == UNLOAD_DEPENDENTS else "load parameter"
    return InvalidArgument(f"invalid value type for {what} '{key}', expected {kind}.")


HTTP_WORDS: Final = ControlWords(_http_unknown, _http_mistyped)
"""What the HTTP door says."""

GRPC_WORDS: Final = ControlWords(_grpc_unknown, _grpc_mistyped)
"""What the gRPC door says."""
