"""An engine in explicit mode over a backend that does what a test tells it, and remembers what it was asked."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from infer.backends import catalog
from infer.backends.api.backend import Backend, Model, ThreadInstance
from infer.backends.api.errors import InferError, LoadFailed
from infer.backends.api.request import InferenceRequest
from infer.backends.api.response import InferenceResponse
from infer.backends.api.tensor import Tensor
from infer.server.engine import Engine, EngineSettings
from infer.server.lifecycle.loader import LoaderSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from infer.backends.api.backend import BackendContext, Batch, InstanceSpec, ModelFiles
    from infer.backends.api.model_config import ModelConfig
    from infer.server.lifecycle.overrides import LoadOverrides

LIMIT_S = 20

CONFIG = """
backend: "BACKEND"
input [{ name: "INPUT0" data_type: TYPE_FP32 dims: [-1] }]
output [{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [-1] }]
"""


class Script:
    """What the scripted backend does, and what it was asked."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.start: Exception | None = None
        self.stop: Exception | None = None
        self.load: dict[int, Exception] = {}
        """What opening a version raises."""
        self.fail_first = 0
        """Opening a version raises this many times, then no more."""
        self.folders: dict[int, Path] = {}
        """Where the versions that were opened last lie."""
        self.instance: dict[str, Exception] = {}
        """What an instance of that name raises when it loads."""
        self.loading = asyncio.Event()
        self.may_load = asyncio.Event()
        self.may_load.set()
        self.hold: set[int] = set()
        """The versions that wait for ``may_load``; every one where it is empty."""
        self.instance_up = asyncio.Event()
        self.executing = threading.Event()
        self.may_answer = threading.Event()
        self.may_answer.set()

    async def until_executing(self) -> None:
        """Wait until an instance's thread has a request in its hands."""
        assert await asyncio.get_running_loop().run_in_executor(None, self.executing.wait, LIMIT_S)


class ScriptedBackend(Backend):
    name = "scripted"
    script: Script

    async def start(self) -> None:
        self.script.events.append("start")
        if self.script.start is not None:
            raise self.script.start

    async def stop(self) -> None:
        self.script.events.append("stop")
        if self.script.stop is not None:
            raise self.script.stop

    async def load(self, config: ModelConfig, files: ModelFiles) -> Model:
        self.script.loading.set()
        if not self.script.hold or files.version in self.script.hold:
            await self.script.may_load.wait()
        if files.version in self.script.load:
            raise self.script.load[files.version]
        if self.script.fail_first:
            self.script.fail_first -= 1
            raise LoadFailed("not this time")
        self.script.folders[files.version] = files.version_dir
        self.script.events.append(f"open {files.version}")
        return ScriptedModel(self.script, config, files.version)


class ScriptedModel(Model):
    def __init__(self, script: Script, config: ModelConfig, version: int) -> None:
        self.script = script
        self.config = config
        self.version = version

    def create_instance(self, spec: InstanceSpec) -> ThreadInstance:
        return ScriptedInstance(self.script, spec.name, asyncio.get_running_loop())

    async def close(self) -> None:
        self.script.events.append(f"close {self.version}")


class ScriptedInstance(ThreadInstance):
    def __init__(self, script: Script, name: str, loop: asyncio.AbstractEventLoop) -> None:
        self.script = script
        self.name = name
        self.loop = loop

    def load(self) -> None:
        if self.name in self.script.instance:
            raise self.script.instance[self.name]
        self.script.events.append(f"instance {self.name}")
        self.loop.call_soon_threadsafe(self.script.instance_up.set)

    def execute(self, batch: Batch) -> None:
        self.script.executing.set()
        assert self.script.may_answer.wait(LIMIT_S)
        for execution in batch.executions:
            execution.send(InferenceResponse(outputs={"OUTPUT0": execution.request.inputs["INPUT0"]}))

    def close(self) -> None:
        self.script.events.append(f"end {self.name}")


class Rig:
    """An engine in explicit mode over a repository of the test's models."""

    def __init__(self, folder: Path, script: Script) -> None:
        self.folder = folder
        self.script = script
        self.engine = self.make()
        self.clock = 0

    def make(self, **loader: Any) -> Engine:
        return self.make_over(self.folder, **loader)

    def make_over(self, *repositories: Path, **loader: Any) -> Engine:
        settings = EngineSettings(loader=LoaderSettings(repositories, **loader), control_mode="explicit")
        self.engine = Engine(settings, asyncio.get_running_loop())
        return self.engine

    def add(self, name: str, more: str = "", *, backend: str = "scripted", versions: tuple[int, ...] = (1,)) -> None:
        for version in versions:
            (self.folder / name / str(version)).mkdir(parents=True, exist_ok=True)
        (self.folder / name / "config.pbtxt").write_text(CONFIG.replace("BACKEND", backend) + more)

    def touch(self, path: str) -> None:
        """Make a file or folder of the repository newer than anything in it was."""
        self.clock += 1
        seconds = 2_000_000_000 + self.clock
        os.utime(self.folder / path, (seconds, seconds))

    async def refusal(self, name: str, overrides: LoadOverrides | None = None) -> InferError:
        """What a load is refused with."""
        with pytest.raises(InferError) as caught:
            await self.engine.load(name, overrides)
        return caught.value

    def opened(self) -> list[int]:
        """The versions that were opened since the last look."""
        found = sorted(int(event.split()[1]) for event in self.script.events if event.startswith("open"))
        self.script.events.clear()
        return found

    def config_text(self, **changes: object) -> str:
        """A configuration in JSON, as a load is given it."""
        fields: dict[str, object] = {
            "backend": "scripted",
            "input": [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [-1]}],
            "output": [{"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [-1]}],
        }
        return json.dumps(fields | changes)

    def reasons(self) -> dict[str, str]:
        """State and reason by version, as the index has them."""
        return {entry.version: f"{entry.state} {entry.reason}".strip() for entry in self.engine.index()}

    def send(self, name: str) -> asyncio.Future[InferenceResponse]:
        answer: asyncio.Future[InferenceResponse] = asyncio.get_running_loop().create_future()
        request = InferenceRequest(name, {"INPUT0": Tensor.from_numpy(np.ones(2, np.float32))})
        self.engine.infer(request, answer.set_result)
        return answer

    async def stop(self) -> None:
        self.script.may_load.set()
        await asyncio.wait_for(self.engine.stop(), LIMIT_S)


@pytest.fixture
def private_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the folders are made of models whose files come with their load."""
    folder = tmp_path_factory.mktemp("private")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
async def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Rig]:
    script = Script()
    create = catalog.create

    def create_scripted(name: str, context: BackendContext) -> Backend:
        if name != ScriptedBackend.name:
            return create(name, context)
        backend = ScriptedBackend(context)
        backend.script = script
        return backend

    monkeypatch.setattr(catalog, "create", create_scripted)
    rig = Rig(tmp_path, script)
    yield rig
    script.may_answer.set()
    await rig.stop()
