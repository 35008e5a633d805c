"""The contract between the server and a framework: Backend → Model → Instance.

A *backend* knows a framework, a *model* one loaded version, an *instance* executes. There are two kinds of instance,
told apart by who runs them:

- :class:`ThreadInstance`: its runtime releases the GIL, so it gets a thread of its own (the scheduling room starts
  and joins it) and blocks there as long as it likes;
- :class:`LoopInstance`: the work happens elsewhere (a worker process), so it lives on the serving loop and must not
  block it.

The server hands an instance a :class:`Batch`, and a second one before the first is done only where the instance says so
(``depth``). Every execution of the batch gets exactly one final response; what an instance leaves open or raises
becomes a failure, never silence.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from .control import NoModelControl
from .custom_metrics import NoCustomMetrics
from .errors import LoadFailed
from .tensor import HOST, Device

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from .call import ModelCaller, OpenCall
    from .control import ModelControl
    from .custom_metrics import CustomMetrics
    from .model_config import InstanceKind, ModelConfig
    from .request import InferenceRequest
    from .response import InferenceResponse


T = TypeVar("T")


class RunBlocking(Protocol):
    """Run a blocking call (file I/O, a runtime that releases the GIL) on the loader's pool."""

    def __call__(self, function: Callable[..., T], /, *args: Any) -> Awaitable[T]:  # noqa: ANN401, D102  whatever the function takes
        ...


class LoadProgram(Protocol):
    """Have a program of a backend's own execute a model, in worker processes of the Python backend.

    ``program`` is a file that defines ``TritonPythonModel``. It runs in the model's own interpreter, one process an
    instance: what holds the GIL holds nobody else there. Its folder is its package, so it imports its neighbours
    relatively, and of the server ``triton_python_backend_utils`` only; ``get_model_dir()`` is the version's folder.
    """

    def __call__(self, config: ModelConfig, files: ModelFiles, program: Path) -> Awaitable[Model]:  # noqa: D102  the class says it
        ...


async def no_programs(config: ModelConfig, files: ModelFiles, program: Path) -> Model:  # noqa: ARG001  the port's signature
    """The port where there is no Python backend behind it. Raises LoadFailed."""
    msg = f"model '{config.name}' runs in a worker process, and there is no Python backend here to start one"
    raise LoadFailed(msg)


@dataclass(frozen=True, slots=True)
class BackendContext:
    """What the composition root gives a backend when it is first used.

    ``options`` are the ``--backend-config`` settings for it, the global ones merged in. ``worker_command`` is the
    command line that becomes a worker zygote (a descriptor number is appended). ``load_program`` lets a backend serve
    a model by a Python program of its own. ``load_timeout_s`` bounds each step of a load in a worker, 0 for no limit.
    ``control`` loads and unloads models for a model, ``metrics`` count for it.
    """

    loop: asyncio.AbstractEventLoop
    run_blocking: RunBlocking
    caller: ModelCaller
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    worker_command: tuple[str, ...] = ()
    load_program: LoadProgram = no_programs
    load_timeout_s: float = 0.0
    control: ModelControl = field(default_factory=NoModelControl)
    metrics: CustomMetrics = field(default_factory=NoCustomMetrics)


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """Where one version of a model lies: ``model_dir/<version>/``."""

    model_dir: Path
    version: int

    @property
    def version_dir(self) -> Path:
        """The folder of this version."""
        return self.model_dir / str(self.version)


@dataclass(frozen=True, slots=True)
class InstanceSpec:
    """One instance to create. ``name`` is ``<group>_<index>``; ``kind`` is never AUTO."""

    name: str
    kind: InstanceKind
    device_id: int = 0


class InstanceState(enum.Enum):
    """What an instance says of itself after it has loaded."""

    READY = "READY"
    RESTARTING = "RESTARTING"
    FAILED = "FAILED"


class Execution(Protocol):
    """One request inside a batch, seen by the instance that executes it."""

    request: InferenceRequest

    @property
    def cancelled(self) -> bool:
        """Whether the client has gone away or asked to stop. Any thread."""
        ...

    @property
    def paused(self) -> bool:
        """Whether who takes the responses has no room for more at the moment. Any thread.

        What is sent all the same is kept, so a :class:`LoopInstance` holds back what is not final as soon as it can,
        and goes on when it is told to :meth:`~LoopInstance.resume`. Never so once the request was cancelled or is
        answered: then nobody needs room, as responses are dropped.
        """
        ...

    def send(self, response: InferenceResponse) -> None:
        """Deliver one response; ``response.final`` ends the request. A response after the final one is dropped.

        A :class:`ThreadInstance` calls it from any thread but the loop's, where it waits while there is no room for
        the responses of a decoupled model; a :class:`LoopInstance` from the serving loop, where nothing waits.
        """
        ...

    def reschedule(self, mark: int) -> None:
        """Give the request back before the batch is done: it comes once more in a later batch of this instance.

        For models with ``iterative_sequence``; to others it is a failure. ``mark`` is the backend's own, and is what
        ``request.earlier`` says the next time.
        """
        ...


