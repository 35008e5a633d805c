"""The PyTorch backend: TorchScript in the server's process, everything that holds the GIL in worker processes.

What a file is, its content says, whatever its name and the configured platform: a TorchScript module runs on a thread
of this process, because it releases the GIL; an exported program, an AOTInductor package (whose runner holds the GIL)
and a ``model.py`` run in workers of the Python backend, by the program in ``worker/``. ``runtime: "model.py"`` runs
TorchScript there too.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import torch

from ..api.backend import Backend, InstanceSpec, Model
from ..api.errors import InvalidArgument, LoadFailed
from . import device
from .instance import ScriptInstance
from .process import SETTINGS
from .script import Script, open_script
from .worker import options
from .worker.archive import ArchiveError, Format, format_of
from .worker.values import ValueMismatch, specs

if TYPE_CHECKING:
    from ..api.backend import ModelFiles
    from ..api.model_config import ModelConfig

logger = logging.getLogger("infer.torch")

MODEL_FILE = "model.pt"
CODE_FILE = "model.py"
PROGRAM = Path(__file__).absolute().parent / "worker" / "model.py"


class TorchBackend(Backend):
    """Serves ``model.pt``, ``model.pt2`` and ``model.py``."""

    name: ClassVar[str] = "pytorch"
    default_model_filename: ClassVar[str] = MODEL_FILE

    @property
    def supports_gpu(self) -> bool:
        """Whether the installed torch was built with CUDA and sees a GPU."""
        return torch.cuda.is_available()

    async def auto_complete(self, config: ModelConfig, files: ModelFiles) -> ModelConfig:
        """Nothing: a PyTorch file does not say shapes and datatypes. A warning where the configuration lacks them."""
        if not (config.inputs and config.outputs):
            logger.warning(
                "model '%s': PyTorch files do not say their tensors, so config.pbtxt must give input, output and "
                "max_batch_size",
                config.name,
                extra={"model": config.name, "version": files.version},
            )
        return config

    async def load(self, config: ModelConfig, files: ModelFiles) -> Model:
        """Check the configuration and open the file, or hand both to a worker. Raises LoadFailed or InvalidArgument."""
        chosen = read_options(config)
        check_tensors(config)
        path = await self.context.run_blocking(model_path, config, files)
        if path is None:
            return await self.context.load_program(config, files, PROGRAM)
        return ScriptModel(config, path, chosen)


class ScriptModel(Model):
    """One version of a TorchScript model. Its instances share one module a device where the options say so."""

    def __init__(self, config: ModelConfig, path: Path, chosen: options.TorchOptions) -> None:
        self.config = config
        self._path = path
        self._options = chosen
        self._inputs = specs(config.name, config.document.get("input", ()))
        self._outputs = specs(config.name, config.document.get("output", ()))
        self._shared: dict[str, Script] = {}
        self._lock = threading.Lock()

    def create_instance(self, spec: InstanceSpec) -> ScriptInstance:
        """Make an instance; it opens its module when it loads."""
        chosen = device.choose(self.config.name, spec)
        return ScriptInstance(self.config, self._outputs, self._options, lambda: self._open(chosen), chosen)

    async def close(self) -> None:
        """Let go of the shared modules."""
        self._shared.clear()

    def _open(self, chosen: torch.device | None) -> Script:
        """The module for a device. Instances load at the same time, and those that share wait for the first."""
        SETTINGS.apply(self.config.name, self._options)
        if not self._options.share_weights:
            return self._load(chosen)
        with self._lock:
            script = self._shared.get(str(chosen))
            if script is None:
                script = self._shared[str(chosen)] = self._load(chosen)
            return script

    def _load(self, chosen: torch.device | None) -> Script:
        inputs, outputs = ([spec.name for spec in side] for side in (self._inputs, self._outputs))
        return open_script(self.config.name, self._path, chosen, inputs, outputs)


def read_options(config: ModelConfig) -> options.TorchOptions:
    """The parameters of a model. Raises InvalidArgument."""
    try:
        return options.read(config.name, config.parameters)
    except options.OptionError as exc:
        raise InvalidArgument(str(exc)) from exc


def check_tensors(config: ModelConfig) -> None:
    """Raise InvalidArgument for a configuration without outputs, or with tensors that PyTorch does not have."""
    if not config.outputs:
        msg = f"model configuration must contain at least one output, none were specified (model '{config.name}')"
        raise InvalidArgument(msg)
    try:
        for side in ("input", "output"):
            specs(config.name, config.document.get(side, ()))
    except ValueMismatch as exc:
        raise InvalidArgument(str(exc)) from exc


def model_path(config: ModelConfig, files: ModelFiles) -> Path | None:
    """The TorchScript file that this process runs; None where the model is one for a worker. Blocking.

    Raises LoadFailed where there is no file, or one that is no PyTorch archive.
    """
    path = files.version_dir / (config.default_model_filename or MODEL_FILE)
    code = files.version_dir / CODE_FILE
    if config.runtime == CODE_FILE:
        return None
    if config.runtime:
        msg = (
            f"unable to find backend library '{config.runtime}' for model '{config.name}'; remove 'runtime', or set it "
            f'to "{CODE_FILE}"'
        )
        raise LoadFailed(msg)
    if path.suffix == code.suffix or (code.is_file() and not path.is_file()):
        return None
    if not path.is_file():
        msg = (
            f"unable to find '{path}' for model '{config.name}'; put the PyTorch file there, "
            "or name it with default_model_filename"
        )
        raise LoadFailed(msg)
    try:
        found = format_of(path)
    except ArchiveError as exc:
        msg = f"failed to load model '{config.name}': {exc}"
        raise LoadFailed(msg) from exc
    return path if found is Format.TORCHSCRIPT else None
