"""A Python backend with real worker processes, driven as the scheduler drives it."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import gc
import sys
import textwrap
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pytest

from infer.backends.api.backend import BackendContext, Batch, InstanceSpec, InstanceState, ModelFiles
from infer.backends.api.errors import InferError, NotFound
from infer.backends.api.model_config import InstanceKind, ModelConfig
from infer.backends.api.request import InferenceRequest
from infer.backends.api.tensor import Tensor
from infer.backends.python.backend import PythonBackend
from infer.backends.python.instance import PythonInstance
from infer.backends.python.process import Zygote
from infer.backends.python.restart import RestartPolicy
from infer.backends.python.worker import space
from infer.server.observe.custom_metrics import CustomMetricRegistry
from infer.tests.contract.backends.nursery import Nursery

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from infer.backends.api.response import InferenceResponse

ZYGOTE = (
    sys.executable,
    "-c",
    "import sys; from infer.backends.python.worker.zygote import main; main(int(sys.argv[1]))",
)
LIMIT_S = 20


class Execution:
    """One request as an instance sees it; keeps what it is answered."""

    def __init__(self, request: InferenceRequest) -> None:
        self.request = request
        self.cancelled = False
        self.paused = False
        self.responses: list[InferenceResponse] = []
        self.mark: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.final = asyncio.Event()
        self.arrived = asyncio.Condition()
        self.changed = asyncio.Event()

    def send(self, response: InferenceResponse) -> None:
        """Take a response."""
        assert not self.final.is_set(), "a response after the final one"
        self.responses.append(response)
        self.changed.set()
        if response.final:
            self.final.set()

    def reschedule(self, mark: int) -> None:
        """The model wants the request again."""
        assert not self.final.is_set(), "a request comes again that has its final response"
        self.mark.set_result(mark)

    async def until(self, count: int) -> None:
        """Wait for so many responses."""
        while len(self.responses) < count:
            self.changed.clear()
            await asyncio.wait_for(self.changed.wait(), LIMIT_S)

    async def end(self) -> list[InferenceResponse]:
        """All responses, once the final one is there."""
        await asyncio.wait_for(self.final.wait(), LIMIT_S)
        return self.responses


class Caller:
    """A ModelCaller over functions: ``models[name](request, respond)`` answers a call."""

    def __init__(self) -> None:
        self.models: dict[str, Callable[[InferenceRequest, Callable[[InferenceResponse], None]], None]] = {}
        self.requests: list[InferenceRequest] = []
        self.single: list[bool] = []
        self.cancelled: list[str] = []
        self.paused: list[str] = []

    def call(
        self, request: InferenceRequest, on_response: Callable[[InferenceResponse], None], *, single: bool = False
    ) -> Caller.Handle:
        """Answer the call."""
        self.requests.append(request)
        self.single.append(single)
        if request.model_name not in self.models:
            msg = f"Request for unknown model: '{request.model_name}' is not found"
            raise NotFound(msg)
        self.models[request.model_name](request, on_response)
        return Caller.Handle(self, request.model_name)

    class Handle:
        """A call under way."""

        def __init__(self, caller: Caller, name: str) -> None:
            self._caller = caller
            self._name = name

        def cancel(self) -> None:
            """Note it."""
            self._caller.cancelled.append(self._name)

        def pause(self) -> None:
            """Note it."""
            self._caller.paused.append(self._name)

        def resume(self) -> None:
            """Note that the pause is over."""
            if self._name in self._caller.paused:
                self._caller.paused.remove(self._name)


class Rig:
    """The backend, a repository to write models into, and what is loaded from it."""

    def __init__(self, folder: Path, options: dict[str, str] | None = None, mode: str = "process") -> None:
        self.mode = mode
        self.loop = asyncio.get_running_loop()
        self.folder = folder
        self.caller = Caller()
        self.metrics = CustomMetricRegistry()
        context = BackendContext(
            self.loop, self._run_blocking, self.caller, options or {}, ZYGOTE, metrics=self.metrics
        )
        self.backend = PythonBackend(context)
        self.backend.restart_policy = RestartPolicy(first=0.01, attempts=5)
        self.instances: list[PythonInstance] = []
        self.states: list[tuple[InstanceState, str]] = []
        self.state_changed = asyncio.Event()

    def _run_blocking(self, function: Callable[..., Any], /, *args: Any) -> Any:
        return self.loop.run_in_executor(None, function, *args)

    def config(
        self, name: str, inputs: Sequence[str] = ("IN",), outputs: Sequence[str] = ("OUT",), **more: Any
    ) -> ModelConfig:
        """A configuration of INT32 tensors of any size."""
        document: dict[str, Any] = {
            "name": name,
            "backend": "python",
            "input": [{"name": each, "data_type": "TYPE_INT32", "dims": [-1]} for each in inputs],
            "output": [{"name": each, "data_type": "TYPE_INT32", "dims": [-1]} for each in outputs],
            **more,
        }
        if self.mode != "process":
            document["parameters"] = {"EXECUTION_MODE": {"string_value": self.mode}, **more.get("parameters", {})}
        document.setdefault("parameters", {})
        return ModelConfig.from_document(document)

    def write(self, name: str, source: str, filename: str = "model.py") -> ModelFiles:
        """Write a model's file."""
        files = ModelFiles(self.folder / name, 1)
        files.version_dir.mkdir(parents=True, exist_ok=True)
        (files.version_dir / filename).write_text(HEADER + textwrap.dedent(source))
        return files

    async def load(self, name: str, source: str, *, count: int = 1, **more: Any) -> PythonInstance:
        """Write a model and bring up an instance of it (the last one of ``count``)."""
        files = self.write(name, source)
        model = await self.backend.load(self.config(name, **more), files)
        for index in range(count):
            instance = model.create_instance(InstanceSpec(f"{name}_0_{index}", InstanceKind.CPU))
            assert isinstance(instance, PythonInstance)
            self.instances.append(instance)
            instance.observe_state(self._observe)
            await asyncio.wait_for(instance.load(), LIMIT_S)
        return self.instances[-1]

    def _observe(self, state: InstanceState, reason: str) -> None:
        self.states.append((state, reason))
        self.state_changed.set()

    async def until_state(self, state: InstanceState) -> str:
        """Wait until an instance says that it is in this state; the reason it gives."""
        while not any(seen is state for seen, _ in self.states):
            self.state_changed.clear()
            await asyncio.wait_for(self.state_changed.wait(), LIMIT_S)
        return next(reason for seen, reason in reversed(self.states) if seen is state)

    def execute(
        self, instance: PythonInstance, *requests: InferenceRequest
    ) -> tuple[list[Execution], asyncio.Future[Batch]]:
        """Start a batch; its executions, and a future that is done when the next batch may come."""
        executions = [Execution(request) for request in requests]
        batch = Batch(executions, len(executions))
        done: asyncio.Future[Batch] = self.loop.create_future()
        instance.execute(batch, lambda: done.set_result(batch))
        return executions, done

    async def infer(self, instance: PythonInstance, **inputs: np.ndarray[Any, Any]) -> InferenceResponse:
        """One request of numpy inputs; its only response, errors raised."""
        executions, done = self.execute(instance, self.request(**inputs))
        await asyncio.wait_for(done, LIMIT_S)
        (response,) = await executions[0].end()
        if response.error is not None:
            raise response.error
        return response

    def request(self, **inputs: np.ndarray[Any, Any]) -> InferenceRequest:
        """A request of numpy inputs."""
        return InferenceRequest("m", {name: Tensor.from_numpy(array) for name, array in inputs.items()})

    async def error(self, instance: PythonInstance, **inputs: np.ndarray[Any, Any]) -> InferError:
        """The error that one request is answered with."""
        with pytest.raises(InferError) as raised:
            await self.infer(instance, **inputs)
        return raised.value

    async def come_and_go(self, model: Any, rounds: int, at_once: int = 1) -> None:
        """Load an instance, ask it and close it: ``rounds`` times, some at once. The model adds one to its input."""

        async def one(number: int) -> None:
            instance = model.create_instance(InstanceSpec(f"add_0_{number}", InstanceKind.CPU))
            await instance.load()
            response = await self.infer(instance, IN=np.array([number], np.int32))
            assert response.outputs["OUT"].as_numpy().tolist() == [number + 1]
            await instance.close()

        for start in range(0, rounds, at_once):
            await asyncio.gather(*(one(start + number) for number in range(at_once)))

    async def close(self) -> None:
        """Close everything; no worker may be left."""
        for instance in self.instances:
            await asyncio.wait_for(instance.close(), LIMIT_S)
        await asyncio.wait_for(self.backend.stop(), LIMIT_S)
        self.caller.requests.clear()
        gc.collect()


