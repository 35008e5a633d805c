from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from infer.backends.api.datatypes import Datatype
from infer.backends.api.errors import BackendFailure, InvalidArgument
from infer.backends.api.request import InferenceRequest
from infer.backends.api.tensor import Tensor
from infer.backends.identity import backend as identity
from infer.backends.identity.backend import IdentityBackend

if TYPE_CHECKING:
    from collections.abc import Callable


def tensors(*entries: tuple[str, str, list[int]]) -> list[dict[str, Any]]:
    return [{"name": name, "data_type": data_type, "dims": dims} for name, data_type, dims in entries]


PAIR = {
    "input": tensors(("INPUT0", "TYPE_INT32", [-1])),
    "output": tensors(("OUTPUT0", "TYPE_INT32", [-1])),
}


@pytest.mark.parametrize("datatype", list(Datatype), ids=str)
def test_every_datatype_comes_back_byte_for_byte_in_a_buffer_of_its_own(
    drive: Callable[..., Any], datatype: Datatype
) -> None:
    driver = drive(IdentityBackend)
    config = driver.config(
        input=tensors(("INPUT0", datatype.config_name, [-1, 2])),
        output=tensors(("OUTPUT0", datatype.config_name, [-1, 2])),
    )
    payload = (
        b"\x02\x00\x00\x00ab\x00\x00\x00\x00" if datatype is Datatype.BYTES else bytes(range(2 * datatype.itemsize))
    )
    tensor = Tensor(datatype, (1, 2), bytearray(payload))
    (response,) = driver.execute(driver.instance(config), InferenceRequest("m", {"INPUT0": tensor}))
    output = response.outputs["OUTPUT0"]
    assert (output.datatype, output.shape, bytes(output.view)) == (datatype, (1, 2), payload)
    tensor.buffer[:] = bytes(len(payload))
    assert bytes(output.view) == payload


def test_requests_of_a_ragged_batch_come_back_each_in_its_own_shape(drive: Callable[..., Any]) -> None:
    driver = drive(IdentityBackend)
    inputs = [{**entry, "allow_ragged_batch": True} for entry in PAIR["input"]]
    scatter = [{"target_name": ["OUTPUT0"], "source_input": ["INPUT0"]}]
    config = driver.config(**{**PAIR, "input": inputs, "batch_output": scatter, "max_batch_size": 8})
    given = [np.array([[1, 2, 3]], np.int32), np.array([[4]], np.int32)]
    responses = driver.execute(driver.instance(config), *(driver.request({"INPUT0": array}) for array in given))
    assert [response.outputs["OUTPUT0"].as_numpy().tolist() for response in responses] == [[[1, 2, 3]], [[4]]]


def test_each_request_of_a_batch_gets_its_own_answer_and_only_the_outputs_it_asked_for(
    drive: Callable[..., Any],
) -> None:
    driver = drive(IdentityBackend)
    names = ("INPUT0", "INPUT1")
    config = driver.config(
        max_batch_size=8,
        input=tensors(*((name, "TYPE_INT32", [-1]) for name in names)),
        output=tensors(*((name.replace("IN", "OUT"), "TYPE_INT32", [-1]) for name in names)),
    )
    first = {name: np.array([[1, 2]], np.int32) for name in names}
    second = {name: np.array([[3], [4]], np.int32) for name in names}
    one, two = driver.execute(
        driver.instance(config), driver.request(first), driver.request(second, rows=2, outputs=("OUTPUT1",))
    )
    assert list(one.outputs) == ["OUTPUT0", "OUTPUT1"]
    assert list(two.outputs) == ["OUTPUT1"]
    assert two.outputs["OUTPUT1"].as_numpy().tolist() == [[3], [4]]


def test_a_response_carries_one_parameter_of_every_kind(drive: Callable[..., Any]) -> None:
    driver = drive(IdentityBackend)
    request = driver.request({"INPUT0": np.zeros(1, np.int32)})
    (response,) = driver.execute(driver.instance(driver.config(**PAIR)), request)
    assert response.parameters == {
        "param0": "an example string parameter",
        "param1": 42,
        "param2": False,
        "param3": 123.123,
    }


