from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer.backends.api.batch_tensors import computed, cut, flat, output_shape, source_shapes
from infer.backends.api.datatypes import Datatype
from infer.backends.api.errors import BackendFailure, InvalidArgument
from infer.backends.api.model_config import BatchInput, BatchInputKind
from infer.backends.api.request import InferenceRequest
from infer.backends.api.tensor import Tensor

Kind = BatchInputKind
Shape = tuple[int, ...]

SIZES = st.integers(0, 5)
SHAPES = st.integers(0, 3).flatmap(lambda rank: st.lists(st.tuples(*[SIZES] * (1 + rank)), min_size=1, max_size=5))
"""Shapes of one input in the requests of a batch: of one rank, the batch dimension first."""


def batch_input(kind: Kind, datatype: Datatype = Datatype.INT32) -> BatchInput:
    return BatchInput(kind, ("t",), datatype, ("x",))


def values(kind: Kind, shapes: list[Shape], *, batching: bool = True) -> Any:
    return computed(batch_input(kind), shapes, batching=batching).tolist()


FLAT = [(1, 2), (1, 4), (1, 1), (1, 3)]
PLANES = [(1, 4, 1), (1, 1, 2), (1, 1, 2), (1, 2, 2)]


@pytest.mark.parametrize(
    ("kind", "shapes", "expected"),
    [
        (Kind.ELEMENT_COUNT, FLAT, [2, 4, 1, 3]),
        (Kind.ACCUMULATED_ELEMENT_COUNT, FLAT, [2, 6, 7, 10]),
        (Kind.ACCUMULATED_ELEMENT_COUNT_WITH_ZERO, FLAT, [0, 2, 6, 7, 10]),
        (Kind.MAX_ELEMENT_COUNT_AS_SHAPE, FLAT, [0, 0, 0, 0]),
        (Kind.ITEM_SHAPE, PLANES, [[4, 1], [1, 2], [1, 2], [2, 2]]),
        (Kind.ITEM_SHAPE_FLATTEN, PLANES, [4, 1, 1, 2, 1, 2, 2, 2]),
        # Elements of all rows count, and every row has a shape.
        (Kind.ELEMENT_COUNT, [(2, 3), (1, 5)], [6, 5]),
        (Kind.ITEM_SHAPE, [(2, 3), (1, 5)], [[3], [3], [5]]),
        (Kind.ITEM_SHAPE_FLATTEN, [(2, 3, 1), (1, 5, 1)], [3, 1, 3, 1, 5, 1]),
        # One request.
        (Kind.ELEMENT_COUNT, [(1, 7)], [7]),
        (Kind.ACCUMULATED_ELEMENT_COUNT_WITH_ZERO, [(1, 7)], [0, 7]),
        # No elements, no rows, no dimensions but the batch.
        (Kind.ELEMENT_COUNT, [(1, 0), (1, 2)], [0, 2]),
        (Kind.MAX_ELEMENT_COUNT_AS_SHAPE, [(1, 0)], []),
        (Kind.ITEM_SHAPE, [(1, 0), (0, 2)], [[0]]),
        (Kind.ITEM_SHAPE_FLATTEN, [(0, 2)], []),
        (Kind.ITEM_SHAPE, [(2,), (1,)], [[], [], []]),
    ],
)
def test_a_batch_input_says_of_a_batch_what_its_kind_says(kind: Kind, shapes: list[Shape], expected: list[Any]) -> None:
    assert values(kind, shapes) == expected


def test_a_request_of_a_model_that_does_not_batch_is_one_item() -> None:
    assert values(Kind.ELEMENT_COUNT, [(2, 3)], batching=False) == [6]
    assert values(Kind.ITEM_SHAPE, [(2, 3)], batching=False) == [[2, 3]]
    assert values(Kind.ITEM_SHAPE_FLATTEN, [(2, 3)], batching=False) == [2, 3]


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("datatype", [Datatype.INT32, Datatype.FP32], ids=str)
def test_a_batch_input_is_of_the_datatype_that_is_configured(kind: Kind, datatype: Datatype) -> None:
    array = computed(batch_input(kind, datatype), PLANES, batching=True)
    assert array.dtype == datatype.numpy
    assert array.flags.c_contiguous