HEADER = """\
import os, sys, time, threading, json
import numpy as np
import triton_python_backend_utils as pb_utils
T, Response, by_name = pb_utils.Tensor, pb_utils.InferenceResponse, pb_utils.get_input_tensor_by_name

"""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """What a module that says IN_BOTH_MODES tests holds in a process and in a thread, but for what is marked."""
    if not getattr(metafunc.module, "IN_BOTH_MODES", False) or "mode" not in metafunc.fixturenames:
        return
    if metafunc.definition.get_closest_marker("own_process") is None:
        metafunc.parametrize("mode", ["process", "thread"])


@pytest.fixture
def mode() -> str:
    """Where the models of the rig run: their EXECUTION_MODE."""
    return "process"


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """Where the zygotes of all rigs come from."""
    nursery = Nursery()
    yield nursery
    nursery.close()


@pytest.fixture
def forked_zygotes(nursery: Nursery, monkeypatch: pytest.MonkeyPatch) -> None:
    """Zygotes of the rigs are forked; with another command or for another interpreter they are started as ever."""
    execute = Zygote._execute

    def started(self: Zygote, descriptor: int) -> Any:
        if self._environment is None and self._context.worker_command == ZYGOTE:
            return nursery.fork(descriptor)
        return execute(self, descriptor)

    monkeypatch.setattr(Zygote, "_execute", started)


