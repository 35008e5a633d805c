"""Python-based backends: a ``model.py`` in a folder of the backend directory that serves many models.

``<backend directory>/<name>/model.py`` defines ``TritonPythonModel`` and executes every model whose configuration says
``backend: "<name>"``; what a model brings itself, its versions hold as data (``pb_utils.get_model_dir()``).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from ..api.backend import Backend
from ..api.errors import InvalidArgument
from ..api.model_config import ModelConfig

if TYPE_CHECKING:
    from pathlib import Path

    from ..api.backend import BackendContext, Model, ModelFiles

RUNTIME = "model.py"


@dataclass(frozen=True, slots=True)
class Program:
    """The code that executes a model: its own file, or that of a backend.

    ``path`` "" is the model's own. ``bare``: it comes from a backend directory, so it is imported as Triton does that,
    and may bring an execution environment.
    """

    path: str = ""
    bare: bool = False


OWN = Program()
"""The model's own file."""


class ProgramHost(Protocol):
    """The backend whose workers run programs."""

    async def complete_by(self, program: Program, config: ModelConfig, files: ModelFiles) -> ModelConfig:
        """The configuration with what the program's ``auto_complete_config`` fills in."""
        ...

    async def load_by(self, program: Program, config: ModelConfig, files: ModelFiles) -> Model:
        """A model that is executed by a program."""
        ...


class ProgramBackend(Backend):
    """One backend of that kind; its workers are those of the Python backend, with that one's options."""

    name: ClassVar[str] = "python"

    def __init__(self, context: BackendContext, host: ProgramHost, folder: Path) -> None:
        """``folder`` holds the programs."""
        super().__init__(context)
        self._host = host
        self._folder = folder.absolute()

    async def auto_complete(self, config: ModelConfig, files: ModelFiles) -> ModelConfig:
        """Ask the program's ``auto_complete_config``; the configuration says by which runtime it is served."""
        program = await self._program(config)
        document = copy.deepcopy(config.document)
        document["runtime"] = config.runtime or RUNTIME
        return await self._host.complete_by(program, ModelConfig.from_document(document), files)

    async def load(self, config: ModelConfig, files: ModelFiles) -> Model:
        """Have the program execute the model. Raises InvalidArgument where there is none of that name."""
        return await self._host.load_by(await self._program(config), config, files)

    async def _program(self, config: ModelConfig) -> Program:
        path = self._folder / (config.runtime or RUNTIME)
        if path.suffix != ".py" or not await self.context.run_blocking(path.is_file):
            msg = (
                f"unable to find backend library for backend '{config.backend}' of model '{config.name}' at '{path}', "
                f'try specifying runtime on the model configuration, such as runtime: "{RUNTIME}"'
            )
            raise InvalidArgument(msg)
        return Program(str(path), bare=True)
