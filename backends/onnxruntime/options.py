"""From a model's configuration to ONNX Runtime's execution providers and session settings. Pure.

Names of parameters are those of Triton's ONNX Runtime backend; parameters that begin with ``session.`` are handed on
as session configuration entries.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..api.errors import InvalidArgument, LoadFailed
from ..api.model_config import InstanceKind
from ..api.processors import usable_cpus

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..api.backend import InstanceSpec
    from ..api.model_config import Document, ModelConfig

Provider = tuple[str, dict[str, str]]

CPU_PROVIDER = "CPUExecutionProvider"
CUDA_PROVIDER = "CUDAExecutionProvider"
TENSORRT_PROVIDER = "TensorrtExecutionProvider"
OPENVINO_PROVIDER = "OpenVINOExecutionProvider"

_CUDA_LEGACY: dict[str, Mapping[str, str]] = {
    "cudnn_conv_algo_search": {"0": "EXHAUSTIVE", "1": "HEURISTIC", "2": "DEFAULT"},
    "arena_extend_strategy": {"0": "kNextPowerOfTwo", "1": "kSameAsRequested"},
    "do_copy_in_default_stream": {"0": "0", "1": "1"},
}
_TENSORRT_RENAMED = {
    "max_workspace_size_bytes": "trt_max_workspace_size",
    "int8_calibration_table_name": "trt_int8_calibration_table_name",
    "int8_use_native_calibration_table": "trt_int8_use_native_calibration_table",
}
_TENSORRT_PRECISION = {"FP32": "", "FP16": "trt_fp16_enable", "BF16": "trt_bf16_enable", "INT8": "trt_int8_enable"}
_TENSORRT_WORKSPACE = str(1 << 30)
_GRAPH_LEVELS = {-1: "basic", 1: "extended", 2: "disabled"}


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """How a session is opened.

    0 threads leave the number to the runtime; ``graph_level`` is disabled, basic, extended or all.
    """

    intra_op_threads: int = 0
    inter_op_threads: int = 0
    parallel: bool = False
    graph_level: str = "all"
    memory_arena: bool = True
    memory_pattern: bool = True
    entries: Mapping[str, str] = field(default_factory=dict[str, str])


def settings(config: ModelConfig) -> SessionSettings:
    """Session settings of a model. Raises InvalidArgument for a parameter that cannot be read."""
    mode = _integer(config, "execution_mode", 0)
    if mode not in (0, 1):
        msg = f"parameter 'execution_mode' of model '{config.name}' must be 0 (sequential) or 1 (parallel), not {mode}"
        raise InvalidArgument(msg)
    level: int = config.document.get("optimization", {}).get("graph", {}).get("level", 0)
    # Threads that spin while they wait take the cores that the server and its other models need.
    entries = {"session.intra_op.allow_spinning": "0", "session.inter_op.allow_spinning": "0"}
    entries.update({key: value for key, value in config.parameters.items() if key.startswith("session.")})
    return SessionSettings(
        intra_op_threads=_integer(config, "intra_op_thread_count", 0) or usable_cpus(),
        inter_op_threads=_integer(config, "inter_op_thread_count", 0) or (usable_cpus() if mode else 1),
        parallel=bool(mode),
        graph_level=_GRAPH_LEVELS.get(level, "all"),
        memory_arena=bool(_integer(config, "enable_mem_arena", 1)),
        memory_pattern=bool(_integer(config, "enable_mem_pattern", 1)) and not mode,
        entries=entries,
    )


def providers(config: ModelConfig, instance: InstanceSpec, available: Sequence[str]) -> list[Provider]:
    """Execution providers of an instance, the preferred first, the CPU last.

    Raises LoadFailed, naming the remedy, where the runtime lacks one, and InvalidArgument for an accelerator or a
    setting that does not exist.
    """
    accelerators: Document = config.document.get("optimization", {}).get("execution_accelerators", {})
    if instance.kind is InstanceKind.CPU:
        entries = accelerators.get("cpu_execution_accelerator", ())
        chosen = [_cpu_accelerator(config, entry) for entry in entries]
    elif instance.kind is InstanceKind.GPU:
        entries = accelerators.get("gpu_execution_accelerator", ())
        chosen = [_gpu_accelerator(config, entry, instance.device_id) for entry in entries]
        if all(name != CUDA_PROVIDER for name, _ in chosen):
            chosen.append((CUDA_PROVIDER, _cuda(config, {}, instance.device_id)))
    else:
        msg = (
            f"instance '{instance.name}' of model '{config.name}' is {instance.kind.value}, which the onnxruntime "
            "backend does not support; use KIND_CPU or KIND_GPU"
        )
        raise LoadFailed(msg)
    for name, _ in chosen:
        if name not in available:
            raise LoadFailed(_lacking(config, instance, name, available))
    return [*chosen, (CPU_PROVIDER, {})]


def _lacking(config: ModelConfig, instance: InstanceSpec, name: str, available: Sequence[str]) -> str:
    remedy = {
        OPENVINO_PROVIDER: "install onnxruntime-openvino, or remove the accelerator",
    }.get(name, "run `pip install 'infer-server[gpu]'`, or use KIND_CPU")
    return (
        f"instance '{instance.name}' of model '{config.name}' ({instance.kind.value}) needs {name}, but the installed "
        f"onnxruntime has only {', '.join(available)}; {remedy}"
    )


def _cpu_accelerator(config: ModelConfig, entry: Document) -> Provider:
    if entry["name"] != "openvino":
        raise InvalidArgument(_unknown_accelerator(config, entry["name"], "CPU", "openvino"))
    return (OPENVINO_PROVIDER, dict(entry.get("parameters", {})))


def _gpu_accelerator(config: ModelConfig, entry: Document, device_id: int) -> Provider:
    parameters: dict[str, str] = entry.get("parameters", {})
    if entry["name"] == "cuda":
        return (CUDA_PROVIDER, _cuda(config, parameters, device_id))
    if entry["name"] == "tensorrt":
        return (TENSORRT_PROVIDER, _tensorrt(config, parameters, device_id))
    raise InvalidArgument(_unknown_accelerator(config, entry["name"], "GPU", "tensorrt, cuda"))


def _unknown_accelerator(config: ModelConfig, name: str, kind: str, known: str) -> str:
    return f"unknown Execution Accelerator '{name}' is requested for model '{config.name}'; {kind} has: {known}"


def _cuda(config: ModelConfig, parameters: Mapping[str, str], device_id: int) -> dict[str, str]:
    """CUDA options: the accelerator's own under their names, then the model parameters of older configurations."""
    options = {"device_id": str(device_id), "cudnn_conv_algo_search": "EXHAUSTIVE", "do_copy_in_default_stream": "1"}
    for key, values in _CUDA_LEGACY.items():
        given = config.parameters.get(key)
        if given is None:
            continue
        if given not in values:
            msg = f"parameter '{key}' of model '{config.name}' must be one of {', '.join(values)}, not '{given}'"
            raise InvalidArgument(msg)
        options[key] = values[given]
    limit = _integer(config, "gpu_mem_limit", 0)
    if limit:
        options["gpu_mem_limit"] = str(limit)
    return options | dict(parameters)