@pytest.mark.parametrize(("size", "shape"), [(0, (1, 3)), (4, (2, 1, 3))])
@pytest.mark.parametrize("data_type", ["TYPE_FP32", "TYPE_STRING"])
def test_an_optional_input_that_is_left_out_is_answered_with_zeros(
    drive: Callable[..., Any], size: int, shape: tuple[int, ...], data_type: str
) -> None:
    driver = drive(IdentityBackend)
    entry = {"name": "INPUT0", "data_type": data_type, "dims": [-1, 3], "optional": True}
    output = tensors(("OUTPUT0", data_type, [-1, 3]))
    config = driver.config(max_batch_size=size, input=[entry], output=output)
    (response,) = driver.execute(driver.instance(config), driver.request({}, rows=2))
    array = response.outputs["OUTPUT0"].as_numpy()
    assert array.shape == shape
    assert not any(array.ravel().tolist())


def test_an_output_s_reshape_is_undone(drive: Callable[..., Any]) -> None:
    driver = drive(IdentityBackend)
    config = driver.config(
        max_batch_size=4,
        input=tensors(("INPUT0", "TYPE_INT32", [2, 2])),
        output=[{"name": "OUTPUT0", "data_type": "TYPE_INT32", "dims": [4], "reshape": {"shape": [2, 2]}}],
    )
    instance = driver.instance(config)
    (response,) = driver.execute(instance, driver.request({"INPUT0": np.zeros((1, 2, 2), np.int32)}))
    assert response.outputs["OUTPUT0"].shape == (1, 4)
    with pytest.raises(BackendFailure, match=r"output 'OUTPUT0' of shape \[1, 4\] does not fit reshape \[2, 2\]"):
        driver.execute(instance, driver.request({"INPUT0": np.zeros((1, 4), np.int32)}))


@pytest.mark.parametrize(
    ("inputs", "outputs", "phrase"),
    [
        (
            tensors(("INPUT0", "TYPE_INT32", [1])),
            [],
            "has 1 inputs and 0 outputs; the identity backend expects equal numbers",
        ),
        (
            tensors(("X", "TYPE_INT32", [1])),
            tensors(("OUTPUT0", "TYPE_INT32", [1])),
            "to start with 'INPUT', got 'X'",
        ),
        (
            tensors(("INPUT0", "TYPE_INT32", [1])),
            tensors(("OUTPUT1", "TYPE_INT32", [1])),
            "has input 'INPUT0' but no output 'OUTPUT0'",
        ),
        (
            tensors(("INPUT0", "TYPE_INT32", [1])),
            tensors(("OUTPUT0", "TYPE_FP32", [1])),
            "to have one datatype, got INT32 and FP32",
        ),
        (
            tensors(("INPUT0", "TYPE_INT32", [1])),
            tensors(("OUTPUT0", "TYPE_INT32", [2])),
            "to have one shape, got [1] and [2]",
        ),
    ],
)
def test_tensors_that_do_not_pair_up_fail_the_load(
    drive: Callable[..., Any], inputs: list[Any], outputs: list[Any], phrase: str
) -> None:
    driver = drive(IdentityBackend)
    with pytest.raises(InvalidArgument) as caught:
        driver.instance(driver.config(input=inputs, output=outputs))
    assert phrase in str(caught.value)


@pytest.mark.parametrize("text", ["slow", "-1", "nan", "inf"])
def test_a_delay_that_is_no_number_fails_the_load(drive: Callable[..., Any], text: str) -> None:
    driver = drive(IdentityBackend)
    config = driver.config(**PAIR, parameters={"execute_delay_ms": {"string_value": text}})
    with pytest.raises(InvalidArgument, match="parameter 'execute_delay_ms' of model 'm' must be a number >= 0, not"):
        driver.instance(config)


def test_delays_are_those_of_the_parameters_and_show_in_the_phase_stamps(
    drive: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(identity.time, "sleep", slept.append)
    driver = drive(IdentityBackend)
    values = {"execute_delay_ms": "250", "instance_wise_delay_multiplier": "2", "creation_delay_sec": "3"}
    config = driver.config(**PAIR, parameters={key: {"string_value": value} for key, value in values.items()})
    first = driver.instance(config)
    second = driver.models[0].create_instance(None)
    for instance in (first, second):
        driver.execute(instance, driver.request({"INPUT0": np.zeros(1, np.int32)}))
    assert slept == [3.0, 0.25, 0.5]
    batch = driver.batch
    assert 0 < batch.compute_start <= batch.compute_input_end <= batch.compute_output_start <= batch.compute_end
