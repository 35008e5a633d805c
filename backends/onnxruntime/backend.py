"""ONNX models on ONNX Runtime: CPU, and CUDA and TensorRT where the installed runtime has them.

Instances on the CPU share one session: it is safe to run from several threads and holds the weights once. On a GPU
each instance has a session of its own, because a session's executions there share a stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ..api.backend import Backend, InstanceSpec, Model
from ..api.errors import InvalidArgument, LoadFailed
from ..api.model_config import InstanceKind
from . import completion, graph, options
from .instance import OnnxInstance
from .session import OnnxSession, available_providers, open_session

if TYPE_CHECKING:
    from pathlib import Path

    from ..api.backend import ModelFiles
    from ..api.model_config import Document, ModelConfig

MODEL_FILE = "model.onnx"
DEFAULT_MAX_BATCH_SIZE = "4"

_INSPECTION = options.SessionSettings(intra_op_threads=1, inter_op_threads=1, graph_level="disabled")


class OnnxRuntimeBackend(Backend):
    """Serves ``model.onnx``, a file or a folder that holds one with its external data."""

    name: ClassVar[str] = "onnxruntime"
    default_model_filename: ClassVar[str] = MODEL_FILE
    default_instance_count: ClassVar[int] = 2

    @property
    def supports_gpu(self) -> bool:
        """Whether the installed runtime was built with CUDA."""
        return options.CUDA_PROVIDER in available_providers()

    async def auto_complete(self, config: ModelConfig, files: ModelFiles) -> ModelConfig:
        """Inputs, outputs, batch size and batcher from the graph; nothing where both sides are configured.

        Raises LoadFailed where the file cannot be read or contradicts the configuration.
        """
        if completion.is_complete(config):
            return config
        cpu: list[options.Provider] = [(options.CPU_PROVIDER, {})]
        path, libraries = _model_path(config, files), _op_libraries(config, files)
        session = await self.context.run_blocking(open_session, config.name, path, _INSPECTION, cpu, libraries)
        return completion.completed(config, session.graph, self._default_max_batch_size())

    async def load(self, config: ModelConfig, files: ModelFiles) -> Model:
        """Open the session that CPU instances share, if there are any, and check the configuration against it.

        Raises LoadFailed or InvalidArgument.
        """
        model = OnnxModel(config, files)
        await self.context.run_blocking(model.prepare)
        return model

    def _default_max_batch_size(self) -> int:
        text = self.context.options.get("default-max-batch-size", DEFAULT_MAX_BATCH_SIZE)
        if not (text.isascii() and text.isdigit()):
            msg = f"--backend-config=onnxruntime,default-max-batch-size must be an integer >= 0, not '{text}'"
            raise InvalidArgument(msg)
        return int(text)


class OnnxModel(Model):
    """One version. ``session`` is what CPU instances share, None where all instances are on GPUs."""

    def __init__(self, config: ModelConfig, files: ModelFiles) -> None:
        self.config = config
        self.session: OnnxSession | None = None
        self._path = _model_path(config, files)
        self._libraries = _op_libraries(config, files)
        self._settings = options.settings(config)

    def prepare(self) -> None:
        """Open the shared session. Blocking: called on the loader's pool."""
        kinds = {group.kind for group in self.config.instance_groups}
        if not kinds or InstanceKind.CPU in kinds:
            self.session = self._open(InstanceSpec(self.config.name, InstanceKind.CPU))

    def create_instance(self, spec: InstanceSpec) -> OnnxInstance:
        """Make an instance; on the CPU it takes the shared session, on a GPU it opens its own when it loads."""
        shared = self.session
        if spec.kind is InstanceKind.CPU and shared is not None:
            return OnnxInstance(self.config, lambda: shared)
        return OnnxInstance(self.config, lambda: self._open(spec))

    async def close(self) -> None:
        """Let go of the shared session."""
        self.session = None

    def _open(self, spec: InstanceSpec) -> OnnxSession:
        chosen = options.providers(self.config, spec, available_providers())
        session = open_session(self.config.name, self._path, self._settings, chosen, self._libraries)
        graph.check(self.config, session.graph)
        return session


def _model_path(config: ModelConfig, files: ModelFiles) -> Path:
    path = files.version_dir / (config.default_model_filename or MODEL_FILE)
    return path / MODEL_FILE if path.is_dir() else path


def _op_libraries(config: ModelConfig, files: ModelFiles) -> tuple[Path, ...]:
    """Custom operator libraries; a relative name is looked for in the version's folder, then in the model's."""
    operations: Document = config.document.get("model_operations", {})
    found: list[Path] = []
    for name in operations.get("op_library_filename", ()):
        candidates = (files.version_dir / name, files.model_dir / name)
        path = next((path for path in candidates if path.is_file()), None)
        if path is None:
            where = " nor in ".join(str(path.parent) for path in candidates)
            msg = f"custom operator library '{name}' of model '{config.name}' is neither in {where}"
            raise LoadFailed(msg)
        found.append(path)
    return tuple(found)
