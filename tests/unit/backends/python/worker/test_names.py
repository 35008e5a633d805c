"""Names that people write from memory work, or the error says what they are called."""

from __future__ import annotations

from typing import Any

import pytest

from infer.backends.python.worker import c_python_backend_utils as native
from infer.backends.python.worker import triton_python_backend_utils as pb_utils
from infer.backends.python.worker.loading import ModelLoadError
from infer.backends.python.worker.names import check_model


@pytest.mark.parametrize(
    "name",
    [
        "InferenceRequest", "InferenceResponse", "InferenceResponseSender", "InferenceTrace", "Logger", "MemoryType",
        "Metric", "MetricFamily", "MetricKind", "ModelConfig", "PreferredMemory", "ResponseIterator", "Tensor",
        "TritonError", "TritonModelException", "load_model", "unload_model", "is_model_ready", "get_model_dir", "np",
        "json", "struct", "TRITONSERVER_MEMORY_CPU", "TRITONSERVER_MEMORY_GPU", "TRITON_STRING_TO_NUMPY",
    ],
)  # fmt: skip
def test_a_name_of_the_interface_is_there(name: str) -> None:
    assert getattr(pb_utils, name) is not None


def test_what_is_said_to_be_exported_is() -> None:
    assert all(hasattr(pb_utils, name) for name in pb_utils.__all__)
    assert all(hasattr(native, name) for name in native.__all__)


def test_the_native_module_has_the_same_classes_and_a_memory_that_is_always_free() -> None:
    shared = set(native.__all__) & set(pb_utils.__all__)
    assert len(shared) >= 17
    assert all(getattr(native, name) is getattr(pb_utils, name) for name in shared)
    assert native.shared_memory.free_memory() == native.shared_memory.free_memory() > 0


def test_the_exception_goes_by_the_name_of_the_readme_too() -> None:
    assert getattr(pb_utils, "TritonInferenceException") is pb_utils.TritonModelException  # noqa: B009  not a name of ours


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("AsyncInferenceResponseSender", "a sender is got with request.get_response_sender"),
        ("async_execute", "write 'async def execute"),
        ("async_exec", "it is a method of InferenceRequest"),
        ("InferenceResponce", "did you mean 'InferenceResponse'"),
        ("get_input_tensor", "did you mean 'get_input_tensor_by_name'"),
        ("TritonErrors", "did you mean 'TritonError'"),
        ("unloadmodel", "did you mean 'unload_model'"),
        ("zzzzzz", "no attribute 'zzzzzz'$"),
        ("__path__", "no attribute '__path__'$"),
    ],
)
def test_a_name_that_is_not_there_is_an_attribute_error_with_the_right_one(name: str, words: str) -> None:
    assert not hasattr(pb_utils, name)
    with pytest.raises(AttributeError, match=words):
        getattr(pb_utils, name)


@pytest.mark.parametrize("name", ["async_execute", "execute_async", "predict"])
def test_a_class_that_executes_under_another_name_is_refused_with_the_right_one(name: str) -> None:
    made: Any = type("TritonPythonModel", (), {name: lambda self, requests: []})
    with pytest.raises(ModelLoadError, match=f"'/m/1/model.py': TritonPythonModel has '{name}' and no 'execute'"):
        check_model(made, "/m/1/model.py")


@pytest.mark.parametrize("names", [("execute",), ("execute", "async_execute"), (), ("run",)])
def test_any_other_class_is_left_alone(names: tuple[str, ...]) -> None:
    check_model(type("TritonPythonModel", (), {name: lambda self, requests: [] for name in names}), "model.py")


def test_what_is_no_class_is_refused() -> None:
    with pytest.raises(ModelLoadError, match=r"^'/m/1/model.py': TritonPythonModel is a int and no class$"):
        check_model(5, "/m/1/model.py")
