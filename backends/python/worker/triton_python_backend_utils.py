"""``import triton_python_backend_utils as pb_utils``: what a model may use of the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from . import datatypes, names
from .answer import InferenceResponseSender
from .calls import ResponseIterator
from .errors import TritonError, TritonModelException
from .loading import ModelLoadError
from .logger import Logger
from .metrics import Metric, MetricFamily, MetricKind
from .model_config import ModelConfig
from .model_control import is_model_ready, load_model, unload_model
from .request import InferenceRequest, InferenceTrace, MemoryType, PreferredMemory
from .response import InferenceResponse
from .runtime import RUNTIME
from .tensor import Tensor, deserialize_bytes_tensor, serialize_byte_tensor

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "TRITONSERVER_MEMORY_CPU",
    "TRITONSERVER_MEMORY_GPU",
    "TRITONSERVER_REQUEST_FLAG_SEQUENCE_END",
    "TRITONSERVER_REQUEST_FLAG_SEQUENCE_START",
    "TRITONSERVER_REQUEST_RELEASE_ALL",
    "TRITONSERVER_REQUEST_RELEASE_RESCHEDULE",
    "TRITONSERVER_RESPONSE_COMPLETE_FINAL",
    "TRITON_STRING_TO_NUMPY",
    "InferenceRequest",
    "InferenceResponse",
    "InferenceResponseSender",
    "InferenceTrace",
    "Logger",
    "MemoryType",
    "Metric",
    "MetricFamily",
    "MetricKind",
    "ModelConfig",
    "ModelLoadError",  # not Triton's: a program of another backend raises it, and its text alone is the reason
    "PreferredMemory",
    "ResponseIterator",
    "Tensor",
    "TritonError",
    "TritonModelException",
    "deserialize_bytes_tensor",
    "get_input_config_by_name",
    "get_input_tensor_by_name",
    "get_model_dir",
    "get_output_config_by_name",
    "get_output_tensor_by_name",
    "is_model_ready",
    "load_model",
    "numpy_to_triton_type",
    "serialize_byte_tensor",
    "triton_string_to_numpy",
    "triton_to_numpy_type",
    "unload_model",
    "using_decoupled_model_transaction_policy",
]

TRITONSERVER_REQUEST_FLAG_SEQUENCE_START = 1
TRITONSERVER_REQUEST_FLAG_SEQUENCE_END = 2
TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1
TRITONSERVER_REQUEST_RELEASE_ALL = 1
TRITONSERVER_REQUEST_RELEASE_RESCHEDULE = 2
TRITONSERVER_MEMORY_CPU = MemoryType.TRITONSERVER_MEMORY_CPU
TRITONSERVER_MEMORY_GPU = MemoryType.TRITONSERVER_MEMORY_GPU

TRITON_STRING_TO_NUMPY: dict[str, Any] = {**{row[1]: row[3] for row in datatypes.TABLE}, "TYPE_BOOL": bool}
_TYPE_BY_NUMBER: dict[int, Any] = {row[2]: row[3] for row in datatypes.TABLE}
_NUMBER_BY_TYPE: dict[Any, int] = {**{row[3]: row[2] for row in datatypes.TABLE}, np.bytes_: 13}


def get_input_tensor_by_name(inference_request: InferenceRequest, name: str) -> Tensor | None:
    """The input of that name, or None."""
    for tensor in inference_request.inputs():
        if tensor.name() == name:
            return tensor
    return None


def get_output_tensor_by_name(inference_response: InferenceResponse, name: str) -> Tensor | None:
    """The output of that name, or None."""
    for tensor in inference_response.output_tensors():
        if tensor.name() == name:
            return tensor
    return None


def get_input_config_by_name(model_config: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """The entry of an input in a parsed configuration, or None."""
    return _entry(model_config, "input", name)


def get_output_config_by_name(model_config: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """The entry of an output in a parsed configuration, or None."""
    return _entry(model_config, "output", name)


def _entry(model_config: Mapping[str, Any], section: str, name: str) -> dict[str, Any] | None:
    return next((entry for entry in model_config.get(section, ()) if entry.get("name") == name), None)


def using_decoupled_model_transaction_policy(model_config: Mapping[str, Any]) -> bool:
    """Whether the parsed configuration says that the model is decoupled."""
    return bool(model_config.get("model_transaction_policy", {}).get("decoupled", False))


def triton_string_to_numpy(triton_type_string: str) -> Any:  # noqa: ANN401  a numpy scalar type
    """``TYPE_FP32`` → ``numpy.float32``. Raises KeyError for a name numpy has no type for."""
    return TRITON_STRING_TO_NUMPY[triton_type_string]


def triton_to_numpy_type(data_type: int) -> Any:  # noqa: ANN401  a numpy scalar type
    """The numpy type of a datatype's number, or None."""
    return _TYPE_BY_NUMBER.get(data_type)


def numpy_to_triton_type(data_type: Any) -> int | None:  # noqa: ANN401  a numpy scalar type
    """The number of a numpy type, or None."""
    return _NUMBER_BY_TYPE.get(data_type)


def get_model_dir() -> str:
    """The folder of this version of the model."""
    return RUNTIME.model_dir


def __getattr__(name: str) -> Any:  # noqa: ANN401  a module's attribute
    """A name of articles and older releases, or AttributeError with the name that was meant."""
    return names.other_name(name, globals())
