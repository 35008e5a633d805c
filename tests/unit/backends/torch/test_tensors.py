"""The server's tensors as torch's, and back."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from infer.backends.api.datatypes import Datatype
from infer.backends.api.errors import InvalidArgument
from infer.backends.api.tensor import Tensor
from infer.backends.torch.staging import PinnedBuffer
from infer.backends.torch.tensors import aligned, borrowed, lent, text_tensor, texts


def test_a_tensor_is_borrowed_without_a_copy() -> None:
    array = np.array([[1, 2], [3, 4]], np.int32)
    assert borrowed(Tensor.from_numpy(array)).data_ptr() == array.ctypes.data


def test_read_only_memory_is_borrowed_without_a_warning() -> None:
    assert borrowed(Tensor(Datatype.INT16, (2,), b"\1\0\2\0")).tolist() == [1, 2]


def test_a_tensor_of_no_elements_has_its_shape() -> None:
    assert borrowed(Tensor(Datatype.FP32, (3, 0), b"")).shape == (3, 0)
    assert lent(torch.empty(3, 0)).nbytes == 0


def test_elements_at_an_odd_address_are_seen() -> None:
    memory = bytearray(64)
    start = -np.frombuffer(memory, np.uint8).ctypes.data % 4
    views = [Tensor(Datatype.FP32, (2,), memoryview(memory)[start + offset : start + offset + 8]) for offset in (0, 1)]
    assert [aligned(borrowed(view)) for view in views] == [True, False]


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(6).reshape(2, 3).t(),
        torch.tensor(5),
        torch.tensor([True, False]),
        torch.ones(2, dtype=torch.bfloat16),
    ],
)
def test_bytes_are_lent_in_order(tensor: torch.Tensor) -> None:
    raw = torch.frombuffer(bytearray(lent(tensor)), dtype=tensor.dtype)
    assert torch.equal(raw.reshape(tensor.shape), tensor)


def test_text_goes_there_and_back() -> None:
    words = ["déjà", "", "a\0b"]
    tensor = text_tensor(words, (3,))
    assert texts("m", "x", tensor) == words
    assert text_tensor([], (0,)).byte_size == 0


@pytest.mark.parametrize(
    ("buffer", "phrase"),
    [
        (
            b"\1\0\0\0\xff",
            "input 'x' of model 'm' is not UTF-8 text, which PyTorch's strings are: byte 0xff",
        ),
        (b"\5\0\0\0a", "input 'x' of model 'm': incomplete string data"),
    ],
)
def test_text_that_cannot_be_read_is_refused(buffer: bytes, phrase: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        texts("m", "x", Tensor(Datatype.BYTES, (1,), buffer))
    assert phrase in str(caught.value)


def test_pinned_memory_needs_a_gpu() -> None:
    buffer = PinnedBuffer()
    if torch.cuda.is_available():
        assert buffer.take(100).nbytes == 100
        return
    with pytest.raises(RuntimeError):
        buffer.take(100)