def _tensorrt(config: ModelConfig, parameters: Mapping[str, str], device_id: int) -> dict[str, str]:
    options = {"device_id": str(device_id), "trt_max_workspace_size": _TENSORRT_WORKSPACE}
    for key, value in parameters.items():
        if key == "precision_mode":
            if value not in _TENSORRT_PRECISION:
                known = ", ".join(_TENSORRT_PRECISION)
                msg = f"precision_mode of model '{config.name}' must be one of {known}, not '{value}'"
                raise InvalidArgument(msg)
            if _TENSORRT_PRECISION[value]:
                options[_TENSORRT_PRECISION[value]] = "1"
        elif key in _TENSORRT_RENAMED:
            options[_TENSORRT_RENAMED[key]] = value
        elif key.startswith("trt_"):
            options[key] = value
        else:
            msg = f"unknown parameter '{key}' is provided for TensorRT Execution Accelerator of model '{config.name}'"
            raise InvalidArgument(msg)
    return options


def _integer(config: ModelConfig, key: str, default: int) -> int:
    """A model parameter as an integer >= 0. Raises InvalidArgument for anything else."""
    text = config.parameters.get(key)
    if text is None:
        return default
    try:
        value = int(text)
    except ValueError:
        value = -1
    if value < 0:
        msg = f"parameter '{key}' of model '{config.name}' must be an integer >= 0, not '{text}'"
        raise InvalidArgument(msg)
    return value
