"""The control tensors that a model gets with its requests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from infer.backends.api.datatypes import Datatype
from infer.backends.api.errors import InvalidArgument
from infer.backends.api.model_config import ModelConfig
from infer.backends.api.request import SEQUENCE_END, SEQUENCE_START, InferenceRequest
from infer.backends.api.tensor import Tensor
from infer.server.scheduling.sequence_controls import SequenceControls

SWITCHES = [
    {"name": "S", "control": [{"kind": "CONTROL_SEQUENCE_START", "int32_false_true": [7, 8]}]},
    {"name": "R", "control": [{"kind": "CONTROL_SEQUENCE_READY", "bool_false_true": [False, True]}]},
    {"name": "E", "control": [{"kind": "CONTROL_SEQUENCE_END", "fp32_false_true": [-1.5, 0.25]}]},
]


def controls(*entries: dict[str, Any], max_batch_size: int = 4) -> SequenceControls:
    document = {"name": "m", "max_batch_size": max_batch_size, "sequence_batching": {"control_input": list(entries)}}
    return SequenceControls(ModelConfig.from_document(document))


def corrid(datatype: str) -> dict[str, Any]:
    return {"name": "ID", "control": [{"kind": "CONTROL_SEQUENCE_CORRID", "data_type": datatype}]}


def request(sequence: int | str = 1, flags: int = 0) -> InferenceRequest:
    inputs = {"IN": Tensor.from_numpy(np.array([[3, 4]], np.int32))}
    return InferenceRequest("m", inputs, correlation_id=sequence, flags=flags, request_id="r", form=object())


def values(dressed: InferenceRequest) -> dict[str, Any]:
    return {name: tensor.as_numpy().ravel().tolist() for name, tensor in dressed.inputs.items()}


@pytest.mark.parametrize(
    ("flags", "start", "end"),
    [(0, 7, -1.5), (SEQUENCE_START, 8, -1.5), (SEQUENCE_END, 7, 0.25), (SEQUENCE_START | SEQUENCE_END, 8, 0.25)],
)
def test_a_request_says_where_it_stands_in_the_values_and_types_of_the_configuration(
    flags: int, start: int, end: float
) -> None:
    dressed = controls(*SWITCHES).dressed(request(flags=flags))
    assert values(dressed) == {"IN": [3, 4], "S": [start], "R": [True], "E": [end]}
    assert [dressed.inputs[name].datatype for name in "SRE"] == [Datatype.INT32, Datatype.BOOL, Datatype.FP32]


@pytest.mark.parametrize(("max_batch_size", "shape"), [(0, (1,)), (1, (1, 1)), (8, (1, 1))])
def test_a_control_has_a_batch_dimension_where_the_model_has_one(max_batch_size: int, shape: tuple[int, ...]) -> None:
    dressed = controls(*SWITCHES, corrid("TYPE_UINT64"), max_batch_size=max_batch_size).dressed(request())
    assert {dressed.inputs[name].shape for name in ("S", "R", "E", "ID")} == {shape}


def test_the_request_of_the_caller_stays_as_it_is_and_is_like_no_other_any_more() -> None:
    given = request()
    dressed = controls(*SWITCHES).dressed(given)
    assert list(given.inputs) == ["IN"]
    assert (dressed.form, dressed.request_id, dressed.correlation_id) == (None, "r", 1)


@pytest.mark.parametrize(
    ("datatype", "sequence", "expected"),
    [
        ("TYPE_UINT64", 2**64 - 1, 2**64 - 1),
        ("TYPE_INT64", 2**64 - 1, -1),
        ("TYPE_UINT32", 2**32 + 5, 5),
        ("TYPE_INT32", 2**31, -(2**31)),
        ("TYPE_INT32", 9, 9),
        ("TYPE_STRING", "näme", "näme".encode()),
    ],
)
def test_an_id_is_a_text_or_the_low_order_bits_of_a_number(
    datatype: str, sequence: int | str, expected: int | bytes
) -> None:
    made = controls(corrid(datatype))
    made.check(sequence)
    assert values(made.dressed(request(sequence)))["ID"] == [expected]


@pytest.mark.parametrize(
    ("datatype", "sequence", "given", "wanted"),
    [("TYPE_UINT64", "mine", "BYTES", "UINT64"), ("TYPE_STRING", 5, "UINT64", "BYTES")],
)
def test_an_id_of_the_other_kind_is_refused(datatype: str, sequence: int | str, given: str, wanted: str) -> None:
    sentence = f"sequence batching control 'ID' data-type is '{given}', but model 'm' expects '{wanted}'"
    with pytest.raises(InvalidArgument, match=f"^{sentence}$"):
        controls(corrid(datatype)).check(sequence)


@pytest.mark.parametrize("sequence", [5, "mine"])
def test_without_a_tensor_for_it_an_id_may_be_of_either_kind(sequence: int | str) -> None:
    controls(*SWITCHES).check(sequence)


@pytest.mark.parametrize(("datatype", "nobody"), [("TYPE_UINT64", 0), ("TYPE_STRING", b"")])
def test_a_row_without_a_request_has_inputs_of_the_same_shape_and_is_not_ready(datatype: str, nobody: Any) -> None:
    like = request(5, SEQUENCE_START | SEQUENCE_END)
    like.inputs["TEXT"] = Tensor(Datatype.BYTES, (1, 2), b"\1\0\0\0a\0\0\0\0")
    made = controls(*SWITCHES, corrid(datatype)).nothing(like)
    assert values(made) == {
        "IN": [0, 0], "TEXT": [b"", b""], "S": [7], "R": [False], "E": [-1.5], "ID": [nobody]
    }  # fmt: skip
    assert (made.inputs["TEXT"].shape, made.requested_outputs, made.correlation_id, made.flags) == ((1, 2), (), 0, 0)


def test_only_a_model_with_ready_can_tell_a_row_without_a_request() -> None:
    assert controls(*SWITCHES).tells_rows
    assert not controls(SWITCHES[0], SWITCHES[2], corrid("TYPE_UINT64")).tells_rows
