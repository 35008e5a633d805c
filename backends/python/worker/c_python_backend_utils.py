"""``import c_python_backend_utils``: the native module of Triton's worker, which some models import as well.

It has the classes, not the free functions. There is no region of shared memory behind it, so what it says of one is
that nothing is taken from it.
"""

from __future__ import annotations

from .answer import InferenceResponseSender
from .calls import ResponseIterator
from .errors import TritonError, TritonErrorCode, TritonModelException
from .logger import Logger, LogLevel
from .metrics import Metric, MetricFamily, MetricKind
from .model_control import is_model_ready, load_model, unload_model
from .request import InferenceRequest, InferenceTrace, MemoryType, PreferredMemory
from .response import InferenceResponse
from .tensor import Tensor

__all__ = [
    "InferenceRequest",
    "InferenceResponse",
    "InferenceResponseSender",
    "InferenceTrace",
    "LogLevel",
    "Logger",
    "MemoryType",
    "Metric",
    "MetricFamily",
    "MetricKind",
    "PreferredMemory",
    "ResponseIterator",
    "SharedMemory",
    "Tensor",
    "TritonError",
    "TritonErrorCode",
    "TritonModelException",
    "is_model_ready",
    "load_model",
    "shared_memory",
    "unload_model",
]


class SharedMemory:
    """Stands for the region that a worker of Triton's shares with its server: here it is never used."""

    SIZE = 1 << 20

    def free_memory(self) -> int:
        """Bytes that are free: always all of them."""
        return self.SIZE


shared_memory = SharedMemory()
"""The one of this process."""
