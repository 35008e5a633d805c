"""The k highest values of an output come as text, the highest first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from infer.backends.api import datatypes
from infer.backends.api.datatypes import Datatype
from infer.backends.api.errors import InvalidArgument
from infer.backends.api.tensor import Tensor
from infer.server.wire.classification import classify


def classes(values: Any, count: int, labels: tuple[str, ...] = (), *, batching: bool = False) -> tuple[Any, list[str]]:
    result = classify(Tensor.from_numpy(values), count, labels, batching=batching)
    assert result.datatype is Datatype.BYTES
    return result.shape, [element.decode() for element in datatypes.split_bytes(result.view)]


def test_floats_have_six_decimals_and_equal_values_the_lowest_index_first() -> None:
    values = np.array([0.1, 0.7, 0.2, 0.7], dtype=np.float32)
    assert classes(values, 3) == ((3,), ["0.700000:1", "0.700000:3", "0.200000:2"])


def test_integers_are_plain_and_labels_follow() -> None:
    values = np.array([5, -7, 9], dtype=np.int64)
    assert classes(values, 2, ("a", "", "c")) == ((2,), ["9:2:c", "5:0:a"])
    assert classes(values, 3, ("a", "")) == ((3,), ["9:2", "5:0:a", "-7:1"])


def test_more_than_there_are_gives_all() -> None:
    assert classes(np.array([1, 2], dtype=np.uint8), 2**63) == ((2,), ["2:1", "1:0"])


def test_every_row_of_a_batch_is_sorted_for_itself() -> None:
    values = np.array([[1.0, 2.0], [4.0, 3.0]], dtype=np.float64)
    shape, elements = classes(values, 1, batching=True)
    assert (shape, elements) == ((2, 1), ["2.000000:1", "4.000000:0"])


def test_all_other_dimensions_are_one_row() -> None:
    values = np.arange(4, dtype=np.int32).reshape(1, 2, 2)
    assert classes(values, 1, batching=True) == ((1, 1), ["3:3"])
    assert classes(values, 1) == ((1,), ["3:3"])


@pytest.mark.parametrize("dtype", [np.uint64, np.int64, np.int8, np.uint8])
def test_the_extremes_of_integers_keep_their_order(dtype: Any) -> None:
    info = np.iinfo(dtype)
    values = np.array([info.min, info.max, 1], dtype=dtype)
    assert classes(values, 3)[1] == [f"{info.max}:1", "1:2", f"{info.min}:0"]


def test_not_a_number_comes_last() -> None:
    values = np.array([np.nan, 1.0, np.inf], dtype=np.float32)
    assert classes(values, 3)[1][:2] == ["inf:2", "1.000000:1"]


def test_an_empty_row_has_no_classes() -> None:
    assert classes(np.empty((2, 0), dtype=np.float32), 3, batching=True) == ((2, 0), [])


@pytest.mark.parametrize("datatype", ["FP16", "BF16", "BOOL", "BYTES"])
def test_a_datatype_without_an_order_is_refused(datatype: str) -> None:
    tensor = Tensor(Datatype(datatype), (1,), bytes(4))
    with pytest.raises(InvalidArgument, match=f"not available for output due to unsupported type '{datatype}'"):
        classify(tensor, 1, batching=False)


def test_more_than_a_million_elements_are_refused() -> None:
    tensor = Tensor(Datatype.INT8, (1_000_001,), bytes(1_000_001))
    with pytest.raises(InvalidArgument, match="classification output tensor too large: 1000001"):
        classify(tensor, 1, batching=False)
