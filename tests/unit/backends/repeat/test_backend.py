"""The repeat backend sends what came in element by element, as slowly as it is told."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from infer.backends.api.backend import BackendContext, Batch, InstanceSpec, ModelFiles
from infer.backends.api.errors import InvalidArgument
from infer.backends.api.model_config import InstanceKind, ModelConfig
from infer.backends.api.request import InferenceRequest
from infer.backends.api.tensor import Tensor
from infer.backends.repeat.backend import RepeatBackend

if TYPE_CHECKING:
    from pathlib import Path

    from infer.backends.api.response import InferenceResponse

INPUTS = (("IN", "TYPE_INT32", [-1]), ("DELAY", "TYPE_UINT32", [-1]), ("WAIT", "TYPE_UINT32", [1]))
OUTPUTS = (("OUT", "TYPE_INT32", [1]), ("IDX", "TYPE_UINT32", [1]))


@dataclass
class Execution:
    """Keeps what it is answered; cancelled after so many responses where ``patience`` says so."""

    request: InferenceRequest
    patience: int = 1_000_000
    paused: bool = False
    responses: list[InferenceResponse] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def cancelled(self) -> bool:
        return len(self.responses) >= self.patience

    def send(self, response: InferenceResponse) -> None:
        assert not (self.responses and self.responses[-1].final), "a response after the final one"
        self.responses.append(response)
        if response.final:
            self.ended.set()


def config(
    inputs: Any = INPUTS, outputs: Any = OUTPUTS, *, decoupled: bool = True, max_batch_size: int = 0
) -> ModelConfig:
    def specs(rows: Any) -> list[dict[str, Any]]:
        return [{"name": name, "data_type": data_type, "dims": dims} for name, data_type, dims in rows]

    return ModelConfig.from_document(
        {
            "name": "m",
            "backend": "repeat",
            "max_batch_size": max_batch_size,
            "input": specs(inputs),
            "output": specs(outputs),
            "model_transaction_policy": {"decoupled": decoupled},
        }
    )


async def instance(tmp_path: Path, given: ModelConfig) -> Any:
    async def run(function: Any, /, *args: Any) -> Any:
        return function(*args)

    caller: Any = None
    backend = RepeatBackend(BackendContext(asyncio.get_running_loop(), run, caller))
    model = await backend.load(given, ModelFiles(tmp_path, 1))
    made: Any = model.create_instance(InstanceSpec("m_0", InstanceKind.CPU))
    await made.load()
    return made


def request(values: list[int], delays: list[int] | None = None, wait: int = 0, **rest: Any) -> InferenceRequest:
    arrays = {
        "IN": np.array(values, np.int32),
        "DELAY": np.array([0] * len(values) if delays is None else delays, np.uint32),
        "WAIT": np.array([wait], np.uint32),
    }
    return InferenceRequest("m", {name: Tensor.from_numpy(array) for name, array in arrays.items()}, **rest)


async def execute(made: Any, *executions: Execution) -> Batch:
    """Execute to the end, also what goes on after the instance is free."""
    done = asyncio.Event()
    batch = Batch(executions, len(executions))
    made.execute(batch, done.set)
    await done.wait()
    for execution in executions:
        await execution.ended.wait()
    await made.close()
    return batch


def numbers(response: InferenceResponse) -> tuple[int, ...]:
    return tuple(int(tensor.as_numpy().item()) for tensor in response.outputs.values())


async def test_every_element_is_a_response_with_its_index_and_the_final_flag_comes_apart(tmp_path: Path) -> None:
    execution = Execution(request([7, -8, 9]))
    batch = await execute(await instance(tmp_path, config()), execution)
    *data, final = execution.responses
    assert [numbers(response) for response in data] == [(7, 0), (-8, 1), (9, 2)]
    assert [list(response.outputs) for response in data] == [["OUT", "IDX"]] * 3
    assert not any(response.final for response in data)
    assert final.final
    assert final.is_empty
    assert batch.compute_end >= batch.compute_start > 0


@pytest.mark.parametrize("decoupled", [True, False])
async def test_nothing_in_is_the_final_flag_alone(tmp_path: Path, *, decoupled: bool) -> None:
    execution = Execution(request([]))
    await execute(await instance(tmp_path, config(decoupled=decoupled)), execution)
    (only,) = execution.responses
    assert only.final
    assert only.is_empty


async def test_a_slow_request_is_answered_after_the_instance_took_the_next(tmp_path: Path) -> None:
    made = await instance(tmp_path, config())
    slow, quick = Execution(request([1], [200])), Execution(request([2]))
    free = asyncio.Event()
    made.execute(Batch([slow], 1), free.set)
    await free.wait()
    quick_free = asyncio.Event()
    made.execute(Batch([quick], 1), quick_free.set)
    await quick.ended.wait()
    assert not slow.responses
    await slow.ended.wait()
    await made.close()
    assert numbers(quick.responses[0]) == (2, 0)
    assert numbers(slow.responses[0]) == (1, 0)


async def test_wait_holds_the_instance_and_not_the_responses(tmp_path: Path) -> None:
    made = await instance(tmp_path, config())
    execution = Execution(request([1], wait=50))
    held: list[int] = []
    free = asyncio.Event()

    def done() -> None:
        held.append(len(execution.responses))
        free.set()

    made.execute(Batch([execution], 1), done)
    await free.wait()
    await made.close()
    assert held == [2]


async def test_a_client_that_has_gone_away_ends_it(tmp_path: Path) -> None:
    execution = Execution(request(list(range(100_000))), patience=3)
    await execute(await instance(tmp_path, config()), execution)
    assert [response.final for response in execution.responses] == [False, False, False, True]


@pytest.mark.parametrize("ending", ["cancel", "close"])
async def test_nobody_waits_for_a_delay_that_nobody_wants_any_more(tmp_path: Path, ending: str) -> None:
    made = await instance(tmp_path, config())
    execution = Execution(request([1], [3_600_000]))
    free = asyncio.Event()
    made.execute(Batch([execution], 1), free.set)
    await free.wait()
    if ending == "cancel":
        execution.patience = 0
        made.cancel(execution)
        made.cancel(execution)
        await execution.ended.wait()
    await made.close()
    (only,) = execution.responses
    assert only.is_empty
    assert only.final


async def test_an_instance_that_is_held_lets_go_when_it_is_closed(tmp_path: Path) -> None:
    made = await instance(tmp_path, config())
    execution = Execution(request([1], wait=3_600_000))
    free = asyncio.Event()
    made.execute(Batch([execution], 1), free.set)
    await execution.ended.wait()
    assert not free.is_set()
    await made.close()
    assert free.is_set()


async def test_others_get_their_turn_during_a_long_answer(tmp_path: Path) -> None:
    made = await instance(tmp_path, config())
    long, short = Execution(request(list(range(10_000)))), Execution(request([5]))
    sent_before: list[int] = []
    made.execute(Batch([long], 1), lambda: None)
    made.execute(Batch([short], 1), lambda: sent_before.append(len(long.responses)))
    await long.ended.wait()
    await made.close()
    assert len(short.responses) == 2
    assert sent_before[0] < 1000
    assert len(long.responses) == 10_001


async def test_only_the_outputs_asked_for_are_sent(tmp_path: Path) -> None:
    execution = Execution(request([4], requested_outputs=("IDX",)))
    await execute(await instance(tmp_path, config()), execution)
    assert list(execution.responses[0].outputs) == ["IDX"]


async def test_a_model_that_is_not_decoupled_answers_one_element_with_the_final_response(tmp_path: Path) -> None:
    made = await instance(tmp_path, config(decoupled=False))
    execution = Execution(request([4]))
    await execute(made, execution)
    (only,) = execution.responses
    assert only.final
    assert numbers(only) == (4, 0)


@pytest.mark.parametrize(
    ("given", "decoupled", "sentence"),
    [
        (request([1, 2], [0]), True, "IN and DELAY shape to match, got [2] and [1]"),
        (request([1, 2]), False, "IN has 2 elements, and a model that is not decoupled sends one response"),
    ],
)
async def test_a_request_that_cannot_be_answered_is_told_why(
    tmp_path: Path, given: InferenceRequest, sentence: str, *, decoupled: bool
) -> None:
    execution = Execution(given)
    await execute(await instance(tmp_path, config(decoupled=decoupled)), execution)
    (only,) = execution.responses
    assert only.final
    assert isinstance(only.error, InvalidArgument)
    assert sentence in str(only.error)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            config(INPUTS[:2]),
            "expects the inputs IN (INT32), DELAY (UINT32), WAIT (UINT32) in this order, got IN (INT32), ",
        ),
        (config((INPUTS[1], INPUTS[0], INPUTS[2])), "in this order, got DELAY (UINT32), IN (INT32)"),
        (config((("IN", "TYPE_FP32", [-1]), *INPUTS[1:])), "got IN (FP32)"),
        (config(outputs=()), "expects the outputs OUT (INT32), IDX (UINT32) in this order, got none"),
        (config((("IN", "TYPE_INT32", [-1, 2]), *INPUTS[1:])), "expected 'IN' to have one dimension, got dims [-1, 2]"),
        (config(max_batch_size=4), "expected max_batch_size 0, got 4"),
    ],
)
async def test_a_configuration_of_another_shape_is_refused(tmp_path: Path, given: ModelConfig, sentence: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        await instance(tmp_path, given)
    assert sentence in str(caught.value)