@dataclass(slots=True, eq=False)
class Batch:
    """Requests that execute together, and the phase time stamps (monotonic ns) that the instance fills in.

    They are set before the final responses are sent. Where ``compute_input_end`` is 0 the inputs cost nothing, where
    ``compute_output_start`` or ``compute_end`` is 0 it is the moment of the final response. ``compute_end`` 0 when
    the batch is done says that nothing was executed. ``rows`` is the sum of the batch sizes.
    """

    executions: Sequence[Execution]
    rows: int
    compute_start: int = 0
    compute_input_end: int = 0
    compute_output_start: int = 0
    compute_end: int = 0


class ThreadInstance(ABC):
    """An instance with a thread of its own. All methods but the constructor run on that thread."""

    input_device: Device = HOST
    """Where the instance wants its inputs."""

    @abstractmethod
    def load(self) -> None:
        """Bring up the runtime. Raise to fail the load; the exception's text is the reason shown."""

    @abstractmethod
    def execute(self, batch: Batch) -> None:
        """Execute the batch and send the responses.

        When this returns, a request of a model that is not decoupled must have its response. Raising fails every
        request of the batch that has no final response yet.
        """

    def close(self) -> None:  # noqa: B027  nothing to let go of is common
        """Let go of the runtime. Called once, also after a failed load."""


class LoopInstance(ABC):
    """An instance whose work happens in another process. All methods run on the serving loop."""

    input_device: Device = HOST
    depth: int = 1
    """Batches that may be handed over before the first is done."""
    overlaps: bool = False
    """Whether those execute at the same time and end in any order; else one after the other. Known once loaded."""

    @property
    def pid(self) -> int:
        """The process that executes, 0 where there is none of its own at the moment. Any thread."""
        return 0

    @property
    def is_probed(self) -> bool:
        """Whether the model itself has a say in whether it is ready, so that :meth:`check_ready` asks it."""
        return False

    async def check_ready(self) -> bool:
        """Ask the model whether it is ready, of an instance that can take requests. Comes back within seconds."""
        return True

    @abstractmethod
    async def load(self) -> None:
        """Bring the worker up. Raise to fail the load; the exception's text is the reason shown."""

    @abstractmethod
    def execute(self, batch: Batch, done: Callable[[], None]) -> None:
        """Start executing the batch; call ``done`` (on the loop, once) when the next one may come.

        For a model that is not decoupled, every execution has its final response before ``done`` is called.
        """

    @abstractmethod
    def cancel(self, execution: Execution) -> None:
        """Tell the worker that nobody waits for this execution any more; its final response still comes."""

    def resume(self, execution: Execution) -> None:  # noqa: B027  what sends one response has nothing to hold back
        """An execution is not ``paused`` any more: there is room for responses, or nobody wants them."""

    def calls(self) -> Iterable[OpenCall]:
        """The calls to other models that its executions have under way."""
        return ()

    def interrupt(self, reason: str) -> None:  # noqa: B027  not every instance can be interrupted
        """The running execution took too long and its requests were failed: end it if that can be done.

        A worker process is killed and started again; an instance that cannot be interrupted does nothing, and is
        used again once it calls ``done``.
        """

    @abstractmethod
    async def close(self) -> None:
        """Finalise the model and end the worker, by force where it does not come back in time."""

    def observe_state(self, observer: Callable[[InstanceState, str], None]) -> None:  # noqa: B027  threads do not die
        """Have ``observer(state, reason)`` called on the loop when the worker dies, is back, or is given up."""


Instance = ThreadInstance | LoopInstance


class Model(ABC):
    """One loaded version of a model: what its instances share."""

    config: ModelConfig

    @abstractmethod
    def create_instance(self, spec: InstanceSpec) -> Instance:
        """Make an instance, cheaply: bringing the runtime up is the instance's own ``load``."""

    async def close(self) -> None:
        """Let go of what the instances shared; they are closed before. Serving loop."""
        return


class Backend(ABC):
    """A framework. One object a server, made on first use; methods run on the serving loop."""

    name: ClassVar[str]
    default_model_filename: ClassVar[str] = ""
    """The file that a version folder must hold, where the configuration does not say."""
    default_instance_count: ClassVar[int] = 1
    """Instances of a KIND_CPU group that gives no count."""

    def __init__(self, context: BackendContext) -> None:
        self.context = context

    @property
    def supports_gpu(self) -> bool:
        """Whether KIND_AUTO may mean a GPU; where not, its instances are on the CPU also on a machine with GPUs."""
        return True

    async def start(self) -> None:
        """Start what all models of this backend share."""
        return

    async def stop(self) -> None:
        """Stop it again; every model is closed before."""
        return

    async def auto_complete(self, config: ModelConfig, files: ModelFiles) -> ModelConfig:  # noqa: ARG002  for backends that override it
        """The configuration with what the model itself knows filled in; the given one where there is nothing to add.

        Raises InferError (LoadFailed, InvalidArgument) where configuration and model contradict each other.
        """
        return config

    @abstractmethod
    async def load(self, config: ModelConfig, files: ModelFiles) -> Model:
        """Open one version. Raises InferError, most often LoadFailed, with a reason a user can act on."""
