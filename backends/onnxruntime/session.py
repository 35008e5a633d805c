"""The one module that touches ONNX Runtime: open a session, run it, translate its exceptions."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import onnxruntime  # pyright: ignore[reportMissingTypeStubs]

from ..api.datatypes import Datatype
from ..api.errors import BackendFailure, LoadFailed
from .graph import Graph, GraphTensor
from .options import CPU_PROVIDER, SessionSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from .options import Provider

ort = cast("Any", onnxruntime)
"""The runtime, which has no type stubs."""

_BF16_ELEMENT_TYPE = 16
"""``onnx.TensorProto.BFLOAT16``."""


class _Described(Protocol):
    name: str
    type: str
    shape: list[object]


class OnnxSession:
    """A loaded graph. :meth:`run` may be called from several threads at once."""

    def __init__(self, model: str, session: Any) -> None:  # noqa: ANN401  the runtime has no type stubs
        self._model = model
        self._run: Callable[..., Any] = session.run
        self._session = session
        self.graph = Graph(
            inputs=_tensors(session.get_inputs()),
            outputs=_tensors(session.get_outputs()),
            optional=_tensors(session.get_overridable_initializers()),
        )
        self._has_bf16 = self.graph.has_bf16

    @property
    def providers(self) -> tuple[str, ...]:
        """The execution providers in use, the preferred first."""
        return tuple(self._session.get_providers())

    def run(self, outputs: Sequence[str], feed: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        """The named outputs, in that order. Strings are object arrays of ``str`` both ways.

        Raises BackendFailure with the runtime's own reason.
        """
        try:
            return self._run_values(outputs, feed) if self._has_bf16 else self._run(outputs, feed)
        except Exception as exc:  # the runtime's exceptions share no base but Exception
            msg = f"onnx runtime error in model '{self._model}': {exc}"
            raise BackendFailure(msg) from exc

    def _run_values(self, outputs: Sequence[str], feed: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        """As :meth:`run`, through the runtime's own values, which know BF16 where its numpy interface does not."""
        values = {name: _to_value(array) for name, array in feed.items()}
        return [_from_value(value) for value in self._session.run_with_ort_values(outputs, values)]


def available_providers() -> tuple[str, ...]:
    """Execution providers that the installed runtime was built with."""
    return tuple(cast("list[str]", ort.get_available_providers()))


def open_session(
    model: str,
    path: Path,
    settings: SessionSettings,
    providers: Sequence[Provider],
    op_libraries: Sequence[Path] = (),
) -> OnnxSession:
    """Load a file. Blocking; releases the GIL for most of the time.

    Raises LoadFailed with the file and the runtime's reason, also where a provider that was asked for did not come up.
    """
    if not path.exists():
        msg = (
            f"unable to find '{path}' for model '{model}'; put the ONNX file there, "
            "or name it with default_model_filename"
        )
        raise LoadFailed(msg)
    try:
        options = _options(settings)
        for library in op_libraries:
            options.register_custom_ops_library(str(library))
        session = ort.InferenceSession(str(path), sess_options=options, providers=list(providers))
    except Exception as exc:  # the runtime's exceptions share no base but Exception
        msg = f"failed to load model '{model}' from '{path}': {exc}"
        raise LoadFailed(msg) from exc
    opened = OnnxSession(model, session)
    # The runtime falls back to the CPU with no more than a line in the log.
    failed = [name for name, _ in providers if name not in opened.providers and name != CPU_PROVIDER]
    if failed:
        msg = (
            f"model '{model}': execution provider {', '.join(failed)} could not be started (its libraries or the GPU "
            "driver do not fit); see the log, install the matching libraries, or use KIND_CPU"
        )
        raise LoadFailed(msg)
    return opened


def _options(settings: SessionSettings) -> Any:  # noqa: ANN401  the runtime has no type stubs
    options = ort.SessionOptions()
    levels = ort.GraphOptimizationLevel
    modes = ort.ExecutionMode
    options.intra_op_num_threads = settings.intra_op_threads
    options.inter_op_num_threads = settings.inter_op_threads
    options.execution_mode = modes.ORT_PARALLEL if settings.parallel else modes.ORT_SEQUENTIAL
    options.graph_optimization_level = {
        "all": levels.ORT_ENABLE_ALL,
        "extended": levels.ORT_ENABLE_EXTENDED,
        "basic": levels.ORT_ENABLE_BASIC,
        "disabled": levels.ORT_DISABLE_ALL,
    }[settings.graph_level]
    options.enable_cpu_mem_arena = settings.memory_arena
    options.enable_mem_pattern = settings.memory_pattern
    for key, value in settings.entries.items():
        options.add_session_config_entry(key, value)
    return options


def _tensors(described: Sequence[_Described]) -> dict[str, GraphTensor]:
    return {entry.name: GraphTensor.of(entry.name, entry.type, entry.shape) for entry in described}


def _to_value(array: NDArray[Any]) -> Any:  # noqa: ANN401  an OrtValue
    if array.dtype.name == "bfloat16":
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array.view(np.uint16), _BF16_ELEMENT_TYPE)
    return ort.OrtValue.ortvalue_from_numpy(array)


def _from_value(value: Any) -> NDArray[Any]:  # noqa: ANN401  an OrtValue
    if value.data_type() != "tensor(bfloat16)":
        return cast("NDArray[Any]", value.numpy())
    size: int = value.tensor_size_in_bytes()
    # Copied, because the memory is the value's and goes with it.
    memory = ctypes.string_at(value.data_ptr(), size) if size else b""
    return np.frombuffer(memory, dtype=Datatype.BF16.numpy).reshape(value.shape())
