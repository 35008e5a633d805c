"""The Python backend: models written as a class ``TritonPythonModel`` in ``model.py``, each instance a process."""

from __future__ import annotations

import copy
import json
import logging
from typing import TYPE_CHECKING, Any, ClassVar

from ..api.backend import Backend, BackendContext, InstanceSpec, Model, ModelFiles
from ..api.errors import Internal, InvalidArgument, LoadFailed
from ..api.model_config import ModelConfig
from .instance import PythonInstance, WorkerSetup
from .process import Zygote
from .restart import RestartPolicy
from .threads import PROCESS, THREAD, Threads, execution_mode
from .worker import frames
from .worker.frames import Frame, Kind

if TYPE_CHECKING:
    import asyncio
    from pathlib import Path

    from .channel import Channel

logger = logging.getLogger(__name__)

_SCHEDULERS = ("dynamic_batching", "sequence_batching", "ensemble_scheduling")


class PythonBackend(Backend):
    """Workers forked from one zygote.

    Option: ``stub-timeout-seconds``, how long finalize may take (30).
    """

    name: ClassVar[str] = "python"
    default_model_filename: ClassVar[str] = "model.py"

    restart_policy: RestartPolicy = RestartPolicy()

    def __init__(self, context: BackendContext) -> None:
        super().__init__(context)
        self.zygote = Zygote(context)
        self.threads = Threads(context.loop)
        self.finalize_timeout = _seconds(context, "stub-timeout-seconds", 30.0)

    async def stop(self) -> None:
        """End the zygote and what is left of threads."""
        await self.threads.stop()
        await self.zygote.stop()

    async def auto_complete(self, config: ModelConfig, files: ModelFiles) -> ModelConfig:
        """Ask the model's ``auto_complete_config`` in a worker that is thrown away afterwards."""
        args = {"model_config": json.dumps(config.document), "model_name": config.name}
        hello = self._hello(config, files, "auto_complete", args)
        labels = {"model": config.name, "version": files.version, "instance": ""}
        worker = await self.zygote.spawn(f"{config.name}_autocomplete", labels)
        answer: asyncio.Future[dict[str, Any]] = self.context.loop.create_future()

        def take(frame: Frame, _: Channel) -> None:
            if frame.kind == Kind.STATE and not answer.done():
                answer.set_result(json.loads(frame.payload))

        def died(reason: str) -> None:
            if not answer.done():
                answer.set_exception(LoadFailed(reason))

        worker.on_frame, worker.on_death = take, died
        worker.channel.send(frames.pack_json(Kind.HELLO, 0, hello))
        try:
            state = await answer
        finally:
            worker.kill("its work is done")
            await worker.gone.wait()
        if state["state"] != "CONFIG":
            raise LoadFailed(state["reason"])
        return merge_completed(config, state["document"])

    async def load(self, config: ModelConfig, files: ModelFiles) -> Model:
        """Check that the file is there; the workers import it."""
        mode = execution_mode(config)
        path = files.version_dir / (config.default_model_filename or self.default_model_filename)
        if not await self.context.run_blocking(path.is_file):
            msg = f"Python model file not found in '{path}'"
            raise LoadFailed(msg)
        if config.batch_inputs or config.batch_outputs:
            # As with Triton, whose Python models get each request as it is and so have nothing to divide.
            logger.warning(
                "model '%s': batch_input and batch_output have no effect on a Python model, whose execute gets every "
                "request with its own tensors and answers each",
                config.name,
                extra={"model": config.name, "version": files.version},
            )
        return PythonModel(self, config, files, mode=mode)

    async def load_program(self, config: ModelConfig, files: ModelFiles, program: Path) -> Model:
        """The port ``BackendContext.load_program``: a model whose code is another backend's."""
        return PythonModel(self, config, files, str(program))

    def worker_setup(
        self, config: ModelConfig, files: ModelFiles, spec: InstanceSpec, program: str = ""
    ) -> WorkerSetup:
        """What the worker of one instance is told; ``program`` is run in place of the model's own file."""
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
            finalize_timeout=self.finalize_timeout,
            restart=self.restart_policy,
        )

    def _hello(
        self, config: ModelConfig, files: ModelFiles, mode: str, args: dict[str, str], program: str = ""
    ) -> dict[str, Any]:
        path = files.version_dir.absolute() / (config.default_model_filename or self.default_model_filename)
        return {
            "protocol": frames.PROTOCOL,
            "mode": mode,
            "model_path": str(path),
            "model_dir": str(files.model_dir.absolute()),
            "program": program,
            "args": args,
            "decoupled": config.decoupled,
            "outputs": [spec.name for spec in config.outputs],
        }


class PythonModel(Model):
    """One version of a Python model; ``program`` is the file that executes it, "" for its own."""

    def __init__(
        self, backend: PythonBackend, config: ModelConfig, files: ModelFiles, program: str = "", *, mode: str = PROCESS
    ) -> None:
        self.config = config
        self._backend = backend
        self._files = files
        self._program = program
        self._mode = mode

    def create_instance(self, spec: InstanceSpec) -> PythonInstance:
        """An instance; its worker is spawned by its ``load``."""
        setup = self._backend.worker_setup(self.config, self._files, spec, self._program)
        spawner = self._backend.threads if self._mode == THREAD else self._backend.zygote
        return PythonInstance(self._backend.context, spawner, setup)


def merge_completed(config: ModelConfig, completed: dict[str, Any]) -> ModelConfig:
    """The configuration with what counts of a model's answer: batch size, inputs, outputs, decoupled, scheduler.

    Raises Internal where the answer changes the kind of scheduler, InvalidArgument where it is not a configuration.
    """
    document = copy.deepcopy(config.document)
    for key in ("max_batch_size", "input", "output"):
        if key in completed:
            document[key] = completed[key]
    if "model_transaction_policy" in completed:
        document["model_transaction_policy"] = completed["model_transaction_policy"]
    had = next((key for key in _SCHEDULERS if key in document), "")
    has = next((key for key in _SCHEDULERS if key in completed), "")
    if had and has and had != has:
        msg = (
            f"auto_complete_config of model '{config.name}' sets {has}, but the configuration has {had}; "
            "a model cannot change the kind of its scheduler"
        )
        raise Internal(msg)
    if has and not had:
        document[has] = completed[has]
    try:
        return ModelConfig.from_document(document)
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        msg = (
            f"auto_complete_config of model '{config.name}' returned a configuration that cannot be read: {exc!r}; "
            "every input and output needs name, data_type (such as TYPE_FP32) and dims"
        )
        raise InvalidArgument(msg) from exc


def _seconds(context: BackendContext, option: str, default: float) -> float:
    text = context.options.get(option, "")
    if not text:
        return default
    try:
        value = float(text)
    except ValueError as exc:
        msg = f"--backend-config=python,{option}={text} is not a number of seconds"
        raise InvalidArgument(msg) from exc
    if value < 0:
        msg = f"--backend-config=python,{option}={text} is negative"
        raise InvalidArgument(msg)
    return value
