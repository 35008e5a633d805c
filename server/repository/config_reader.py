"""From a model's folder, or a JSON document, to a frozen ModelConfig."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...backends.api.errors import InvalidArgument
from ...backends.api.model_config import ModelConfig
from . import pbtxt, schema
from .positions import position

if TYPE_CHECKING:
    from pathlib import Path

    from ...backends.api.model_config import Document
    from .layout import ModelFolder
    from .problem import UnsoundConfig

CONFIG_FILE = "config.pbtxt"


def read(folder: ModelFolder, *, config_name: str = "") -> ModelConfig | None:
    """The configuration of a model's folder, or None where it has no file.

    ``config_name`` chooses ``configs/<config_name>.pbtxt`` where that exists. A blank ``name`` becomes the folder's.
    Raises InvalidArgument that names file, line, column, field and remedy.
    """
    path = config_path(folder.path, config_name)
    if path is None:
        return None
    document = schema.to_document(pbtxt.parse(_text(path), source=str(path)))
    return _named(document, folder.name, source=str(path))


def located(folder: ModelFolder, error: UnsoundConfig, *, config_name: str = "") -> InvalidArgument:
    """The error with file, line and column in front, where the file has the field, or a field around it.

    Blocking. A configuration without a file, or a field that is not in it, leaves the file or the model to blame.
    """
    path = config_path(folder.path, config_name)
    if path is None:
        return error
    place = position(_text(path), error.path)
    where = f"{path}:{place[0]}:{place[1]}" if place is not None else str(path)
    return InvalidArgument(f"{where}: {error}")


def config_path(model_dir: Path, config_name: str = "") -> Path | None:
    """The file that :func:`read` reads, or None."""
    candidates = [model_dir / "configs" / f"{config_name}.pbtxt"] if config_name else []
    candidates.append(model_dir / CONFIG_FILE)
    return next((path for path in candidates if path.is_file()), None)


def from_document(document: Document, *, source: str, name: str = "") -> ModelConfig:
    """A JSON document (a load request's override, a backend's completion) as a configuration.

    Fields may be left out; enumerators may be in any case. ``name``, where given, is the model's and must agree.
    Raises InvalidArgument that names ``source``, the path of the field and the remedy.
    """
    normalised = schema.normalised(document, source=source)
    return _named(normalised, name, source=source) if name else _frozen(normalised, source=source)


def empty(name: str) -> ModelConfig:
    """The configuration of a model that has no file."""
    return from_document({"name": name}, source=name)


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = exc.object[: exc.start].count(b"\n") + 1
        msg = f"{path}:{line}: byte 0x{exc.object[exc.start]:02x} is not UTF-8; save the file as UTF-8 text"
        raise InvalidArgument(msg) from exc
    except OSError as exc:
        msg = f"{path}: failed to open text file for read: {exc.strerror}"
        raise InvalidArgument(msg) from exc


def _named(document: Document, name: str, *, source: str) -> ModelConfig:
    given = document["name"]
    if given and given != name:
        msg = (
            f"{source}: unexpected directory name '{name}' for model '{given}', directory name must equal model name; "
            "rename one of them, or remove 'name'"
        )
        raise InvalidArgument(msg)
    document["name"] = name
    return _frozen(document, source=source)


def _frozen(document: Document, *, source: str) -> ModelConfig:
    """The document as a ModelConfig. A batch input without a usable type has no frozen form, so it is refused here."""
    for index, entry in enumerate(document.get("batch_input", ())):
        if entry["data_type"] == "TYPE_INVALID":
            wanted = "batch input data type must be TYPE_INT32 or TYPE_FP32"
            msg = f"{source}: {wanted} for {document['name']}; set batch_input[{index}].data_type"
            raise InvalidArgument(msg)
    return ModelConfig.from_document(document)
