from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer.backends.api.batching import StagingBuffer, gather, scatter
from infer.backends.api.datatypes import Datatype
from infer.backends.api.errors import Internal
from infer.backends.api.tensor import Tensor


@given(st.lists(st.integers(0, 4), min_size=1, max_size=5), st.integers(0, 3))
def test_scatter_undoes_gather(rows: list[int], width: int) -> None:
    arrays = [np.full((count, width), index, np.int16) for index, count in enumerate(rows)]
    whole = gather([Tensor.from_numpy(array) for array in arrays], StagingBuffer())
    assert whole.shape == (sum(rows), width)
    assert whole.as_numpy().tolist() == np.concatenate(arrays).tolist()
    parts = scatter(whole, rows)
    assert [part.as_numpy().tolist() for part in parts] == [array.tolist() for array in arrays]


@given(st.lists(st.lists(st.tuples(st.binary(max_size=5), st.binary(max_size=5)), max_size=3), min_size=1, max_size=4))
def test_scatter_undoes_gather_for_bytes_whose_elements_differ_in_length(
    requests: list[list[tuple[bytes, bytes]]],
) -> None:
    def array(rows: list[tuple[bytes, bytes]]) -> Any:
        made = np.empty((len(rows), 2), dtype=object)
        for index, row in enumerate(rows):
            made[index] = row
        return made

    arrays = [array(rows) for rows in requests]
    whole = gather([Tensor.from_numpy(made) for made in arrays], StagingBuffer())
    parts = scatter(whole, [len(rows) for rows in requests])
    assert [part.as_numpy().tolist() for part in parts] == [made.tolist() for made in arrays]


def test_a_batch_of_one_is_handed_on_uncopied() -> None:
    tensor = Tensor.from_numpy(np.zeros((2, 3)))
    assert gather([tensor], StagingBuffer()) is tensor
    assert scatter(tensor, [2]) == [tensor]


def test_what_scatter_returns_are_views() -> None:
    whole = Tensor.from_numpy(np.zeros((2, 3)))
    assert all(np.shares_memory(part.as_numpy(), whole.as_numpy()) for part in scatter(whole, [1, 1]))


@pytest.mark.parametrize(
    "other", [np.zeros((1, 2), np.int32), np.zeros((1, 3), np.float32)], ids=["another datatype", "another shape"]
)
def test_tensors_that_differ_are_not_gathered(other: Any) -> None:
    with pytest.raises(Internal, match=r"cannot gather Tensor\(.*\) with Tensor\(.*\) into one batch"):
        gather([Tensor.from_numpy(np.zeros((1, 2), np.float32)), Tensor.from_numpy(other)], StagingBuffer())


@pytest.mark.parametrize("shape", [(2, 3), ()])
def test_an_output_with_another_number_of_rows_is_refused_with_both(shape: tuple[int, ...]) -> None:
    with pytest.raises(Internal, match=r"returned an output of shape \[.*\] for a batch of 3"):
        scatter(Tensor(Datatype.UINT8, shape, bytes(int(np.prod(shape)))), [1, 2])


@given(st.lists(st.integers(0, 300), min_size=1, max_size=6))
def test_staged_pieces_are_aligned_and_do_not_overlap(sizes: list[int]) -> None:
    staging = StagingBuffer()
    views = [staging.take(size) for size in sizes]
    for index, view in enumerate(views):
        view[:] = bytes([index]) * view.nbytes
    for index, view in enumerate(views):
        assert bytes(view) == bytes([index]) * view.nbytes
        assert not view.nbytes or np.frombuffer(view, np.uint8).ctypes.data % StagingBuffer.ALIGNMENT == 0


def test_a_staging_buffer_is_reused_after_a_reset_and_never_shrinks() -> None:
    staging = StagingBuffer()
    first = np.frombuffer(staging.take(1000), np.uint8)
    capacity = staging.capacity
    assert capacity >= 1000
    staging.reset()
    assert np.shares_memory(np.frombuffer(staging.take(10), np.uint8), first)
    assert staging.capacity == capacity
