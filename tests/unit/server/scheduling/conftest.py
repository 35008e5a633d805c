"""Instances whose work ends when the test says so, and schedulers over them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from infer.backends.api.backend import Batch, InstanceState, LoopInstance
from infer.backends.api.errors import Code, InstanceDied
from infer.backends.api.model_config import ModelConfig
from infer.backends.api.request import InferenceRequest
from infer.backends.api.response import InferenceResponse
from infer.server.observe.logs import model_facts
from infer.server.observe.statistics import ModelStatistics
from infer.server.scheduling.factory import make_scheduler
from infer.server.scheduling.pool import PoolOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from infer.backends.api.tensor import Tensor
    from infer.server.scheduling.ticket import Ticket


class FakeInstance(LoopInstance):
    """An instance whose work ends when the test says so."""

    def __init__(self, depth: int = 1, *, overlaps: bool = False) -> None:
        self.depth = depth
        self.overlaps = overlaps
        self.open: list[Any] = []
        self.work: list[tuple[Batch, Callable[[], None]]] = []
        self.cancelled: list[object] = []
        self.interrupted: list[str] = []
        self.closed = False
        self.changed = asyncio.Event()
        self.observer: Callable[[InstanceState, str], None] = lambda state, reason: None

    async def load(self) -> None:
        return

    def execute(self, batch: Batch, done: Callable[[], None]) -> None:
        self.work.append((batch, done))
        self.changed.set()

    def calls(self) -> list[Any]:
        return self.open

    def cancel(self, execution: object) -> None:
        self.cancelled.append(execution)

    def interrupt(self, reason: str) -> None:
        self.interrupted.append(reason)

    async def close(self) -> None:
        self.closed = True

    def observe_state(self, observer: Callable[[InstanceState, str], None]) -> None:
        self.observer = observer

    def finish(self, index: int = 0, *, respond: bool = True, took_ns: int = 1) -> None:
        batch, done = self.work.pop(index)
        batch.compute_start, batch.compute_end = 1, 1 + took_ns
        if respond:
            for execution in batch.executions:
                execution.send(InferenceResponse())
        done()

    def die(self, reason: str) -> None:
        work, self.work = self.work, []
        for batch, _ in work:
            for execution in batch.executions:
                execution.send(InferenceResponse(error=InstanceDied(reason)))
        self.observer(InstanceState.RESTARTING, reason)
        for _, done in work:
            done()


class Bench:
    """A scheduler over some fake instances: the default one, or the batcher whose section is given."""

    def __init__(
        self,
        instances: int = 1,
        *,
        depth: int = 1,
        overlaps: bool = False,
        execute_timeout_s: float = 0.0,
        decoupled: bool = False,
        batching: dict[str, Any] | None = None,
        inputs: list[dict[str, Any]] | None = None,
        max_batch_size: int = 8,
        hold: int = 0,
        backlog_hold: int = 0,
        sequences: dict[str, Any] | None = None,
    ) -> None:
        self.instances = [FakeInstance(depth, overlaps=overlaps) for _ in range(instances)]
        self.statistics = ModelStatistics("m", 1)
        self.health = 0
        document: dict[str, Any] = {"name": "m", "max_batch_size": max_batch_size, "input": inputs or []}
        document["model_transaction_policy"] = {"decoupled": decoupled}
        if batching is not None:
            document["dynamic_batching"] = batching
        if sequences is not None:
            document["sequence_batching"] = sequences
        named = {f"m_0_{index}": instance for index, instance in enumerate(self.instances)}
        loop = asyncio.get_running_loop()
        self.scheduler = make_scheduler(
            ModelConfig.from_document(document),
            named,
            self.statistics,
            loop,
            PoolOptions(execute_timeout_s, self._changed, model_facts("m", 1)),
            hold=hold,
            backlog_hold=backlog_hold,
        )
        self.changed = asyncio.Event()
        for instance in self.instances:
            instance.changed = self.changed
        self.answers: list[tuple[str, InferenceResponse]] = []
        self.ended: asyncio.Future[None] = loop.create_future()

    def _changed(self) -> None:
        self.health += 1
        if not self.ended.done():
            self.ended.set_result(None)

    def submit(
        self,
        request_id: str,
        rows: int = 1,
        *,
        priority: int = 0,
        timeout_us: int = 0,
        inputs: dict[str, Tensor] | None = None,
        sequence: int | str = 0,
        flags: int = 0,
    ) -> Ticket:
        request = InferenceRequest("m", inputs or {}, request_id=request_id, priority=priority, timeout_us=timeout_us)
        request.correlation_id, request.flags = sequence, flags
        request.batch_size = rows
        return self.scheduler.submit(request, lambda response: self._answered(request_id, response))

    def _answered(self, request_id: str, response: InferenceResponse) -> None:
        self.answers.append((request_id, response))
        self.changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Go on when an answer or a batch has made the condition true."""
        async with asyncio.timeout(5):
            while not condition():
                self.changed.clear()
                await self.changed.wait()

    def executing(self, instance: int = 0) -> list[str]:
        """The requests of the batch that an instance executes, [] where it has none."""
        work = self.instances[instance].work
        return [execution.request.request_id for execution in work[0][0].executions] if work else []

    @property
    def outcomes(self) -> dict[str, Code | None]:
        return {name: response.error.code if response.error else None for name, response in self.answers}


class MakeBench(Protocol):
    def __call__(
        self,
        instances: int = 1,
        *,
        depth: int = 1,
        overlaps: bool = False,
        execute_timeout_s: float = 0.0,
        decoupled: bool = False,
        batching: dict[str, Any] | None = None,
        inputs: list[dict[str, Any]] | None = None,
        max_batch_size: int = 8,
        hold: int = 0,
        backlog_hold: int = 0,
        sequences: dict[str, Any] | None = None,
    ) -> Bench: ...


@pytest.fixture
def make_bench() -> MakeBench:
    """Make a scheduler; call it on a running loop."""
    return Bench
