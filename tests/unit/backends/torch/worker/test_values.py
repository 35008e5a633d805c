"""Outputs against the configuration, and the datatypes that PyTorch has."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from infer.backends.api.datatypes import Datatype
from infer.backends.torch.worker.values import CONFIG_NAMES, DTYPES, TEXT, Spec, ValueMismatch, checked, specs


def spec(data_type: str = "TYPE_FP32", dims: tuple[int, ...] = (2,), reshape: tuple[int, ...] | None = None) -> Spec:
    return Spec("y", data_type, dims, reshape)


def shape_of(one: Spec, value: Any, *, batching: bool = False, rows: int = 0) -> tuple[int, ...]:
    return checked(one, value, batching=batching, rows=rows)[1]


def test_every_datatype_but_text_has_a_dtype_of_its_size() -> None:
    assert set(DTYPES) | {TEXT} == {datatype.config_name for datatype in Datatype}
    assert len(CONFIG_NAMES) == len(DTYPES)
    for datatype in Datatype:
        if datatype is not Datatype.BYTES:
            assert DTYPES[datatype.config_name].itemsize == datatype.itemsize


def test_a_tensor_that_fits_keeps_its_shape() -> None:
    assert shape_of(spec(), torch.ones(2)) == (2,)
    assert shape_of(spec(dims=(-1, 3)), torch.ones(5, 3)) == (5, 3)
    assert shape_of(spec(), torch.ones(4, 2), batching=True, rows=4) == (4, 2)


def test_a_scalar_is_one_number_to_clients() -> None:
    assert shape_of(spec(dims=(1,)), torch.tensor(1.0)) == (1,)


def test_a_reshape_is_undone_for_clients() -> None:
    assert shape_of(spec(dims=(1,), reshape=()), torch.ones(3), batching=True, rows=3) == (3, 1)
    assert shape_of(spec(dims=(-1, 1), reshape=(-1,)), torch.ones(3, 5), batching=True, rows=3) == (3, 5, 1)
    assert shape_of(spec(dims=(4,), reshape=(2, 2)), torch.ones(2, 2)) == (4,)


def test_text_is_a_list_of_strings_divided_among_the_rows() -> None:
    one = spec(TEXT, (-1,))
    assert checked(one, ["a", "b"], batching=False, rows=0) == (["a", "b"], (2,))
    assert shape_of(one, ["a", "b", "c", "d"], batching=True, rows=2) == (2, 2)
    assert shape_of(one, [], batching=False) == (0,)


@pytest.mark.parametrize(
    ("one", "value", "rows", "phrase"),
    [
        (spec(), torch.ones(3), 0, "output 'y' has shape [3], and [2] is configured"),
        (spec(), torch.ones(2, 2), 0, "output 'y' has shape [2, 2], and [2] is configured"),
        (spec(), torch.ones(2, dtype=torch.float64), 0, "output 'y' is TYPE_FP64, and TYPE_FP32 is configured"),
        (spec(), torch.ones(2, dtype=torch.complex64), 0, "output 'y' is torch.complex64, and TYPE_FP32 is"),
        (spec(), [1.0, 2.0], 0, "output 'y' is list, and a tensor of TYPE_FP32 is configured"),
        (spec(), None, 0, "output 'y' is NoneType, and a tensor of TYPE_FP32 is configured"),
        (spec(), torch.ones(3, 2), 2, "output 'y' has shape [3, 2] for a batch of 2; its first dimension must be"),
        (spec(), torch.tensor(1.0), 2, "output 'y' has shape [] for a batch of 2"),
        (spec(), torch.ones(2, 3), 2, "output 'y' has shape [2, 3], and [-1, 2] is configured"),
        (spec(TEXT, (-1,)), torch.ones(2), 0, "output 'y' is TYPE_FP32, and a list of strings is configured"),
        (spec(TEXT, (-1,)), ["a", 1], 0, "output 'y' is list, and a list of strings is configured"),
        (spec(TEXT, (-1,)), ["a"] * 3, 2, "output 'y' has 3 strings, which are not the same number for each of 2 rows"),
        (spec(TEXT, (1,)), ["a", "b"], 0, "output 'y' has shape [2], and [1] is configured"),
    ],
)
def test_an_output_that_does_not_fit_is_named_with_both_sides(one: Spec, value: Any, rows: int, phrase: str) -> None:
    with pytest.raises(ValueMismatch) as caught:
        checked(one, value, batching=rows > 0, rows=rows)
    assert phrase in str(caught.value)


def test_text_has_one_dimension() -> None:
    entry = {"name": "words", "data_type": TEXT, "dims": [2, 2]}
    with pytest.raises(
        ValueMismatch, match=r"tensor 'words': text is a list of strings in PyTorch, .* not 2; configure"
    ):
        specs("m", [entry])
    assert specs("m", [entry | {"reshape": {"shape": [4]}}])[0].model_dims == (4,)


def test_a_datatype_that_torch_has_not_is_refused() -> None:
    with pytest.raises(ValueMismatch, match="model 'm', tensor 'x': PyTorch has no datatype TYPE_INVALID"):
        specs("m", [{"name": "x", "data_type": "TYPE_INVALID", "dims": [1]}])
