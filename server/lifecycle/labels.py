"""The label files of a model's outputs, for classification."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...backends.api.errors import Code, InvalidArgument

if TYPE_CHECKING:
    from pathlib import Path

    from ...backends.api.model_config import ModelConfig


def read_labels(config: ModelConfig, model_dir: Path) -> dict[str, tuple[str, ...]]:
    """The labels by output, a label a line. Blocking. Raises InvalidArgument for a file that is missing or outside."""
    labels: dict[str, tuple[str, ...]] = {}
    for spec in config.outputs:
        if not spec.label_filename:
            continue
        path = (model_dir / spec.label_filename).resolve()
        if not path.is_relative_to(model_dir.resolve()):
            msg = f"label_filename '{spec.label_filename}' of output '{spec.name}' is outside model directory"
            raise InvalidArgument(msg, code=Code.UNSUPPORTED)
        try:
            labels[spec.name] = tuple(path.read_text(encoding="utf-8").splitlines())
        except OSError as exc:
            msg = f"unable to open label file '{path}' of output '{spec.name}': {exc.strerror}"
            raise InvalidArgument(msg) from exc
    return labels