def descriptors() -> collections.Counter[str]:
    """What this process has open, and how often; sockets and pipes have a number of their own each."""
    found: collections.Counter[str] = collections.Counter()
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found[str(link.readlink())] += 1
    return found


@pytest.fixture
async def rig(tmp_path: Path, mode: str, forked_zygotes: None) -> AsyncIterator[Rig]:
    """A Python backend without options. Afterwards no process, thread, descriptor and private module of it is left."""
    before = descriptors()
    children = psutil.Process().children(recursive=True)
    others, known = set(threading.enumerate()), set(sys.modules)
    rig = Rig(tmp_path, mode=mode)
    yield rig
    await rig.close()
    assert psutil.Process().children(recursive=True) == children
    # Some other thread may have a file open for a moment, now or when they were counted.
    for _ in range(LIMIT_S * 100):
        if not descriptors() - before:
            break
        await asyncio.sleep(0.01)
    assert descriptors() - before == collections.Counter()
    left = set(threading.enumerate()) - others
    assert [thread.name for thread in left if thread.name.startswith("instance-")] == []
    assert [name for name in set(sys.modules) - known if name.startswith((space.MODEL, space.WORKER))] == []


@pytest.fixture
def rig_with_options(tmp_path: Path, mode: str, forked_zygotes: None) -> Callable[[dict[str, str]], Rig]:
    """Makes a Python backend with options; whoever asks for it closes it."""
    return lambda options: Rig(tmp_path, options, mode)
