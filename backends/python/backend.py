"""The Python backend: models written as a class ``TritonPythonModel`` in ``model.py``, each instance a process."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ..api.backend import Backend, BackendContext, InstanceSpec, Model, ModelFiles
from ..api.errors import LoadFailed
from . import options
from .completion import ask_model, merge_completed
from .environments import reference
from .environments.keeper import Environments
from .instance import PythonInstance, WorkerSetup
from .programs import OWN, Program, ProgramBackend
from .threads import THREAD, Threads, execution_mode
from .waiting import Waiting
from .worker import frames
from .zygotes import Spawner, Zygotes

if TYPE_CHECKING:
    from ..api.model_config import ModelConfig
    from .environments.environment import Environment
    from .process import Zygote

logger = logging.getLogger(__name__)


class PythonBackend(Backend):
    """Workers forked from one zygote, or from one an execution environment. ``options`` says what may be set."""

    name: ClassVar[str] = "python"
    default_model_filename: ClassVar[str] = "model.py"

    def __init__(self, context: BackendContext) -> None:
        super().__init__(context)
        self.options = options.read(context.options)
        self.restart_policy = self.options.restart
        self.zygotes = Zygotes(context)
        self.threads = Threads(context.loop)
        self.environments = Environments(context.run_blocking, self.zygotes.retire)

    @property
    def zygote(self) -> Zygote:
        """The zygote of the server's own interpreter."""
        return self.zygotes.own

    async def stop(self) -> None:
        """End the zygotes and what is left of threads, and remove what was unpacked."""
        await self.threads.stop()
        await self.zygotes.stop()
        await self.environments.stop()

    async def auto_complete(self, config: ModelConfig, files: ModelFiles) -> ModelConfig:
        """Ask the model's ``auto_complete_config`` in a worker that is thrown away afterwards."""
        return await self.complete_by(OWN, config, files)

    async def complete_by(self, program: Program, config: ModelConfig, files: ModelFiles) -> ModelConfig:
        """The same of any program."""
        args = {"model_config": json.dumps(config.document), "model_name": config.name}
        hello = self._hello(config, files, "auto_complete", args, program)
        labels = {"model": config.name, "version": files.version, "instance": ""}
        limit = options.memory_limit(config, self.options.memory_limit)
        who = f"model '{config.name}' version {files.version}"
        async with Waiting(who, self.context.load_timeout_s, labels) as waiting:
            environment = await self._environment(program, config, files, waiting)
            try:
                spawner = Spawner(self.zygotes, environment, limit)
                completed = await ask_model(spawner, config.name, hello, labels, waiting)
            finally:
                if environment is not None:
                    await self.environments.release(environment)
        return merge_completed(config, completed)

    async def load(self, config: ModelConfig, files: ModelFiles) -> Model:
        """Check that the file is there; the workers import it."""
        path = files.version_dir / (config.default_model_filename or self.default_model_filename)
        if not await self.context.run_blocking(path.is_file):
            msg = f"Python model file not found in '{path}'"
            raise LoadFailed(msg)
        return await self.load_by(OWN, config, files)

    async def load_program(self, config: ModelConfig, files: ModelFiles, program: Path) -> Model:
        """The port ``BackendContext.load_program``: a model whose code is another backend's."""
        return await self.load_by(Program(str(program)), config, files)

    def serve_programs(self, folder: Path) -> Backend:
        """The backend whose programs lie in a folder of the backend directory."""
        return ProgramBackend(self.context, self, folder)

    async def load_by(self, program: Program, config: ModelConfig, files: ModelFiles) -> Model:
        """A model that is executed by a program. Raises LoadFailed or InvalidArgument."""
        options.check_parameters(config)
        limit = options.memory_limit(config, self.options.memory_limit)
        labels = {"model": config.name, "version": files.version, "instance": ""}
        if config.batch_inputs or config.batch_outputs:
            # As with Triton, whose Python models get each request as it is and so have nothing to divide.
            logger.warning(
                "model '%s': batch_input and batch_output have no effect on a Python model, whose execute gets every "
                "request with its own tensors and answers each",
                config.name,
                extra={"model": config.name, "version": files.version},
            )
        if execution_mode(config) == THREAD:
            return PythonModel(self, config, files, program, self.threads)
        who = f"model '{config.name}' version {files.version}"
        async with Waiting(who, self.context.load_timeout_s, labels) as waiting:
            environment = await self._environment(program, config, files, waiting)
        spawner = Spawner(self.zygotes, environment, limit)
        return PythonModel(self, config, files, program, spawner, environment)

    async def _environment(
        self, program: Program, config: ModelConfig, files: ModelFiles, waiting: Waiting
    ) -> Environment | None:
        """The execution environment of a model, None for the server's own. Raises LoadFailed or InvalidArgument."""
        path = reference.environment_path(config, files)
        if path is None and program.bare:
            path = await self.context.run_blocking(reference.packed_beside, Path(program.path))
        if path is None:
            return None
        await self.context.run_blocking(reference.check_there, path, config.name)
        labels = {"model": config.name, "version": files.version, "instance": ""}
        return await self.environments.acquire(path, waiting, labels)

    def worker_setup(
        self, config: ModelConfig, files: ModelFiles, spec: InstanceSpec, program: Program = OWN
    ) -> WorkerSetup:
        """What the worker of one instance is told. Raises InvalidArgument for a name that it cannot have."""
        options.check_instance_name(spec.name)
        args = {
            "model_config": json.dumps(config.document),
            "model_instance_kind": spec.kind.value.removeprefix("KIND_"),
            "model_instance_name": spec.name,
            "model_instance_device_id": str(spec.device_id),
            "model_repository": str(files.model_dir.absolute()),
            "model_version": str(files.version),
            "model_name": config.name,
        }
        return WorkerSetup(
            name=spec.name,
            hello=self._hello(config, files, "serve", args, program),
            labels={"model": config.name, "version": files.version, "instance": spec.name},
            decoupled=config.decoupled,
            finalize_timeout=self.options.finalize_timeout,
            load_timeout=self.context.load_timeout_s,
            coroutine_depth=self.options.coroutine_depth,
            restart=self.restart_policy,
        )

    def _hello(
        self, config: ModelConfig, files: ModelFiles, mode: str, args: dict[str, str], program: Program
    ) -> dict[str, Any]:
        path = files.version_dir.absolute() / (config.default_model_filename or self.default_model_filename)
        return {
            "protocol": frames.PROTOCOL,
            "mode": mode,
            "model_path": str(path),
            "model_dir": str(files.model_dir.absolute()),
            "program": program.path,
            "bare": program.bare,
            "args": args,
            "decoupled": config.decoupled,
            "outputs": [spec.name for spec in config.outputs],
        }


class PythonModel(Model):
    """One version of a Python model: which program executes it, in which environment, within how much memory."""

    def __init__(  # noqa: PLR0913, PLR0917  a record of what the backend found out
        self,
        backend: PythonBackend,
        config: ModelConfig,
        files: ModelFiles,
        program: Program,
        spawner: Spawner | Threads,
        environment: Environment | None = None,
    ) -> None:
        self.config = config
        self._backend = backend
        self._files = files
        self._program = program
        self._spawner = spawner
        self._environment = environment

    def create_instance(self, spec: InstanceSpec) -> PythonInstance:
        """An instance; its worker is spawned by its ``load``."""
        setup = self._backend.worker_setup(self.config, self._files, spec, self._program)
        return PythonInstance(self._backend.context, self._spawner, setup)

    async def close(self) -> None:
        """Let go of the environment."""
        environment, self._environment = self._environment, None
        if environment is not None:
            await self._backend.environments.release(environment)
