"""What ``infer model load`` sends in place of a model's files: ``--config`` and ``--file`` as load parameters."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING

from ..failures import CommandError, ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence

_FILE_PREFIX = "file:"


def load_parameters(config: str, files: Sequence[str]) -> dict[str, str]:
    """The ``parameters`` of a load; empty where nothing is given. Raises CommandError for what cannot be read."""
    parameters = {"config": _config(config)} if config else {}
    for given in files:
        path, equals, local = given.partition("=")
        path = path.removeprefix(_FILE_PREFIX)
        if not equals or not path or not local:
            raise CommandError(
                f"--file '{given}' does not say which file goes where",
                "it is written PATH=LOCAL",
                "for example: --file 1/model.onnx=./new.onnx",
                code=ExitCode.USAGE,
            )
        parameters[_FILE_PREFIX + path] = base64.b64encode(_read(local)).decode()
    if files and not config:
        raise CommandError(
            "--file replaces the whole folder of the model, so its config.pbtxt is not read",
            "there is no --config",
            "give the configuration too: --config FILE",
            code=ExitCode.USAGE,
        )
    return parameters


def _config(given: str) -> str:
    """JSON text: as it is, or from a file of JSON or of protobuf text."""
    if given.lstrip().startswith("{"):
        return given
    try:
        text = _read(given).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CommandError(f"'{given}' is not UTF-8 text", str(error), code=ExitCode.USAGE) from error
    return _from_pbtxt(text, given) if Path(given).suffix == ".pbtxt" else text


def _from_pbtxt(text: str, source: str) -> str:
    from ...backends.api.errors import InferError
    from ...server.repository import pbtxt, schema

    try:
        return json.dumps(schema.to_document(pbtxt.parse(text, source=source)))
    except InferError as error:
        raise CommandError(f"'{source}' is no model configuration", str(error), code=ExitCode.USAGE) from error


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise CommandError(
            f"'{path}' cannot be read", error.strerror or str(error), "check the path", code=ExitCode.USAGE
        ) from error
