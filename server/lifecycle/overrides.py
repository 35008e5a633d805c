"""What a load may be given in place of what the repository holds. Pure. Rules: Triton's load parameters.

``config`` is a whole configuration as JSON text, which takes the place of ``config.pbtxt``. ``files`` are the whole
content of the model's folder, by path within it; the repository is not looked at then, so ``config`` must be given.
"""

from __future__ import annotations

import json
import posixpath
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...backends.api.errors import InvalidArgument
from ..repository import config_reader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...backends.api.model_config import ModelConfig

SOURCE = "Invalid config override"
"""What errors in the configuration of a load begin with, as those of a file begin with its path."""

_TOO_LONG = 200
"""Characters of a path that a sentence repeats."""


@dataclass(frozen=True, slots=True)
class LoadOverrides:
    """The parameters of one load: ``config`` is JSON text, None where not given; ``files`` are bytes by path."""

    config: str | None = None
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])

    def __bool__(self) -> bool:
        """Whether anything is overridden."""
        return self.config is not None or bool(self.files)


def parse_config(text: str, name: str) -> ModelConfig:
    """The configuration that a load of model ``name`` is given. Raises InvalidArgument, beginning with SOURCE."""
    try:
        # A text that is no UTF-8, or holds half a character, would only fail later and elsewhere.
        text.encode()
        document: Any = json.loads(text)
        json.dumps(document, ensure_ascii=False).encode()
    except RecursionError as exc:
        msg = f"{SOURCE}: it is nested too deeply"
        raise InvalidArgument(msg) from exc
    except UnicodeEncodeError as exc:
        msg = f"{SOURCE}: it is not UTF-8 text"
        raise InvalidArgument(msg) from exc
    except ValueError as exc:
        msg = f"{SOURCE}: it is not JSON: {exc}"
        raise InvalidArgument(msg) from exc
    if not isinstance(document, dict):
        msg = f"{SOURCE}: it must be a JSON object with the fields of a model configuration"
        raise InvalidArgument(msg)
    return config_reader.from_document(document, source=SOURCE, name=name)  # pyright: ignore[reportUnknownArgumentType]


def check_files(overrides: LoadOverrides) -> dict[str, bytes]:
    """The files by normal path, all of them within the model's folder.

    Raises InvalidArgument for a path that leads out of it or names no file, and where no configuration is given.
    """
    if overrides.config is None:
        msg = "Load parameter 'config' must be specified for model file override"
        raise InvalidArgument(msg)
    files: dict[str, bytes] = {}
    for path, content in overrides.files.items():
        normal = _normal_path(path)
        if normal in files:
            msg = f"file override '{_shown(path)}' is given twice; give each file once"
            raise InvalidArgument(msg)
        files[normal] = content
    return files


def _normal_path(path: str) -> str:
    # The model's folder is the root, as with Triton.
    inner = path.lstrip("/")
    normal = posixpath.normpath(inner) if inner else ""
    if not normal or normal == "." or path.endswith("/") or "\0" in path:
        msg = f"file override '{_shown(path)}' names no file; write file:<version>/<path>, such as file:1/model.onnx"
        raise InvalidArgument(msg)
    if normal.startswith("../") or normal == "..":
        msg = f"file override '{_shown(path)}' must stay within model directory; write it as <version>/<path>"
        raise InvalidArgument(msg)
    return normal


def _shown(path: str) -> str:
    text = path.encode("ascii", "backslashreplace").decode().replace("\0", "\\0")
    return text if len(text) <= _TOO_LONG else text[:_TOO_LONG] + "…"
