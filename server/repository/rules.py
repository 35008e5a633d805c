"""Whether a configuration is sound. Pure; the phrases are Triton's, with the numbers and the remedy behind them.

:func:`problems` yields every one, :func:`check` raises for the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...backends.api.model_config import InstanceKind
from . import sequence_rules, tensor_rules
from .problem import Problem, UnsoundConfig

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...backends.api.model_config import Document, InstanceGroup, ModelConfig

_PAIRS = {
    "tensorrt": ("tensorrt_plan",),
    "onnxruntime": ("onnxruntime_onnx",),
    "pytorch": ("pytorch_libtorch", "torch_aoti", "libtorch"),
    "tensorflow": ("tensorflow_savedmodel", "tensorflow_graphdef"),
}


def check(config: ModelConfig, *, gpus: Sequence[int] = ()) -> None:
    """Raise UnsoundConfig with the first problem of a completed configuration. ``gpus`` are the usable ones."""
    for problem in problems(config, gpus=gpus):
        raise UnsoundConfig(problem)


def problems(config: ModelConfig, *, gpus: Sequence[int] = ()) -> Iterator[Problem]:
    """Every problem, each a sentence that names the model, the field and the remedy."""
    if not config.name:
        yield Problem("name", "model configuration must specify 'name'")
    yield from _platform(config)
    if config.max_batch_size < 0:
        yield Problem(
            "max_batch_size",
            f"'max_batch_size' must be non-negative value for {config.name}, not {config.max_batch_size}; "
            "use 0 for a model without a batch dimension",
        )
    yield from tensor_rules.tensors(config)
    yield from tensor_rules.batch_inputs(config)
    yield from tensor_rules.batch_outputs(config)
    yield from _dynamic_batching(config)
    yield from _sequence_batching(config)
    yield from _response_cache(config)
    yield from _ensemble(config)
    yield from _instance_groups(config, gpus)
    yield from _model_metrics(config)


def _platform(config: ModelConfig) -> Iterator[Problem]:
    name, platform, backend = config.name, config.platform, config.backend
    if platform == "ensemble":
        if backend:
            sentence = f"Ensemble model '{name}' must have platform type 'ensemble' and empty backend type"
            yield Problem("backend", f"{sentence}, not '{backend}'")
        return
    if not backend:
        sentence = (
            f"unexpected platform type '{platform}' for {name}; set 'backend' instead, such as backend: \"python\""
        )
        yield Problem("platform", sentence)
        return
    known = _PAIRS.get(backend)
    if known and platform and platform not in known:
        sentence = f"unexpected 'platform' and 'backend' pair, got:{platform}, {backend}"
        yield Problem("platform", f"{sentence}; remove 'platform', or set it to {' or '.join(known)}")
    if ".." in config.runtime.split("/"):
        sentence = f"runtime '{config.runtime}' of model '{name}' escapes backend directory; give a file name"
        yield Problem("runtime", sentence)


def _dynamic_batching(config: ModelConfig) -> Iterator[Problem]:
    batching: Document | None = config.document.get("dynamic_batching")
    if batching is None:
        return
    path, name, levels = "dynamic_batching", config.name, batching.get("priority_levels", 0)
    yield from _preferred(config, batching, path, "dynamic batching preferred size")
    default = batching.get("default_priority_level", 0)
    if levels and not 1 <= default <= levels:
        sentence = f"default priority level must be in range [1, {levels}] for {name}, not {default}"
        yield Problem(f"{path}.default_priority_level", sentence)
    policies: dict[str, Document] = batching.get("priority_queue_policy", {})
    for key in policies:
        if levels and not 1 <= int(key) <= levels:
            sentence = f"priority queue policy must have priority level in range [1, {levels}] for {name}, not {key}"
            yield Problem(f"{path}.priority_queue_policy", sentence)
    if batching.get("preserve_ordering", False):
        yield from _ordering(name, levels, (batching.get("default_queue_policy", {}), *policies.values()))


def _ordering(name: str, levels: int, policies: Sequence[Document]) -> Iterator[Problem]:
    """What contradicts ``preserve_ordering``."""
    path = "dynamic_batching.preserve_ordering"
    if levels > 1:
        sentence = f"Only one priority level is allowed when 'preserve_ordering' is true for {name}, not {levels}"
        yield Problem(path, sentence)
    for policy in policies:
        if policy.get("default_timeout_microseconds", 0) and policy.get("timeout_action") == "DELAY":
            sentence = f"Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true for {name}"
            yield Problem(path, sentence)


def _preferred(config: ModelConfig, batching: Document, path: str, what: str) -> Iterator[Problem]:
    field = f"{path}.preferred_batch_size"
    for size in batching.get("preferred_batch_size", ()):
        if size <= 0:
            yield Problem(field, f"{what} must be positive for {config.name}, not {size}")
        elif size > config.max_batch_size:
            sentence = f"{what} must be <= max batch size for {config.name}: {size} > {config.max_batch_size}"
            yield Problem(field, sentence)


def _sequence_batching(config: ModelConfig) -> Iterator[Problem]:
    batching: Document | None = config.document.get("sequence_batching")
    if batching is None:
        return
    path, oldest = "sequence_batching", batching.get("oldest", {})
    yield from _preferred(config, oldest, f"{path}.oldest", "sequence batching preferred batch size")
    utilization = batching.get("direct", {}).get("minimum_slot_utilization", 0.0)
    if not 0.0 <= utilization <= 1.0:
        sentence = f"sequence batching minimum slot utilization must be in range (0.0, 1.0] for {config.name}"
        yield Problem(f"{path}.direct.minimum_slot_utilization", f"{sentence}, not {utilization}")
    candidates = oldest.get("max_candidate_sequences", 0)
    if candidates < 0:
        sentence = f"sequence batching max_candidate_sequences must not be negative for {config.name}: {candidates}"
        yield Problem(f"{path}.oldest.max_candidate_sequences", f"{sentence}; 0 is as many as max_batch_size")
    yield from sequence_rules.controls(config, batching)
    if "TRITON_BATCH_STRATEGY_PATH" in config.parameters:
        sentence = "TRITON_BATCH_STRATEGY_PATH cannot be combined with sequence_batching"
        yield Problem(path, f"{sentence} for {config.name}; remove one")


def _response_cache(config: ModelConfig) -> Iterator[Problem]:
    if not config.document.get("response_cache", {}).get("enable", False):
        return
    refused = f"Response Cache does not currently support model {config.name} with"
    if config.scheduling == "sequence_batching":
        yield Problem("response_cache", f"{refused} sequence batching scheduler.")
    if config.decoupled:
        yield Problem("response_cache", f"{refused} 'decoupled' transaction policy.")


def _ensemble(config: ModelConfig) -> Iterator[Problem]:
    name, scheduled = config.name, config.scheduling == "ensemble_scheduling"
    if config.platform != "ensemble":
        if scheduled:
            sentence = f"ensemble scheduling cannot be set for model '{name}' whose platform is not ensemble"
            yield Problem("ensemble_scheduling", sentence)
        return
    if not scheduled:
        yield Problem("platform", f"ensemble scheduling must be set for ensemble {name} whose platform is ensemble")
    if config.instance_groups:
        yield Problem("instance_group", f"instance group should not be specified for ensemble '{name}'")
    if "optimization" in config.document:
        yield Problem("optimization", f"optimization should not be specified for ensemble '{name}'")
    if config.document.get("model_warmup"):
        yield Problem("model_warmup", f"model_warmup can not be specified for ensemble '{name}'")


def _instance_groups(config: ModelConfig, gpus: Sequence[int]) -> Iterator[Problem]:
    entries: Sequence[Document] = config.document.get("instance_group", ())
    for index, (group, entry) in enumerate(zip(config.instance_groups, entries, strict=True)):
        path, label = f"instance_group[{index}]", f"instance group {group.name} of model {config.name}"
        if group.kind in (InstanceKind.CPU, InstanceKind.MODEL) and group.gpus:
            sentence = f"{label} has kind {group.kind.value} but specifies one or more GPUs"
            yield Problem(f"{path}.gpus", f"{sentence}; remove 'gpus', or use KIND_GPU")
        if group.kind is InstanceKind.GPU:
            yield from _gpus(path, label, group, gpus)
        if entry.get("profile") and config.platform != "tensorrt_plan":
            sentence = f"{label} has the profile field which is only supported for TensorRT models"
            yield Problem(f"{path}.profile", sentence)
        for profile in entry.get("profile", ()):
            if not (profile.isascii() and profile.isdigit()):
                yield Problem(f"{path}.profile", f"{label} has profile '{profile}', which is not an integer >= 0")


def _gpus(path: str, label: str, group: InstanceGroup, usable: Sequence[int]) -> Iterator[Problem]:
    if not usable:
        sentence = f"{label} has kind KIND_GPU but no GPUs are available; use KIND_CPU or KIND_AUTO on this machine"
        yield Problem(f"{path}.kind", sentence)
        return
    known = ", ".join(str(gpu) for gpu in usable)
    for gpu in group.gpus:
        if gpu not in usable:
            sentence = (
                f"{label} specifies invalid or unsupported gpu id {gpu}. GPUs with at least the minimum required CUDA "
                f"compute compatibility are: {known}"
            )
            yield Problem(f"{path}.gpus", sentence)


def _model_metrics(config: ModelConfig) -> Iterator[Problem]:
    for index, control in enumerate(config.document.get("model_metrics", {}).get("metric_control", ())):
        path = f"model_metrics.metric_control[{index}]"
        place = f"{path} of {config.name} must specify"
        if "metric_identifier" not in control:
            yield Problem(path, f"{place} 'metric_identifier'")
        elif not control["metric_identifier"].get("family"):
            yield Problem(f"{path}.metric_identifier", f"{place} a non-empty 'metric_identifier.family'")
        if "histogram_options" not in control:
            yield Problem(path, f"{place} 'histogram_options'")
        elif not control["histogram_options"].get("buckets"):
            yield Problem(f"{path}.histogram_options", f"{place} at least one entry in 'histogram_options.buckets'")
