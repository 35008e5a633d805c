"""Drives a backend as the server does, without the server: load, instances, batches."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pytest

from infer.backends.api.backend import Backend, BackendContext, Batch, InstanceSpec, ModelFiles, ThreadInstance
from infer.backends.api.request import InferenceRequest
from infer.backends.api.tensor import Tensor
from infer.server.repository import autofill, config_reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from infer.backends.api.model_config import ModelConfig
    from infer.backends.api.response import InferenceResponse


@dataclass
class Execution:
    """A request inside a batch that keeps the responses sent to it."""

    request: InferenceRequest
    cancelled: bool = False
    paused: bool = False
    responses: list[InferenceResponse] = field(default_factory=list)

    def send(self, response: InferenceResponse) -> None:
        self.responses.append(response)

    @property
    def only(self) -> InferenceResponse:
        (response,) = self.responses
        assert response.final
        return response


class Driver:
    """One backend object and the models and instances it has made."""

    def __init__(self, backend: type[Backend], model_dir: Path, options: dict[str, str]) -> None:
        self._loop = asyncio.new_event_loop()
        caller: Any = None
        context = BackendContext(self._loop, cast("Any", _run_here), caller, options)
        self.backend = backend(context)
        self.files = ModelFiles(model_dir, 1)
        self.models: list[Any] = []
        self.batch = Batch([], 0)

    def config(self, **fields: object) -> ModelConfig:
        document = {"name": "m", "backend": self.backend.name, **fields}
        return autofill.complete(config_reader.from_document(document, source="m"))

    def completed(self, **fields: object) -> ModelConfig:
        given = self._loop.run_until_complete(self.backend.auto_complete(self.config(**fields), self.files))
        return autofill.complete(given)

    def instance(self, config: ModelConfig, spec: InstanceSpec | None = None) -> ThreadInstance:
        model = self._loop.run_until_complete(self.backend.load(config, self.files))
        self.models.append(model)
        made = model.create_instance(spec or InstanceSpec("m_0", config.instance_groups[0].kind))
        assert isinstance(made, ThreadInstance)
        made.load()
        return made

    def execute(self, instance: ThreadInstance, *requests: InferenceRequest) -> list[InferenceResponse]:
        executions = [Execution(request) for request in requests]
        batch = self.batch = Batch(executions, sum(request.batch_size for request in requests))
        instance.execute(batch)
        return [execution.only for execution in executions]

    def request(
        self, inputs: dict[str, NDArray[Any]], *, rows: int | None = None, outputs: tuple[str, ...] = ()
    ) -> InferenceRequest:
        tensors = {name: Tensor.from_numpy(array) for name, array in inputs.items()}
        return InferenceRequest("m", tensors, requested_outputs=outputs, batch_size=rows or 1)

    def close(self) -> None:
        for model in self.models:
            self._loop.run_until_complete(model.close())
        self._loop.close()


async def _run_here(function: Callable[..., Any], *args: Any) -> Any:
    return function(*args)


@pytest.fixture
def drive(tmp_path: Path) -> Iterator[Callable[..., Driver]]:
    """``drive(BackendClass, **backend_options)`` makes a driver whose model folder is ``tmp_path``."""
    drivers: list[Driver] = []

    def make(backend: type[Backend], **options: str) -> Driver:
        drivers.append(Driver(backend, tmp_path, options))
        return drivers[-1]

    (tmp_path / "1").mkdir()
    yield make
    for driver in drivers:
        driver.close()
