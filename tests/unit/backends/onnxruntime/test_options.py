from __future__ import annotations

from typing import Any

import pytest

from infer.backends.api.backend import InstanceSpec
from infer.backends.api.errors import InvalidArgument, LoadFailed
from infer.backends.api.model_config import InstanceKind, ModelConfig
from infer.backends.api.processors import usable_cpus
from infer.backends.onnxruntime.options import providers, settings
from infer.server.repository.config_reader import from_document

CPU = InstanceSpec("m_0", InstanceKind.CPU)
GPU = InstanceSpec("m_0", InstanceKind.GPU, 1)
CPU_BUILD = ("CPUExecutionProvider",)
GPU_BUILD = ("TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider")


def config(optimization: dict[str, Any] | None = None, **parameters: str) -> ModelConfig:
    entries = {key.replace("__", "."): {"string_value": value} for key, value in parameters.items()}
    document = {"name": "m", "parameters": entries, "optimization": optimization or {}}
    return from_document(document, source="m")


def accelerated(kind: str, *entries: dict[str, Any], **parameters: str) -> ModelConfig:
    return config({"execution_accelerators": {f"{kind}_execution_accelerator": list(entries)}}, **parameters)


def test_the_defaults_use_every_cpu_and_do_not_spin() -> None:
    found = settings(config())
    assert (found.intra_op_threads, found.inter_op_threads, found.parallel) == (usable_cpus(), 1, False)
    assert (found.graph_level, found.memory_arena, found.memory_pattern) == ("all", True, True)
    assert found.entries["session.intra_op.allow_spinning"] == "0"


def test_parameters_have_the_names_of_triton_s_backend() -> None:
    found = settings(
        config(
            intra_op_thread_count="3",
            inter_op_thread_count="2",
            execution_mode="1",
            enable_mem_arena="0",
            enable_mem_pattern="1",
            session__intra_op__allow_spinning="1",
            session__use_device_allocator_for_initializers="1",
        )
    )
    assert (found.intra_op_threads, found.inter_op_threads, found.parallel) == (3, 2, True)
    assert found.memory_arena is False
    assert found.memory_pattern is False  # the runtime has none in parallel mode
    assert found.entries["session.intra_op.allow_spinning"] == "1"
    assert found.entries["session.use_device_allocator_for_initializers"] == "1"


@pytest.mark.parametrize(("level", "name"), [(-1, "basic"), (0, "all"), (1, "extended"), (2, "disabled"), (9, "all")])
def test_graph_levels_are_triton_s(level: int, name: str) -> None:
    assert settings(config({"graph": {"level": level}})).graph_level == name


@pytest.mark.parametrize(
    ("key", "value", "phrase"),
    [
        ("execution_mode", "2", "must be 0 (sequential) or 1 (parallel), not 2"),
        ("execution_mode", "fast", "must be an integer >= 0, not 'fast'"),
        ("intra_op_thread_count", "-1", "must be an integer >= 0, not '-1'"),
        ("enable_mem_arena", "", "must be an integer >= 0, not ''"),
    ],
)
def test_a_parameter_that_cannot_be_read_is_refused_by_name(key: str, value: str, phrase: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        settings(config(**{key: value}))
    assert f"parameter '{key}' of model 'm' {phrase}" in str(caught.value)


def test_a_cpu_instance_runs_on_the_cpu() -> None:
    assert providers(config(), CPU, CPU_BUILD) == [("CPUExecutionProvider", {})]


def test_a_gpu_instance_prefers_cuda_on_its_device_and_falls_back_to_the_cpu_for_single_nodes() -> None:
    (name, options), last = providers(config(cudnn_conv_algo_search="1", gpu_mem_limit="99"), GPU, GPU_BUILD)
    assert name == "CUDAExecutionProvider"
    assert options == {
        "device_id": "1",
        "cudnn_conv_algo_search": "HEURISTIC",
        "do_copy_in_default_stream": "1",
        "gpu_mem_limit": "99",
    }
    assert last == ("CPUExecutionProvider", {})


def test_tensorrt_comes_before_cuda_with_its_parameters_translated() -> None:
    parameters = {"precision_mode": "FP16", "max_workspace_size_bytes": "7", "trt_engine_cache_enable": "1"}
    chosen = providers(accelerated("gpu", {"name": "tensorrt", "parameters": parameters}), GPU, GPU_BUILD)
    assert [name for name, _ in chosen] == list(GPU_BUILD)
    assert chosen[0][1] == {
        "device_id": "1",
        "trt_max_workspace_size": "7",
        "trt_fp16_enable": "1",
        "trt_engine_cache_enable": "1",
    }


def test_the_order_of_accelerators_is_the_preference() -> None:
    chosen = providers(accelerated("gpu", {"name": "cuda"}, {"name": "tensorrt"}), GPU, GPU_BUILD)
    assert [name for name, _ in chosen] == [GPU_BUILD[1], GPU_BUILD[0], GPU_BUILD[2]]


def test_an_openvino_accelerator_keeps_its_parameters() -> None:
    chosen = providers(
        accelerated("cpu", {"name": "openvino", "parameters": {"num_streams": "2"}}),
        CPU,
        ("OpenVINOExecutionProvider", *CPU_BUILD),
    )
    assert chosen[0] == ("OpenVINOExecutionProvider", {"num_streams": "2"})


@pytest.mark.parametrize(
    ("given", "spec", "error", "phrase"),
    [
        (config(), GPU, LoadFailed, "needs CUDAExecutionProvider, but the installed onnxruntime has only CPUExec"),
        (config(), InstanceSpec("m_0", InstanceKind.MODEL), LoadFailed, "is KIND_MODEL, which the onnxruntime backend"),
        (accelerated("cpu", {"name": "openvino"}), CPU, LoadFailed, "install onnxruntime-openvino"),
        (
            accelerated("cpu", {"name": "mkl"}),
            CPU,
            InvalidArgument,
            "unknown Execution Accelerator 'mkl' is requested for model 'm'; CPU has: openvino",
        ),
        (
            accelerated("gpu", {"name": "openvino"}),
            GPU,
            InvalidArgument,
            "unknown Execution Accelerator 'openvino' is requested for model 'm'; GPU has: tensorrt, cuda",
        ),
        (
            accelerated("gpu", {"name": "tensorrt", "parameters": {"precision_mode": "FP8"}}),
            GPU,
            InvalidArgument,
            "precision_mode of model 'm' must be one of FP32, FP16, BF16, INT8, not 'FP8'",
        ),
        (
            accelerated("gpu", {"name": "tensorrt", "parameters": {"speed": "11"}}),
            GPU,
            InvalidArgument,
            "unknown parameter 'speed' is provided for TensorRT Execution Accelerator",
        ),
        (
            config(arena_extend_strategy="2"),
            GPU,
            InvalidArgument,
            "parameter 'arena_extend_strategy' of model 'm' must be one of 0, 1, not '2'",
        ),
    ],
)
def test_what_cannot_be_had_is_refused_with_the_way_out(
    given: ModelConfig, spec: InstanceSpec, error: type[Exception], phrase: str
) -> None:
    with pytest.raises(error) as caught:
        providers(given, spec, CPU_BUILD)
    assert phrase in str(caught.value)