@given(SHAPES)
def test_counts_and_sums_and_items_agree_with_the_shapes(shapes: list[Shape]) -> None:
    counts = values(Kind.ELEMENT_COUNT, shapes)
    sums = values(Kind.ACCUMULATED_ELEMENT_COUNT, shapes)
    assert len(counts) == len(sums) == len(shapes)
    assert [0, *sums] == values(Kind.ACCUMULATED_ELEMENT_COUNT_WITH_ZERO, shapes)
    assert [end - start for start, end in itertools.pairwise([0, *sums])] == counts
    assert len(values(Kind.MAX_ELEMENT_COUNT_AS_SHAPE, shapes)) == max(counts)
    items = computed(batch_input(Kind.ITEM_SHAPE), shapes, batching=True)
    assert items.shape == (sum(shape[0] for shape in shapes), len(shapes[0]) - 1)
    assert sum(math.prod(item) for item in items.tolist()) == sum(counts)
    assert values(Kind.ITEM_SHAPE_FLATTEN, shapes) == items.ravel().tolist()


def test_more_elements_than_int32_can_count_are_refused_with_their_number() -> None:
    shapes = [(1, 2**30), (1, 2**30)]
    assert values(Kind.ELEMENT_COUNT, shapes) == [2**30, 2**30]
    with pytest.raises(InvalidArgument) as caught:
        values(Kind.ACCUMULATED_ELEMENT_COUNT, shapes)
    assert "a batch of 2147483648 elements of input 'x' is too large for batch input kind" in str(caught.value)
    assert "'BATCH_ACCUMULATED_ELEMENT_COUNT' of TYPE_INT32; send smaller requests" in str(caught.value)


def test_a_flat_tensor_has_the_same_elements_over_the_same_buffer() -> None:
    tensor = Tensor.from_numpy(np.arange(6, dtype=np.int16).reshape(2, 3))
    assert flat(tensor).as_numpy().tolist() == [0, 1, 2, 3, 4, 5]
    assert flat(tensor).buffer is tensor.buffer
    assert flat(Tensor(Datatype.FP32, (1, 0), b"")).shape == (0,)


def test_the_shapes_of_a_source_are_those_of_the_requests_in_order() -> None:
    tensors = [Tensor(Datatype.UINT8, (1, size), bytes(size)) for size in (3, 0, 2)]
    assert source_shapes("x", [InferenceRequest("m", {"x": tensor}) for tensor in tensors]) == [(1, 3), (1, 0), (1, 2)]


def test_a_request_without_the_source_input_is_told_which_to_send() -> None:
    other = InferenceRequest("m", {"other": Tensor(Datatype.UINT8, (1, 1), b"a")})
    with pytest.raises(InvalidArgument, match=r"model 'm' computes batch tensors from .* input 'x', .* send it"):
        source_shapes("x", [other])


@pytest.mark.parametrize(
    ("dims", "source", "batching", "expected"),
    [
        ((-1,), (1, 16), True, (1, 16)),
        ((-1, 2, -1), (3, 5, 7, 4), True, (3, 5, 2, 4)),
        ((2,), (3, 5), True, (3, 2)),
        ((-1,), (3, 5, 7), True, (3, 5)),
        ((), (3,), True, (3,)),
        ((-1, 2), (6, 7), False, (6, 2)),
    ],
)
def test_variable_sizes_of_an_output_are_those_of_its_source(
    dims: Shape, source: Shape, batching: bool, expected: Shape
) -> None:
    assert output_shape(dims, source, batching=batching) == expected


@given(SHAPES)
def test_cutting_undoes_laying_the_elements_one_after_the_other(shapes: list[Shape]) -> None:
    arrays = [np.full(shape, index, np.int16) for index, shape in enumerate(shapes)]
    whole = np.concatenate([array.ravel() for array in arrays])
    pieces = cut(whole, shapes, name="y", source="x")
    assert [piece.shape for piece in pieces] == shapes
    assert [piece.tolist() for piece in pieces] == [array.tolist() for array in arrays]
    assert all(np.shares_memory(piece, whole) for piece in pieces if piece.size)


def test_an_output_of_several_dimensions_is_cut_in_the_order_of_its_elements() -> None:
    pieces = cut(np.arange(6).reshape(2, 3), [(1, 2), (1, 4)], name="y", source="x")
    assert [piece.tolist() for piece in pieces] == [[[0, 1]], [[2, 3, 4, 5]]]


@pytest.mark.parametrize("size", [0, 9, 11])
def test_an_output_of_another_size_is_a_failure_that_names_it_and_both_numbers(size: int) -> None:
    with pytest.raises(BackendFailure) as caught:
        cut(np.zeros(size), [(1, 8), (1, 2)], name="y", source="x")
    assert str(caught.value) == (
        f"the model returned {size} elements as output 'y', but the requests' shapes of input 'x' make it 10"
    )
