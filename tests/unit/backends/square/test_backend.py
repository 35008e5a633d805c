"""The square backend sends its input as often as the input says."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from infer.backends.api.backend import BackendContext, Batch, InstanceSpec, ModelFiles
from infer.backends.api.errors import InvalidArgument, Unavailable
from infer.backends.api.model_config import InstanceKind, ModelConfig
from infer.backends.api.request import InferenceRequest
from infer.backends.api.tensor import Tensor
from infer.backends.square.backend import SquareBackend

if TYPE_CHECKING:
    from pathlib import Path

    from infer.backends.api.response import InferenceResponse


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


def tensor(name: str, data_type: str = "TYPE_INT32", dims: tuple[int, ...] = (1,)) -> dict[str, Any]:
    return {"name": name, "data_type": data_type, "dims": list(dims)}


def config(**fields: Any) -> ModelConfig:
    parameters = {key: {"string_value": value} for key, value in fields.pop("parameters", {}).items()}
    document = {
        "name": "m",
        "backend": "square",
        "input": [tensor("IN")],
        "output": [tensor("OUT")],
        "model_transaction_policy": {"decoupled": True},
        "parameters": parameters,
    }
    return ModelConfig.from_document({**document, **fields})


async def instance(tmp_path: Path, given: ModelConfig) -> Any:
    async def run(function: Any, /, *args: Any) -> Any:
        return function(*args)

    caller: Any = None
    backend = SquareBackend(BackendContext(asyncio.get_running_loop(), run, caller))
    model = await backend.load(given, ModelFiles(tmp_path, 1))
    return model.create_instance(InstanceSpec("m_0", InstanceKind.CPU))


async def answered(made: Any, value: int, patience: int = 1_000_000) -> list[InferenceResponse]:
    execution = Execution(
        InferenceRequest("m", {"IN": Tensor.from_numpy(np.array([value], np.int32))}), patience=patience
    )
    made.execute(Batch([execution], 1), lambda: None)
    await execution.ended.wait()
    await made.close()
    return execution.responses


@pytest.mark.parametrize("value", [0, 1, 4, 300])
async def test_a_number_comes_back_as_often_as_it_says_and_then_the_final_flag(tmp_path: Path, value: int) -> None:
    *data, final = await answered(await instance(tmp_path, config()), value)
    assert [response.outputs["OUT"].as_numpy().tolist() for response in data] == [[value]] * value
    assert not any(response.final for response in data)
    assert final.is_empty
    assert final.final


async def test_a_negative_number_is_the_final_flag_alone(tmp_path: Path) -> None:
    (only,) = await answered(await instance(tmp_path, config()), -3)
    assert only.final


async def test_the_last_ones_are_empty_and_those_before_them_fail(tmp_path: Path) -> None:
    made = await instance(tmp_path, config(parameters={"CUSTOM_FAIL_COUNT": "2", "CUSTOM_EMPTY_COUNT": "1"}))
    *responses, final = await answered(made, 5)
    kinds = ["error" if each.error else "empty" if each.is_empty else "data" for each in responses]
    assert kinds == ["data", "data", "error", "error", "empty"]
    assert all(isinstance(each.error, Unavailable) for each in responses if each.error)
    assert not any(each.final for each in responses)
    assert final.final


async def test_delays_are_waited_for_before_each_response(tmp_path: Path) -> None:
    delays = {"CUSTOM_INFER_DELAY_NS": "4000000", "CUSTOM_OUTPUT_DELAY_NS": "6000000"}
    made = await instance(tmp_path, config(parameters=delays))
    began = time.monotonic()
    await answered(made, 3)
    assert time.monotonic() - began >= 0.03


async def test_a_client_that_has_gone_away_gets_the_final_flag_after_the_delay_of_a_cancel(tmp_path: Path) -> None:
    made = await instance(tmp_path, config(parameters={"CUSTOM_CANCEL_DELAY_NS": "20000000"}))
    began = time.monotonic()
    responses = await answered(made, 1000, patience=2)
    assert [each.final for each in responses] == [False, False, True]
    assert time.monotonic() - began >= 0.02


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"input": []}, "expects one input, IN (INT32 [1]), got none"),
        ({"input": [tensor("IN", "TYPE_FP32")]}, "expects one input, IN (INT32 [1]), got IN (FP32 [1])"),
        ({"input": [tensor("IN", dims=(-1,))]}, "expects one input, IN (INT32 [1]), got IN (INT32 [-1])"),
        ({"output": [tensor("O")]}, "expects one output, OUT (INT32 [1]), got O (INT32 [1])"),
        ({"model_transaction_policy": {"decoupled": False}}, "set model_transaction_policy { decoupled: true }"),
        ({"max_batch_size": 2}, "expected max_batch_size 0, got 2"),
        ({"parameters": {"CUSTOM_FAIL_COUNT": "-1"}}, "'CUSTOM_FAIL_COUNT' of model 'm' must be a whole number >= 0"),
        ({"parameters": {"CUSTOM_INFER_DELAY_NS": "1.5"}}, "must be a whole number >= 0, not '1.5'"),
    ],
)
async def test_a_configuration_of_another_shape_is_refused(
    tmp_path: Path, fields: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        await instance(tmp_path, config(**fields))
    assert sentence in str(caught.value)
