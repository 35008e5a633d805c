"""The key that a client shows to load and unload at the operator's door: from a file, or from the environment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from .arguments import BadOption

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE: Final = "INFER_CONTROL_KEY"


def control_key(file: str, environment: Mapping[str, str]) -> str:
    """The key in ``file``, else that of INFER_CONTROL_KEY, else "". Raises BadOption for one that cannot be sent."""
    if not file:
        return _sound(environment.get(VARIABLE, ""), f"Bad value of {VARIABLE}.")
    refused = 'Bad option: "--control-key-file".'
    try:
        key = Path(file).read_text(encoding="utf-8").strip()
    except OSError as error:
        msg = f"{refused}\n'{file}' cannot be read: {error.strerror}."
        raise BadOption(msg) from error
    except ValueError as error:
        msg = f"{refused}\n'{file}' is no text."
        raise BadOption(msg) from error
    if not key:
        msg = f"{refused}\n'{file}' is empty; put a key into it, for example that of: openssl rand -hex 32"
        raise BadOption(msg)
    return _sound(key, refused)


def _sound(key: str, refused: str) -> str:
    if key and not (key.isascii() and key.isprintable() and " " not in key):
        msg = f"{refused}\nA key is one word of printable ASCII characters, since it is sent in an HTTP header."
        raise BadOption(msg)
    return key
