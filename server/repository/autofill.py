"""What a configuration means where it says nothing: backend, platform, file, and Triton's defaults. Pure.

Every function returns a new configuration. The order of detection is Triton's.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...backends.api.errors import InvalidArgument
from ...backends.api.model_config import InstanceKind
from . import config_reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...backends.api.model_config import Document, ModelConfig
    from .layout import ModelFolder

IDLE_MICROSECONDS = 1_000_000
"""``max_sequence_idle_microseconds`` where a sequence batcher does not say."""


@dataclass(frozen=True, slots=True)
class _Signs:
    """How a backend is recognised: platform and file name that mean it, and what it fills in for them."""

    backend: str
    filename: str
    platforms: tuple[str, ...] = ()
    fills_platform: str = ""
    folder: bool = False
    """Whether the model may be a folder of that name as well as a file."""
    alternatives: tuple[tuple[str, str], ...] = ()
    """Further (file name, platform) pairs of the same backend."""


_SIGNS = (
    _Signs(
        "tensorflow",
        "model.savedmodel",
        ("tensorflow_savedmodel", "tensorflow_graphdef"),
        folder=True,
        alternatives=(("model.graphdef", "tensorflow_graphdef"),),
    ),
    _Signs("tensorrt", "model.plan", ("tensorrt_plan",), "tensorrt_plan"),
    _Signs("onnxruntime", "model.onnx", ("onnxruntime_onnx",), "onnxruntime_onnx", folder=True),
    _Signs("openvino", "model.xml"),
    _Signs(
        "pytorch",
        "model.pt",
        ("pytorch_libtorch", "libtorch", "torch_aoti"),
        "pytorch_libtorch",
        alternatives=(("model.pt2", "torch_aoti"),),
    ),
    _Signs("python", "model.py"),
)


def identify(config: ModelConfig | None, folder: ModelFolder, entries: Sequence[str]) -> ModelConfig:
    """The configuration with backend, platform and file name filled in where they are empty and can be told.

    :param config: what ``config.pbtxt`` says, None without one.
    :param folder: the model's folder, of which only the name is looked at.
    :param entries: what lies in its lowest version folder (:func:`.layout.version_entries`); empty without versions.

    Raises InvalidArgument where nothing tells the backend.
    """
    name = folder.name
    given = config if config is not None else config_reader.empty(name)
    document = dict(given.document)
    if given.platform == "ensemble" or given.scheduling == "ensemble_scheduling":
        return given
    signs = next((signs for signs in _SIGNS if _recognises(signs, given, entries)), None)
    if signs is not None:
        document["backend"] = signs.backend
        _fill_names(document, signs, entries)
    elif not (given.backend or given.platform or given.default_model_filename):
        _fill_from_name(document, name)
    return config_reader.from_document(document, source=name)


def normalise(config: ModelConfig) -> ModelConfig:
    """The configuration with Triton's defaults: version policy, preferred batch sizes, idle time, pinned memory.

    Run it again after a backend has completed the configuration.
    """
    document = copy.deepcopy(config.document)
    document.setdefault("version_policy", {"latest": {"num_versions": 1}})
    _fill_batching(document, config.max_batch_size)
    if config.platform != "ensemble":
        optimization: Document = document.setdefault("optimization", {})
        for field in ("input_pinned_memory", "output_pinned_memory"):
            optimization.setdefault(field, {"enable": True})
    return config_reader.from_document(document, source=config.name)


def complete(config: ModelConfig, *, default_instance_count: int = 1, gpus: Sequence[int] = ()) -> ModelConfig:
    """The normalised configuration with every instance group spelled out: name, kind, count and GPUs.

    ``default_instance_count`` is the backend's choice for a KIND_CPU group without a count; ``gpus`` are the
    usable ones. An ensemble has no instances and gets none.
    """
    normal = normalise(config)
    if normal.platform == "ensemble":
        return normal
    document = copy.deepcopy(normal.document)
    # A group that Triton adds bears the model's own name; unnamed groups that a user wrote get an ordinal.
    groups: list[Document] = document.get("instance_group") or [{"name": config.name}]
    for ordinal, group in enumerate(groups):
        group["name"] = group.get("name") or f"{config.name}_{ordinal}"
        kind = _resolved_kind(group, gpus)
        group["kind"] = kind.value
        if kind is InstanceKind.GPU and not group.get("gpus"):
            group["gpus"] = list(gpus)
        if group.get("count", 0) < 1:
            group["count"] = default_instance_count if kind is InstanceKind.CPU else 1
    document["instance_group"] = groups
    return config_reader.from_document(document, source=config.name)


def _recognises(signs: _Signs, config: ModelConfig, entries: Sequence[str]) -> bool:
    """Whether configuration or folder mean this backend: by its name, a platform, a file name, or a file."""
    if config.backend:
        return config.backend == signs.backend
    filenames = (signs.filename, *(filename for filename, _ in signs.alternatives))
    if config.platform in signs.platforms or config.default_model_filename in filenames:
        return True
    if config.platform or config.default_model_filename:
        return False
    return any(_present(filename, entries, signs) for filename in filenames)


def _present(filename: str, entries: Sequence[str], signs: _Signs) -> bool:
    return filename in entries or (signs.folder and f"{filename}/" in entries)


def _fill_names(document: Document, signs: _Signs, entries: Sequence[str]) -> None:
    """Platform and file name of a recognised backend, where they are empty."""
    platform: str = document.get("platform", "")
    filename: str = document.get("default_model_filename", "")
    if not platform and not filename:
        for other, its_platform in signs.alternatives:
            if _present(other, entries, signs) and not _present(signs.filename, entries, signs):
                platform, filename = its_platform, other
    for other, its_platform in signs.alternatives:
        if platform == its_platform and not filename:
            filename = other
        if filename == other and not platform:
            platform = its_platform
    document["platform"] = platform or signs.fills_platform
    document["default_model_filename"] = filename or signs.filename


def _fill_from_name(document: Document, name: str) -> None:
    """``foo.identity`` is a model of the backend ``identity``."""
    _, dot, backend = name.partition(".")
    if not dot or not backend:
        msg = (
            f"Invalid model name: Could not determine backend for model '{name}' with no backend in model "
            "configuration. Expected model name of the form 'model.<backend_name>'. Add a version folder with a "
            f"model file (such as {name}/1/model.onnx), or set 'backend' in config.pbtxt"
        )
        raise InvalidArgument(msg)
    document["backend"] = backend
    document["default_model_filename"] = f"model.{backend}"


def _fill_batching(document: Document, max_batch_size: int) -> None:
    """Preferred batch sizes and the idle time of the batchers that are chosen."""
    preferred = [max_batch_size] if max_batch_size > 0 else []
    dynamic: Document | None = document.get("dynamic_batching")
    if dynamic is not None and not dynamic.get("preferred_batch_size"):
        dynamic["preferred_batch_size"] = preferred
    sequence: Document | None = document.get("sequence_batching")
    if sequence is not None:
        if not sequence.get("max_sequence_idle_microseconds"):
            sequence["max_sequence_idle_microseconds"] = IDLE_MICROSECONDS
        oldest: Document | None = sequence.get("oldest")
        if oldest is not None and not oldest.get("preferred_batch_size"):
            oldest["preferred_batch_size"] = preferred


def _resolved_kind(group: Document, gpus: Sequence[int]) -> InstanceKind:
    """A group's kind; AUTO is a GPU where all those it lists, or any at all, are usable."""
    kind = InstanceKind(group.get("kind", InstanceKind.AUTO.value))
    if kind is not InstanceKind.AUTO:
        return kind
    usable = bool(gpus) and all(gpu in gpus for gpu in group.get("gpus", ()))
    if not usable:
        # A CPU group may list no GPUs, and AUTO has just decided against those listed.
        group["gpus"] = []
    return InstanceKind.GPU if usable else InstanceKind.CPU
